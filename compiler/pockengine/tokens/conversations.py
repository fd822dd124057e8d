"""Conversations as lines of JSON hold them: `messages` with roles and contents, or `conversations` as ShareGPT has."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

ROLES = ("system", "user", "assistant", "tool")
_SPEAKERS = {
    "human": "user",
    "gpt": "assistant",
    "observation": "tool",
    **{role: role for role in ROLES},
}
"""What ShareGPT's `from` says, as a role."""

Message = dict[str, Any]


@dataclass(frozen=True)
class Conversation:
    """Messages in order, each with a `role` of ROLES and mostly a `content`; keys beyond are kept.

    tools   descriptions of functions that may be called, for templates that write them; None where there are none"""

    messages: tuple[Message, ...]
    tools: list[Any] | None = None

    @property
    def answers(self) -> tuple[int, ...]:
        """Indexes of the assistant's messages."""
        return tuple(at for at, one in enumerate(self.messages) if one["role"] == "assistant")

    def first(self, count: int) -> Conversation:
        """The messages before index `count`."""
        return Conversation(self.messages[:count], self.tools)

    def answered(self, content: str) -> Conversation:
        """With another content of the last message, which calls no tools then."""
        last = {key: value for key, value in self.messages[-1].items() if key != "tool_calls"}
        return Conversation((*self.messages[:-1], last | {"content": content}), self.tools)


def conversation_of(content: dict[str, Any]) -> Conversation | None:
    """What a line's object holds, None where it is no conversation. Raises ValueError with the end of a sentence."""
    if "messages" in content:
        messages = _objects(content["messages"], '"messages" is a list of {"role": …, "content": …}')
    elif "conversations" in content:
        messages = _shared(content["conversations"], content.get("system"))
    else:
        return None
    for one in messages:
        if one.get("role") not in ROLES or ("content" not in one and not one.get("tool_calls")):
            raise ValueError(f"a message has a role ({', '.join(ROLES)}) and a content")
    return Conversation(tuple(messages), _tools(content.get("tools")))


def _tools(said: Any) -> list[Any] | None:
    """A list, or its JSON as a text, as files of ShareGPT's form have it."""
    found = said
    if isinstance(said, str) and said.strip():
        with suppress(RecursionError, ValueError):
            found = json.loads(said)
    if found and not isinstance(found, list):
        raise ValueError('"tools" is a list of descriptions of functions, or such a list as a text of JSON')
    return found or None


def _shared(said: Any, system: Any) -> list[Message]:
    """ShareGPT's form with our names; `system` stands beside the entries in many files."""
    if system is not None and not isinstance(system, str):
        raise ValueError('"system" is a text')
    messages = _objects(said, '"conversations" is a list of {"from": …, "value": …}')
    for one in messages:
        speaker = one.get("from")
        if not isinstance(speaker, str) or speaker not in _SPEAKERS or "value" not in one:
            raise ValueError(f"an entry of \"conversations\" has a 'from' ({', '.join(_SPEAKERS)}) and a 'value'")
    found = [{"role": _SPEAKERS[one["from"]], "content": one["value"]} for one in messages]
    return [{"role": "system", "content": system}, *found] if system else found


def _objects(said: Any, form: str) -> list[Message]:
    if not isinstance(said, list) or not all(isinstance(one, dict) for one in said):
        raise ValueError(form)
    return said
