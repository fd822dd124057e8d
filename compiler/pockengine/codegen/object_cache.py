"""Objects that were compiled before, found by all that made them. Safe with concurrent processes.

An entry is a folder named by the SHA-256 of its inputs (folder_cache.py). On a hit the stored inputs are compared in
full and the object's digest is checked: a collision or a damaged disk is a miss, not a wrong program.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from pockengine.codegen.folder_cache import FolderCache, Usage, limit_bytes, workspace

Inputs = Mapping[str, str]
"""What an object depends on: plain texts by name (source, headers, triple, cpu, flags, compiler version)."""

_OBJECT = "object.o"
_RECORD = "inputs.json"
_OBJECTS = "objects"
_SHARDS = 256
"""Folders by the first two digits of the key, each bounded for itself: looking one over takes milliseconds."""
_SWEEPS = "0"
"""A shard is looked over when an object comes whose key ends so: one in sixteen."""
_IDLE = 3600.0
"""Seconds: a build is told its objects' paths and links them at the end."""


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
            shard = self._shard(entry.parent.name)
            shard.publish(new, entry, lambda: self.find(inputs) is not None)
        if entry.name.endswith(_SWEEPS):
            shard.shrink(limit_bytes() // _SHARDS, entry)
        return entry / _OBJECT

    def usage(self) -> Usage:
        """Objects, and the bytes of their files."""
        return sum((shard.usage() for shard in self._shards()), Usage())

    def prune(self, before: float) -> Usage:
        """Drop objects last used before this time (seconds since 1970); what went."""
        return sum((shard.prune(before) for shard in self._shards()), Usage())

    def workspace(self) -> AbstractContextManager[Path]:
        """A folder on the cache's own file system, removed afterwards."""
        return workspace(self.folder)

    def _entry(self, inputs: Inputs) -> Path:
        key = hashlib.sha256(json.dumps(dict(inputs), sort_keys=True).encode()).hexdigest()
        return self._shard(key[:2]).folder / key

    def _shard(self, prefix: str) -> FolderCache:
        return FolderCache(self.folder, f"{_OBJECTS}/{prefix}", _IDLE)

    def _shards(self) -> list[FolderCache]:
        return [self._shard(place.name) for place in (self.folder / _OBJECTS).glob("*")]
