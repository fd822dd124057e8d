"""Results, one line of JSON each, keyed by a digest of all that made them: what is there is not run again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pockengine.codegen.files import write_whole

Result = dict[str, Any]


def digest_of(*parts: object) -> str:
    """Of values that JSON can say, and of bytes."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode())
        found.update(b"\0")
    return found.hexdigest()[:24]


_RUNS = ("row", "scheme")
"""Kinds of results that tables are made of. What is kept of them stays as it is."""
_MEASURED = ("choosing", "search time", "step time")
"""Kinds that each version of the search makes anew: the newest one counts."""


class Store:
    """A file that lines are added to, by several processes at once if need be. Of one key the last line counts.

    kept  a file of results that tables are made of, too, whichever machine they are of"""

    def __init__(self, file: Path, kept: Path | None = None) -> None:
        self.file, self._kept_file = file, kept
        self._known: dict[str, Result] = {}
        self._read = 0
        self._kept = _results(kept.read_bytes()) if kept is not None and kept.exists() else {}
        self.refresh()

    def refresh(self) -> None:
        """Read what was added since. A line that was cut off, as a kill does it, counts as not there."""
        if not self.file.exists():
            return
        with self.file.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        self._known |= _results(whole)

    def kept(self, key: str) -> Result | None:
        """Of the file of kept results."""
        return self._kept.get(key)

    def keep(self) -> None:
        """Add what tables are made of to the kept results."""
        assert self._kept_file is not None
        for key, one in self._of(_RUNS).items():
            self._kept.setdefault(key, one)
        self._kept |= self._of(_MEASURED)
        write_whole(self._kept_file, [(json.dumps(one) + "\n").encode() for one in self._kept.values()])

    def get(self, key: str) -> Result | None:
        """The result of a key, whoever added it."""
        if key not in self._known:
            self.refresh()
        return self._known.get(key)

    def add(self, key: str, result: Result) -> Result:
        """Keeps it; returns it with its key."""
        kept = {"key": key, **result}
        self._known[key] = kept
        self.file.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(kept) + "\n"
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            whole = not self.file.stat().st_size or self._ends_with_newline()
            os.write(descriptor, (line if whole else "\n" + line).encode())
        finally:
            os.close(descriptor)
        return kept

    def _ends_with_newline(self) -> bool:
        with self.file.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def __iter__(self) -> Iterator[Result]:
        return iter({**self._known, **self._kept, **self._of(_MEASURED)}.values())

    def _of(self, kinds: Sequence[str]) -> dict[str, Result]:
        """What is known of these kinds, kept results left out."""
        return {key: one for key, one in self._known.items() if one.get("kind") in kinds}


def _results(lines: bytes) -> dict[str, Result]:
    """By key, without lines that are none."""
    found = {}
    for line in lines.splitlines():
        try:
            one = json.loads(line)
            found[one["key"]] = one
        except (ValueError, KeyError, TypeError):
            continue
    return found
