"""Objects that were compiled before, found by all that made them. Safe with concurrent processes.

An entry is a folder named by the SHA-256 of its inputs; it appears by one rename, so it is whole or absent. On a hit
the stored inputs are compared in full and the object's digest is checked: a collision or a damaged disk is a miss, not
a wrong program.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

Inputs = Mapping[str, str]
"""What an object depends on: plain texts by name (source, headers, triple, cpu, flags, compiler version)."""

_OBJECT = "object.o"
_RECORD = "inputs.json"


def platform_folder() -> Path:
    """Where this system keeps caches of `pockengine`."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pockengine"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pockengine"


def default_folder() -> Path:
    """`POCK_CACHE_DIR`, or the platform's cache folder."""
    chosen = os.environ.get("POCK_CACHE_DIR")
    return Path(chosen) if chosen else platform_folder()


@dataclass(frozen=True)
class ObjectCache:
    """Compiled objects below `folder`, which is made when needed."""

    folder: Path

    def find(self, inputs: Inputs) -> Path | None:
        """The object made from exactly these inputs, or None."""
        entry = self._entry(inputs)
        try:
            record = json.loads((entry / _RECORD).read_text("utf-8"))
            data = (entry / _OBJECT).read_bytes()
        except (OSError, ValueError):
            return None
        if record != {"inputs": dict(inputs), "sha256": hashlib.sha256(data).hexdigest()}:
            return None
        with suppress(OSError):  # a cache that may only be read
            os.utime(entry)
        return entry / _OBJECT

    def store(self, inputs: Inputs, made: Path) -> Path:
        """Takes over the object file `made` (of a folder of `workspace`) and returns where it now lies."""
        entry = self._entry(inputs)
        record = {"inputs": dict(inputs), "sha256": hashlib.sha256(made.read_bytes()).hexdigest()}
        with self.workspace() as folder:
            new = folder / "entry"
            new.mkdir()
            made.rename(new / _OBJECT)
            (new / _RECORD).write_text(json.dumps(record, sort_keys=True), "utf-8")
            entry.parent.mkdir(parents=True, exist_ok=True)
            self._publish(new, entry, inputs)
        return entry / _OBJECT

    def size(self) -> tuple[int, int]:
        """Objects, and the bytes of their files."""
        entries = self._entries()
        return len(entries), sum(_nbytes(entry) for entry in entries)

    def prune(self, before: float) -> int:
        """Drop objects last used before this time (seconds since 1970), and folders of builds that were killed; how
        many objects went."""
        old = [entry for entry in self._entries() if _modified(entry) < before]
        for place in [*old, *(work for work in self.folder.glob("work-*") if _modified(work) < before)]:
            shutil.rmtree(place, ignore_errors=True)
        return len(old)

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A folder on the cache's own file system, removed afterwards."""
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="work-", dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _publish(self, new: Path, entry: Path, inputs: Inputs) -> None:
        """One rename; when another process was first, its entry is as good, unless it is damaged."""
        try:
            new.rename(entry)
        except OSError:
            if self.find(inputs) is None:
                entry.rename(new.parent / "damaged")
                new.rename(entry)

    def _entries(self) -> list[Path]:
        return [entry for entry in (self.folder / "objects").glob("*/*") if entry.is_dir()]

    def _entry(self, inputs: Inputs) -> Path:
        key = hashlib.sha256(json.dumps(dict(inputs), sort_keys=True).encode()).hexdigest()
        return self.folder / "objects" / key[:2] / key


def _nbytes(folder: Path) -> int:
    """Bytes of the files in a folder, which other processes may be removing."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def _modified(place: Path) -> float:
    """When a place was last changed; never, where it is gone."""
    try:
        return place.stat().st_mtime
    except OSError:
        return float("inf")
