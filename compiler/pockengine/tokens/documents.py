"""Documents out of JSON lines: token ids, and which of them are to be learned."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from ..ir import Array
from .conversations import conversation_of
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .chat import Chat

MOST_LINE = 16 << 20
"""Bytes of a line."""
MOST_TOKENS = 1 << 27
"""Of all documents together: what is made of them is in memory at once."""
_FORMS = '{"text": …}, {"prompt": …, "answer": …}, {"messages": […]}, {"conversations": […]} or {"tokens": […]}'

Segment = tuple[Any, bool]
"""Text or token ids, and whether they are to be learned."""


@dataclass(frozen=True)
class Documents:
    """Documents one after the other: ids i32 [tokens], learned bool [tokens], and where each begins, i64
    [documents + 1], the last number being the end."""

    ids: Array
    learned: Array
    starts: Array

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True)
class Ends:
    """Ids put before each document (not learned) and behind it (learned: the model has to know when to end)."""

    begin: int | None = None
    end: int | None = None


def read_documents(
    files: Sequence[Path],
    vocabulary: int,
    tokenizer: Tokenizer | None = None,
    ends: Ends | None = None,
    chat: Chat | None = None,
) -> Documents:
    """The documents of files with one JSON object a line; empty lines are left out. Text needs a tokenizer; ids are
    from 0 to `vocabulary` - 1. With a `chat`, lines are conversations, which it lays out and makes tokens of. Raises
    DataError naming file and line, or the file whose conversations have no answer; OSError."""
    reader = _Reader(vocabulary, tokenizer, ends or Ends(), chat)
    for file in files:
        learned = reader.learned
        for number, line in _lines(file):
            try:
                reader.take(_object(line))
            except ValueError as error:
                raise DataError(f"{file}, line {number}: {error}") from None
        if chat is not None and reader.learned == learned:
            raise DataError(f"{file}: none of its conversations has an answer by the assistant, so nothing is learned")
    return reader.documents()


class _Reader:
    def __init__(self, vocabulary: int, tokenizer: Tokenizer | None, ends: Ends, chat: Chat | None) -> None:
        self._vocabulary, self._tokenizer, self._chat = vocabulary, tokenizer, chat
        try:
            self._begin, self._end = (self._checked([] if one is None else [one]) for one in (ends.begin, ends.end))
        except ValueError as error:
            raise DataError(f"what begins or ends documents: {error}") from None
        self.learned = 0
        """Tokens so far that are to be learned."""
        self._ids, self._learned, self._starts = array("i"), bytearray(), array("q", [0])

    def take(self, content: dict[str, Any]) -> None:
        """Adds a line's document, or documents. Raises ValueError with the end of a sentence."""
        if self._chat is None:
            self._add(_segments(content))
        else:
            for document in self._chat.documents(content):
                self._add(document)

    def _add(self, segments: Iterable[Segment]) -> None:
        parts = [(self._begin, False), *((self._encoded(part), learned) for part, learned in segments)]
        for ids, learned in [*parts, (self._end, True)]:
            self.learned += len(ids) if learned else 0
            self._ids.extend(ids)
            self._learned.extend((b"\1" if learned else b"\0") * len(ids))
        if len(self._ids) > MOST_TOKENS:
            raise ValueError(f"there are more than {MOST_TOKENS} tokens: make several datasets")
        self._starts.append(len(self._ids))

    def documents(self) -> Documents:
        """All that was taken."""
        learned = np.frombuffer(bytes(self._learned), bool)
        return Documents(np.array(self._ids, np.int32), learned, np.array(self._starts, np.int64))

    def _encoded(self, part: Any) -> list[int]:
        if isinstance(part, str):
            if self._tokenizer is None:
                raise ValueError("it has text: name a tokenizer with --tokenizer, or give token ids")
            return self._checked(self._tokenizer.encode(part))
        if not isinstance(part, list):
            raise ValueError(f"text or a list of token ids is wanted, not {str(part)[:40]!r}")
        return self._checked(part)

    def _checked(self, ids: list[Any]) -> list[int]:
        for one in ids:
            if type(one) is not int:
                raise ValueError(f"a token id is a whole number, not {str(one)[:40]!r}")
            if not 0 <= one < self._vocabulary:
                raise ValueError(f"the token {str(one)[:40]} is not in the vocabulary of 0 to {self._vocabulary - 1}")
        return ids


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers from 1."""
    with file.open("rb") as opened:
        number = 0
        while line := opened.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise DataError(f"{file}, line {number}: it is longer than {MOST_LINE} bytes")
            if line.strip():
                yield number, line


def _object(line: bytes) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"an object is wanted: {_FORMS}")
    return content


def _segments(content: dict[str, Any]) -> list[Segment]:
    """A document's parts in order."""
    if "prompt" in content and "answer" in content:
        return [(content["prompt"], False), (content["answer"], True)]
    if (conversation := conversation_of(content)) is not None:
        return [(one.get("content"), one["role"] == "assistant") for one in conversation.messages]
    for key in ("text", "tokens"):
        if key in content:
            return [(content[key], True)]
    raise ValueError(f"it has neither form of a document: {_FORMS}")
