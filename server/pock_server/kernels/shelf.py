"""The store's side: what builds of one workspace compiled, for those that other machines make of it.

Each workspace has a shelf of its own, as it has a cache of its own: a build reads what is everybody's and its
workspace's, and can poison no other one's programs. On a hit the compiler compares all inputs, as with its own cache.
"""

import re
from pathlib import Path

from pock_server.blobs.store import BlobStore, StoredObject
from pock_server.kernels.entries import MOST_OBJECT, MOST_RECORD, keys_in, read_entry, write_entry

FOLDER = "kernels"
MOST_LENT = 5000
"""Kernels that a build is lent, the newest."""
MOST_LENT_BYTES = 256 << 20
_MOST_BYTES = MOST_RECORD + MOST_OBJECT + 8
_KEY = re.compile(r"[0-9a-f]{64}")
_LEFT = 3 / 4
"""Of what a shelf may hold, once it was too much."""


class Shelf:
    """Of one workspace; at most `limit` bytes."""

    def __init__(self, store: BlobStore, workspace_id: str, limit: int) -> None:
        self._store, self._folder, self._limit = store, f"{FOLDER}/{workspace_id}", limit

    def lend(self, cache: Path, folder: Path) -> int:
        """Put what a workspace's cache lacks into `folder`, which builds may read; how many kernels."""
        have, left, count = keys_in(cache), MOST_LENT_BYTES, 0
        for item in sorted(self._stored(), key=lambda item: item.modified_at, reverse=True):
            key = _key(item)
            if key in have or item.size > left or count == MOST_LENT:
                continue
            content = self._store.read_key(item.key, _MOST_BYTES)
            if content is not None and write_entry(folder, key, content):
                left, count = left - item.size, count + 1
        return count

    def take(self, cache: Path) -> int:
        """Store what a workspace's cache has more; how many kernels. The least recently stored ones go when there is no
        room."""
        stored = self._stored()
        new = sorted(keys_in(cache) - {_key(item) for item in stored})
        count, size = 0, sum(item.size for item in stored)
        for key in new:
            content = read_entry(cache, key)
            if content is not None and len(content) <= self._limit:
                self._store.put_key(f"{self._folder}/{key}", content)
                count, size = count + 1, size + len(content)
        if size > self._limit:
            self._trim()
        return count

    def _stored(self) -> list[StoredObject]:
        batches = self._store.list_objects(self._folder)
        return [item for batch in batches for item in batch if _KEY.fullmatch(_key(item))]

    def _trim(self) -> None:
        room, dropped = int(self._limit * _LEFT), list[str]()
        for item in sorted(self._stored(), key=lambda item: item.modified_at, reverse=True):
            room -= item.size
            if room < 0:
                dropped.append(item.key)
        self._store.delete_objects(dropped)


def _key(item: StoredObject) -> str:
    return item.key.rpartition("/")[2]
