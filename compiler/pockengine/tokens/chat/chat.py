"""Conversations as documents of token ids, by a model's template and tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from types import TracebackType
from typing import Any

from ..conversations import Conversation, conversation_of
from ..tokenizer import Encoded, Tokenizer
from .answers import PLACE, LaidOut, each_laid_out, laid_out
from .folder import ChatFolder
from .rendering import BEGIN, END, Bounds, Extent, Renderer

_RESERVED = (BEGIN, END, PLACE)


class Chat:
    """Lays out conversations. `with` ends the process in which templates run.

    apart       each answer becomes a document, with what comes before it; else a conversation does, with all answers
    variables   what the template reads beside messages, tools and special tokens, by name, such as `enable_thinking`

    Raises DataError where the template is none, PockError where jinja2 is missing."""

    def __init__(
        self,
        folder: ChatFolder,
        tokenizer: Tokenizer,
        *,
        apart: bool = False,
        variables: Mapping[str, Any] | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._tokenizer, self._apart = tokenizer, apart
        self._renderer = Renderer(folder, variables, bounds)

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._renderer.close()

    def documents(self, content: dict[str, Any]) -> Iterator[list[tuple[list[int], bool]]]:
        """A line's documents: token ids in order, and whether they are to be learned. Raises ValueError, the end of a
        sentence."""
        conversation = conversation_of(content)
        if conversation is None:
            raise ValueError('with --chat a line is a conversation: {"messages": [{"role": …, "content": …}, …]}')
        _check(conversation)
        texts = each_laid_out(conversation, self._renderer) if self._apart else [laid_out(conversation, self._renderer)]
        for one in texts:
            yield self._encoded(one)

    def _encoded(self, one: LaidOut) -> list[tuple[list[int], bool]]:
        encoded = self._tokenizer.encode_with_extents(one.text)
        learned = _learned(encoded, one.answers)
        runs = groupby(zip(encoded.ids, learned, strict=True), key=lambda pair: pair[1])
        return [([token for token, _ in run], kind) for kind, run in runs]


def _check(conversation: Conversation) -> None:
    if not conversation.messages:
        raise ValueError("the conversation has no message")
    for number, one in enumerate(conversation.messages, 1):
        content = one.get("content")
        if one.get("tool_calls") and content is None:
            continue
        if not isinstance(content, str):
            raise ValueError(f"message {number}: with --chat its content is a text, not {str(content)[:40]!r}")
        if one["role"] == "assistant" and not content.strip() and not one.get("tool_calls"):
            raise ValueError(
                f"message {number} is an empty answer: leave the message out, or say what is to be learned"
            )
        if any(mark in content for mark in _RESERVED):
            raise ValueError(f"message {number} has a code point of U+FDD0 to U+FDD2, which are no characters")


def _learned(encoded: Encoded, answers: tuple[Extent, ...]) -> list[bool]:
    """Tokens that reach into an answer, and those between them."""
    learned, at = [False] * len(encoded.ids), 0
    for begin, end in answers:
        while at < len(learned) and encoded.extents[at][1] <= begin:
            at += 1
        last = at
        for here in range(at, len(learned)):
            if encoded.extents[here][0] >= end:
                break
            if encoded.extents[here][1] > begin:
                last = here + 1
        learned[at:last] = [True] * (last - at)
        at = last
    return learned
