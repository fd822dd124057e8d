"""What tuning learned as a file: JSON lines, so that a target's knowledge can be looked at, compared and shipped.

The first line says what the file is; each other line is one result with all that it depends on. Whoever reads it may
have it from a stranger: lines, their number and what they hold are bounded, and a result only names a choice,
which counts where it is one of the candidates."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..codegen.files import write_whole
from ..errors import PockError
from .store import Entry, Inputs, Result, result_of
from .workload import key_of

FORMAT, FORMAT_VERSION = "pock-tuning", 1
MOST_ENTRIES = 200_000
MOST_LINE = 256 << 10
"""Bytes; the longest part is a fused body."""


def write_entries(path: Path, entries: Iterable[Entry]) -> int:
    """Write results, sorted, so that equal knowledge is an equal file; how many. Raises OSError."""
    lines = sorted(_line(entry) for entry in entries)
    head = json.dumps({"format": FORMAT, "version": FORMAT_VERSION})
    write_whole(path, (f"{line}\n".encode() for line in (head, *lines)))
    return len(lines)


def _line(entry: Entry) -> str:
    content = {
        "inputs": dict(entry.inputs),
        "result": vars(entry.result),
        "created": entry.created,
        "provenance": dict(entry.provenance),
    }
    return json.dumps(content, sort_keys=True)


def read_entries(path: Path) -> list[Entry]:
    """The results in a file. Raises PockError where it is no such file, and OSError."""
    with path.open("rb") as file:
        lines = _lines(path, file)
        head = _parsed(next(lines, b""))
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise PockError(f"'{path}' is no file of tuning results: write one with 'pock tuning export'")
        if head.get("version") != FORMAT_VERSION:
            raise PockError(f"'{path}' has version {head.get('version')!r}; this program reads {FORMAT_VERSION}")
        return [_entry(path, number, line) for number, line in enumerate(lines, start=2)]


def _lines(path: Path, file: Any) -> Iterator[bytes]:
    for number in range(1, MOST_ENTRIES + 3):
        line = file.readline(MOST_LINE + 1)
        if not line:
            return
        if len(line) > MOST_LINE:
            raise PockError(f"line {number} of '{path}' is longer than {MOST_LINE} bytes")
        yield line
    raise PockError(f"'{path}' has more than {MOST_ENTRIES} results")


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _entry(path: Path, number: int, line: bytes) -> Entry:
    content = _parsed(line)
    try:
        inputs, created = content["inputs"], content["created"]
        result, provenance = result_of(content["result"]), content.get("provenance", {})
    except (KeyError, TypeError, AttributeError):
        inputs, created, result, provenance = None, 0.0, None, {}
    texts = isinstance(inputs, dict) and all(isinstance(text, str) for item in inputs.items() for text in item)
    whole = texts and {"family", "device", "sizes"} <= set(inputs or ()) and isinstance(provenance, dict)
    if not whole or result is None or not isinstance(created, (int, float)) or not math.isfinite(created):
        raise PockError(f"line {number} of '{path}' is no result of tuning")
    return Entry(dict(inputs or {}), result, float(created), float(created), provenance)


class FileStore:
    """A store of the results in a file. What is put is kept in memory only."""

    def __init__(self, path: Path) -> None:
        """Raises PockError where the file is no such file, and OSError."""
        self._entries = {key_of(entry.inputs): entry for entry in read_entries(path)}

    def get(self, inputs: Inputs) -> Result | None:
        """See TuningStore."""
        found = self._entries.get(key_of(inputs))
        return found.result if found is not None and dict(found.inputs) == dict(inputs) else None

    def put(self, inputs: Inputs, result: Result) -> None:
        """See TuningStore."""
        self._entries[key_of(inputs)] = Entry(dict(inputs), result, 0.0, 0.0)

    def list(self, family: str | None = None, device: str | None = None) -> Sequence[Entry]:
        """See TuningStore."""
        wanted: Mapping[str, str | None] = {"family": family, "device": device}
        found = [
            entry
            for entry in self._entries.values()
            if all(text is None or entry.inputs.get(name) == text for name, text in wanted.items())
        ]
        return sorted(found, key=lambda entry: (-entry.created, key_of(entry.inputs)))

    def prune(self, before: float) -> int:
        """Nothing goes: the file says what it says."""
        return 0
