"""JSON texts of any length, read and written so that other threads go on meanwhile.

The C code of Python's parser and writer keeps the interpreter to itself until it is done, in whatever thread it runs:
four megabytes take a quarter of a second, in which the event loop answers nobody. What calls Python code now and then
lets others in.
"""

import json
from typing import Any

LONG = 64 << 10
"""Bytes from which on a text is read in this way: it takes twice as long, in a thread that needs a moment to begin."""
_PARTS = 200_000
"""Texts, lists and objects of a stranger's text. They are read without a call of Python code: so many take 50 ms."""


class TooManyParts(ValueError):
    """A long text that would keep the interpreter."""


class Written(dict[str, Any]):
    """A JSON object that knows its text, so that nobody has to write it once more."""

    text: str


def read(text: str | bytes) -> Any:
    """The value of a JSON text; raises `json.JSONDecodeError`."""
    if len(text) < LONG:
        return json.loads(text)
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    return _READER.decode(text)


def refuse_many_parts(text: bytes) -> None:
    """Raise `TooManyParts` for the long text of a stranger that has too many."""
    if text.count(b'"') // 2 + text.count(b"[") + text.count(b"{") > _PARTS:
        raise TooManyParts(f"holds more than {_PARTS} texts, lists and objects")


def write(value: Any) -> str:
    """The JSON text of a value."""
    return value.text if isinstance(value, Written) else json.dumps(value)


def written(value: dict[str, Any], characters: int) -> Written:
    """The object with its text; raises ValueError if that is longer than `characters`, or holds NaN or infinities."""
    parts, left = [], characters
    for part in _WRITER.iterencode(value):
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise ValueError(f"holds more than {characters} characters as JSON")
    found = Written(value)
    found.text = "".join(parts)
    return found


# Functions of Python, where the types themselves would be called without letting anybody in.


def _float(digits: str) -> float:
    return float(digits)


def _int(digits: str) -> int:
    return int(digits)


def _object(found: dict[str, Any]) -> dict[str, Any]:
    return found


_READER = json.JSONDecoder(parse_float=_float, parse_int=_int, object_hook=_object)
_WRITER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
