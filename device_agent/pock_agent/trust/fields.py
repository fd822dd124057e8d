"""Signed JSON, read strictly: an unknown, missing or wrongly typed field is refused, and so is one given twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeVar

from pock_agent.values import parse_time

T = TypeVar("T")


class Malformed(ValueError):
    """A signed text that does not follow the contract; the message names the field."""


class Fields:
    """A JSON object, of which every field has to be asked for. `known` has their names, `path` says where it stands.

    `extra` has the names of fields that came with a feature (`pock_agent.features`): older services leave them out, and
    one that is left out is None.
    """

    def __init__(self, value: object, path: str, known: str, extra: str = "") -> None:
        if not isinstance(value, dict):
            raise Malformed(f"{path} is not an object")
        names, extras = known.split(), extra.split()
        unknown = sorted(set(value) - {*names, *extras})
        if unknown:
            raise Malformed(f"{path} has the unknown field {unknown[0]!r}; update this agent if the service is newer")
        missing = [name for name in names if name not in value]
        if missing:
            raise Malformed(f"{path} lacks the field {missing[0]!r}")
        self._value, self._path = {**dict.fromkeys(extras), **value}, path

    def raw(self, name: str) -> object:
        """The field, whatever it is."""
        return self._value[name]

    def at(self, name: str) -> str:
        """Where the field stands."""
        return f"{self._path}.{name}"

    def typed(self, name: str, kind: type[T]) -> T:
        """The field, which has to be of exactly this type."""
        value = self._value[name]
        if type(value) is not kind:  # not isinstance: true is no integer here
            raise Malformed(f"{self.at(name)} is {value!r} where {kind.__name__} was expected")
        return value

    def integer(self, name: str, low: int = 0, high: int = (1 << 63) - 1) -> int:
        """A whole number within these bounds."""
        value = self.typed(name, int)
        if not low <= value <= high:
            raise Malformed(f"{self.at(name)} is {value}, outside {low}..{high}")
        return value

    def share(self, name: str) -> float:
        """A number between 0 and 1, neither of them."""
        value = self.typed(name, float)
        if not 0 < value < 1:
            raise Malformed(f"{self.at(name)} is {value}, which is not between 0 and 1")
        return value

    def matching(self, name: str, pattern: re.Pattern[str], what: str) -> str:
        """A text that the whole pattern matches; `what` says what it is."""
        value = self.typed(name, str)
        if not pattern.fullmatch(value):
            raise Malformed(f"{self.at(name)} is {value!r}, which is no {what}")
        return value

    def time(self, name: str) -> float:
        """An RFC 3339 time, in seconds since the epoch."""
        try:
            return parse_time(self._value[name])
        except ValueError as error:
            raise Malformed(f"{self.at(name)}: {error}") from error

    def optional(self, name: str, read: Callable[[object, str], T]) -> T | None:
        """None, or what `read` makes of the field."""
        value = self._value[name]
        return None if value is None else read(value, self.at(name))


def parse_signed(text: bytes) -> object:
    """The JSON value of a signed text; Malformed for anything that two readers might read differently."""
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not valid JSON: {error}") from error


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a field is given twice")
    return result


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is not JSON")
