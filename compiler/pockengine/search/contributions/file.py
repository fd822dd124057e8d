"""Contributions as a JSON file. A file from elsewhere is not trusted: all of it is checked against the space."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from ...codegen.files import write_whole
from ...errors import DataError, nearest
from ...ir import Array
from ..space import Space, Unit
from .contributions import Contributions

FORMAT = 1
_MOST_BYTES = 64 << 20
_KEYS = ("format", "method", "seconds", "units", "provenance")
_UNIT_KEYS = ("name", "shares", "gains")
_IMPORTANCE, _RANKS = "importance", "ranks"


def save(contributions: Contributions, path: str | Path) -> None:
    """Write a JSON file, which appears whole or not at all. Raises OSError."""
    units = []
    for unit, gains in zip(contributions.space.units, contributions.gains, strict=True):
        row: dict[str, Any] = {"name": unit.name, "shares": list(unit.shares), "gains": list(gains)}
        if unit.ranks:
            row[_RANKS] = list(unit.ranks)
        if unit.name in contributions.importance:
            row[_IMPORTANCE] = contributions.importance[unit.name].tolist()
        units.append(row)
    found = {
        "format": FORMAT,
        "method": contributions.method,
        "seconds": contributions.seconds,
        "provenance": dict(contributions.provenance),
        "units": units,
    }
    write_whole(Path(path), [json.dumps(found, allow_nan=False).encode(), b"\n"])


def load(path: str | Path, space: Space) -> Contributions:
    """From a file that `save` wrote for the same space. Raises DataError, which says what is wrong with it."""
    try:
        return _Reader(_parsed(Path(path)), space).contributions()
    except _WrongError as error:
        raise DataError(f"'{path}' cannot be used as contributions: {error}") from None


class _WrongError(Exception):
    """What is wrong with a file, as the end of a sentence."""


def _parsed(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise _WrongError("there is no such file") from None
    except OSError as error:
        raise _WrongError(str(error.strerror)) from None
    if len(text) > _MOST_BYTES:
        raise _WrongError(f"it is larger than {_MOST_BYTES >> 20} MiB")
    try:
        return json.loads(text, object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise _WrongError("it has too many lists within each other") from None
    except ValueError as error:  # no JSON, no UTF-8, a number of thousands of digits
        raise _WrongError(f"it is not JSON ({error})") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _WrongError("a key is there twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _WrongError(f"{text:.40} is not finite")
    return number


class _Reader:
    """Checks what was parsed against a space, part by part."""

    def __init__(self, parsed: Any, space: Space) -> None:
        self.parsed, self.space = parsed, space

    def contributions(self) -> Contributions:
        found = _mapping(self.parsed, "it", _KEYS)
        if found["format"] != FORMAT or isinstance(found["format"], bool):
            given = repr(found["format"])[:40]
            raise _WrongError(f"it has the format {given}, and this version reads {FORMAT}: make it again")
        method, provenance = found["method"], found["provenance"]
        if not isinstance(method, str) or not method:
            raise _WrongError("its method is no text")
        if not isinstance(provenance, dict):
            raise _WrongError("its provenance is no mapping")
        seconds = _number(found["seconds"], "seconds")
        if seconds < 0:
            raise _WrongError("seconds is negative")
        rows = found["units"]
        if not isinstance(rows, list) or len(rows) != len(self.space.units):
            count = len(rows) if isinstance(rows, list) else "no"
            raise _WrongError(f"it is of another model: it has {count} units, the model {len(self.space.units)}")
        gains, importance = [], {}
        for place, (row, unit) in enumerate(zip(rows, self.space.units, strict=True)):
            gains.append(_gains(row, unit, f"unit {place}"))
            if _IMPORTANCE in row:
                importance[unit.name] = _importance(row[_IMPORTANCE], unit)
        return Contributions(self.space, tuple(gains), method, seconds, provenance, importance)


def _gains(row: Any, unit: Unit, where: str) -> tuple[float, ...]:
    found = _mapping(row, where, _UNIT_KEYS, _IMPORTANCE, _RANKS)
    if found["name"] != unit.name:
        given = repr(found["name"])[:100]
        raise _WrongError(f"it is of another model: {where} is {given}, the model has '{unit.name}' there")
    shares = _numbers(found["shares"], f"the shares of '{unit.name}'", len(unit.shares))
    if shares != unit.shares:
        raise _WrongError(f"it is of other shares: '{unit.name}' can be trained at {list(unit.shares)}")
    ranks = _numbers(found.get(_RANKS, []), f"the ranks of '{unit.name}'", len(unit.ranks))
    if ranks != unit.ranks:
        raise _WrongError(f"it is of other adapters: '{unit.name}' can have the ranks {list(unit.ranks)}")
    gains = _numbers(found["gains"], f"the gains of '{unit.name}'", unit.options)
    if gains[0] != 0.0:
        raise _WrongError(f"'{unit.name}' gains {gains[0]:g} frozen, which must be 0")
    return gains


def _importance(value: Any, unit: Unit) -> Array:
    if unit.axis is None:
        raise _WrongError(f"'{unit.name}' has no input channels, but an importance of them")
    return np.array(_numbers(value, f"the importance of '{unit.name}'", unit.shape[unit.axis]))


def _mapping(value: Any, where: str, keys: tuple[str, ...], *optional: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WrongError(f"{where} is no mapping")
    for key in keys:
        if key not in value:
            raise _WrongError(f"{where} has no '{key}'")
    for key in value:
        if key not in (*keys, *optional):
            raise _WrongError(f"{where} has the unknown key '{key:.100}'{nearest(key[:100], (*keys, *optional))}")
    return value


def _numbers(value: Any, what: str, count: int) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) != count:
        raise _WrongError(f"{what} must be a list of {count} numbers")
    return tuple(_number(one, what) for one in value)


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _WrongError(f"{what} must be numbers, not {repr(value)[:40]}")
    try:
        return float(value)
    except OverflowError:
        raise _WrongError(f"{what} must be finite") from None
