"""Files of tuning results: JSON lines, as docs/tuning.md describes them. The compiler reads the same files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pock_client.errors import PockClientError
from pock_client.schema import TuningEntry, TuningEntryIn

_HEAD = {"format": "pock-tuning", "version": 1}
_MOST_ENTRIES = 200_000
_MOST_LINE = 256 << 10
_AT_ONCE, _BYTES_AT_ONCE = 200, 512 << 10
"""What the service takes at once, and half of the bytes: it counts them with escapes."""


def write_file(path: Path, entries: Sequence[TuningEntry]) -> int:
    """Write entries, sorted, so that equal knowledge is an equal file; how many. The file appears whole."""
    lines = sorted(json.dumps(_plain(one), sort_keys=True) for one in entries)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text("".join(f"{line}\n" for line in (json.dumps(_HEAD), *lines)), "utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return len(lines)


def _plain(one: TuningEntry) -> dict[str, Any]:
    result = {
        "choice": one.choice,
        "ms": one.ms,
        "model_ms": one.model_ms,
        "mode": "fast",
        "tried": one.candidates,
        "rejected": 0,
        "by": str(one.source),
    }
    return {
        "inputs": one.inputs,
        "result": result,
        "created": one.decided_at.timestamp() if one.decided_at else 0.0,
        "provenance": {**(one.provenance or {}), "target": one.target, "devices": one.devices},
    }


def read_file(path: Path) -> list[TuningEntryIn]:
    """The entries in a file, as the service takes them. Raises PockClientError that says which line is none."""
    try:
        with path.open("rb") as file:
            head = _parsed(file.readline(_MOST_LINE))
            if not isinstance(head, dict) or head.get("format") != _HEAD["format"]:
                raise PockClientError(f"{path} is no file of tuning results: `pock tuning export` writes them")
            if head.get("version") != _HEAD["version"]:
                raise PockClientError(f"{path} has version {head.get('version')!r}; this program reads 1")
            found: list[TuningEntryIn] = []
            while line := file.readline(_MOST_LINE + 1):
                if len(line) > _MOST_LINE or len(found) == _MOST_ENTRIES:
                    raise PockClientError(f"{path} is too long at line {len(found) + 2}")
                found.append(_entry(path, len(found) + 2, line))
            return found
    except FileNotFoundError:
        raise PockClientError(f"there is no file {path}") from None


def portions(entries: Sequence[TuningEntryIn]) -> Iterator[list[TuningEntryIn]]:
    """The entries in as many as one request may have."""
    portion: list[TuningEntryIn] = []
    nbytes = 0
    for one in entries:
        size = len(msgspec.json.encode(one))
        if portion and (len(portion) == _AT_ONCE or nbytes + size > _BYTES_AT_ONCE):
            yield portion
            portion, nbytes = [], 0
        portion.append(one)
        nbytes += size
    if portion:
        yield portion


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _entry(path: Path, number: int, line: bytes) -> TuningEntryIn:
    content = _parsed(line)
    try:
        result = content["result"]
        told = {"choice": result["choice"], "ms": result.get("ms"), "model_ms": result.get("model_ms")}
        told |= {"inputs": content["inputs"], "provenance": content.get("provenance")}
        return msgspec.convert(told, TuningEntryIn)
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError):
        raise PockClientError(f"line {number} of {path} is no result of tuning") from None
