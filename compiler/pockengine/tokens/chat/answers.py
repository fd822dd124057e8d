"""Where a conversation's answers are in its text: each with the end of its turn, and nothing of what leads to it.

A template with generation blocks says it. Of another one, three texts are compared: the conversation up to an answer
with the generation prompt, the same with the answer, and with another text in the answer's place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..conversations import Conversation
from .rendering import Extent, Renderer

PLACE = "\ufdd2"
"""Stands where an answer's content would; a code point that is no character."""
_MARK = "or mark the answers in the template with {% generation %} … {% endgeneration %}"


@dataclass(frozen=True)
class LaidOut:
    """A conversation's text, and the answers in it as (begin, end) in characters, in order."""

    text: str
    answers: tuple[Extent, ...]


def laid_out(conversation: Conversation, renderer: Renderer) -> LaidOut:
    """All answers in the text of the whole. Raises ValueError, the end of a sentence, where the text up to an answer
    does not begin the text of the whole."""
    whole = renderer.render(conversation)
    if renderer.marks(conversation):
        return LaidOut(whole.text, whole.blocks)
    found = []
    for at in conversation.answers:
        part, (begin, end) = _answer(conversation, at, renderer)
        if not whole.text.startswith(part[:end]):
            difference = _difference(part[:end], whole.text)
            raise ValueError(
                f"{_called(at)} is not laid out the same when messages follow it ({difference}): "
                f"learn each answer by itself with --each-answer, {_MARK}"
            )
        found.append((begin, end))
    return LaidOut(whole.text, tuple(found))


def each_laid_out(conversation: Conversation, renderer: Renderer) -> Iterator[LaidOut]:
    """Each answer in a text of its own, with what comes before it; the whole, where there is no answer."""
    for at in conversation.answers:
        if renderer.marks(conversation):
            rendered = renderer.render(conversation.first(at + 1))
            yield LaidOut(rendered.text, rendered.blocks[-1:])
        else:
            text, answer = _answer(conversation, at, renderer)
            yield LaidOut(text, (answer,))
    if not conversation.answers:
        yield LaidOut(renderer.render(conversation).text, ())


def _answer(conversation: Conversation, at: int, renderer: Renderer) -> tuple[str, Extent]:
    """The text of the messages to the one at `at`, and where the answer is in it."""
    before, including = conversation.first(at), conversation.first(at + 1)
    prompt, text = renderer.render(before, prompt=True).text, renderer.render(including).text
    if not text.startswith(prompt):
        raise ValueError(
            f"{_called(at)} does not begin behind the template's generation prompt ({_difference(prompt, text)}): "
            f"let the template write both alike, {_MARK}"
        )
    head, place, tail = renderer.render(including.answered(PLACE)).text.rpartition(PLACE)
    begin = len(prompt)
    if head[begin:].strip() and text.startswith(head) and renderer.render(before).text == prompt:
        begin = len(head)  # the template has no generation prompt: what leads to the answer stands in its message
    if place and text.endswith(tail):
        closing = re.match(r"\s*\S+", tail)
        end = len(text) - len(tail) + (closing.end() if closing else len(tail))
    else:  # the answer has more than its content, such as calls of tools
        end = len(text.rstrip())
    if end <= begin:
        raise ValueError(f"{_called(at)} is not in what the template writes: {_MARK.removeprefix('or ')}")
    return text, (begin, end)


def _called(at: int) -> str:
    return f"message {at + 1} (assistant)"


def _difference(wanted: str, found: str) -> str:
    """Where the second text leaves the first one."""
    at = next((at for at, (one, other) in enumerate(zip(wanted, found, strict=False)) if one != other), None)
    at = min(len(wanted), len(found)) if at is None else at
    begin = max(0, at - 12)
    return f"{found[begin : at + 12]!r} for {wanted[begin : at + 12]!r}"
