"""The content-addressed store of verified blobs: hashed on the way in, and hashed again before each use."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pock_agent.disk.files import sync_directory
from pock_agent.errors import FailureCode, JobFailed
from pock_agent.settings import Settings

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Blob:
    """Content by its SHA-256 (64 lower-case hexadecimal digits) and size in bytes."""

    sha256: str
    size: int


def file_digest(path: Path) -> str:
    """SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class BlobCache:
    """Blobs under `root/sha256`, unfinished ones under `root/partial`."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self._blobs, self._partial = root / "sha256", root / "partial"
        self._settings = settings
        for folder in (self._blobs, self._partial):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def find(self, blob: Blob) -> Path | None:
        """The verified file of a blob, or None. A file that no longer matches its digest is removed."""
        path = self._blobs / blob.sha256
        try:
            intact = path.stat().st_size == blob.size and file_digest(path) == blob.sha256
        except OSError:
            return None
        if not intact:
            path.unlink()
            return None
        os.utime(path)
        return path

    def partial(self, blob: Blob) -> Path:
        """Where the bytes of a blob collect until they are complete."""
        return self._partial / blob.sha256

    def add(self, blob: Blob) -> Path | None:
        """Take a complete download in; None (and the bytes are gone) when it has another digest or size."""
        partial, path = self.partial(blob), self._blobs / blob.sha256
        if partial.stat().st_size != blob.size or file_digest(partial) != blob.sha256:
            partial.unlink()
            return None
        os.chmod(partial, 0o444)
        os.rename(partial, path)
        sync_directory(self._blobs)
        return path

    def drop(self, blob: Blob) -> None:
        """Keep the blob no longer; what came of an unfinished one stays."""
        (self._blobs / blob.sha256).unlink(missing_ok=True)

    def drop_partials(self) -> None:
        """Give the room of unfinished downloads back."""
        for path in self._partial.iterdir():
            with contextlib.suppress(OSError):
                path.unlink()

    def make_room(self, needed: int, keep: Iterable[Blob]) -> None:
        """Drop least recently used blobs until `needed` bytes fit within the cache's limit and on the disk.

        Raises JobFailed (disk full) when the disk has too little room even then.
        """
        kept = {blob.sha256 for blob in keep}
        stored = [(path.stat(), path) for path in self._blobs.iterdir()]
        total = sum(status.st_size for status, _ in stored)
        for status, path in sorted(stored, key=lambda item: item[0].st_mtime):
            if self._lacking(needed) <= 0 and total + needed <= self._settings.cache_bytes:
                break
            if path.name not in kept:
                path.unlink()
                total -= status.st_size
        lacking = self._lacking(needed)
        if lacking > 0:
            raise JobFailed(
                FailureCode.DISK_FULL,
                f"the job needs {needed} more bytes and the disk of {self._blobs} lacks {lacking}; free some room",
            )

    def _lacking(self, needed: int) -> int:
        free = shutil.disk_usage(self._blobs).free
        return needed + min(self._settings.disk_reserve_bytes, needed) - free
