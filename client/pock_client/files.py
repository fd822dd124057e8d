"""Files of this machine, sent and received: hashing, the unfinished file of a download, where an upload stands."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from pock_client.errors import Damaged, PockClientError

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

_CHUNK_BYTES = 1 << 20
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SPARE_BYTES = 16 << 20


def digest_and_size(path: Path) -> tuple[str, int]:
    """SHA-256 and size of a file, read chunk by chunk. PockClientError if it cannot be sent."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise PockClientError(f"{path} cannot be read: {error.strerror}") from error
    if not size:
        raise PockClientError(f"{path} is empty")
    return digest.hexdigest(), size


def read_part(path: Path, offset: int, size: int) -> bytes:
    """Up to `size` bytes of a file from `offset` on."""
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.read(size)
    except OSError as error:
        raise PockClientError(f"{path} cannot be read: {error.strerror}") from error


class PartFile:
    """The unfinished file of a download, `NAME.part` beside it. It goes on from what an earlier one left."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.part")
        self._stream: BinaryIO
        self.size = 0
        self.inherited = 0
        """Bytes that an earlier download left."""
        self._digest = hashlib.sha256()

    def open(self) -> None:
        """Take the file for this download alone, and hash what is there."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        try:
            self._stream = os.fdopen(os.open(self._part, flags, 0o666), "r+b")
            try:
                _lock(self._stream)
            except OSError:
                self._stream.close()
                raise PockClientError(
                    f"another download writes {self._part}: wait for it, or choose another name"
                ) from None
            while chunk := self._stream.read(_CHUNK_BYTES):
                self._digest.update(chunk)
                self.size += len(chunk)
        except OSError as error:
            raise PockClientError(f"{self._part} cannot be written: {error.strerror}") from error
        self.inherited = self.size

    def restart(self) -> None:
        """Begin with nothing."""
        self._stream.seek(0)
        self._stream.truncate()
        self.size = self.inherited = 0
        self._digest = hashlib.sha256()

    def check_room(self, size: int) -> None:
        """PockClientError if the disk has no room for a file of `size` bytes."""
        free = shutil.disk_usage(self._part.parent).free
        if size - self.size + _SPARE_BYTES > free:
            raise PockClientError(f"{self._path} needs {size - self.size} bytes, but only {free} are free there")

    def write(self, chunk: bytes) -> None:
        """Append."""
        try:
            self._stream.write(chunk)
        except OSError as error:
            raise PockClientError(f"{self._part} cannot be written: {error.strerror}") from error
        self._digest.update(chunk)
        self.size += len(chunk)

    def hexdigest(self) -> str:
        """SHA-256 of what is there."""
        return self._digest.hexdigest()

    def finish(self) -> None:
        """Give it its name. What had the name before is replaced."""
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            os.replace(self._part, self._path)
        except OSError as error:
            raise PockClientError(f"{self._path} cannot be written: {error.strerror}") from error
        finally:
            self._stream.close()

    def remove(self) -> None:
        """Nothing of it is of use."""
        self._stream.close()
        with contextlib.suppress(OSError):
            self._part.unlink()

    def close(self) -> None:
        """Keep it for a later download; an empty one is removed."""
        if self.size:
            with contextlib.suppress(OSError):
                self._stream.close()
        elif not self._stream.closed:
            self.remove()


def _lock(stream: BinaryIO) -> None:
    """Held until the file is closed; OSError if another process has it. Nothing where the system has no such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


class UnfinishedUpload:
    """The id of an upload that a process began, so that another one can go on with it after a cut.

    It is a small file in `$XDG_CACHE_HOME/pock/uploads`. Where none can be written, only this process goes on with it.
    """

    def __init__(self, service: str, digest: str) -> None:
        cache = os.environ.get("XDG_CACHE_HOME", "")
        home = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
        name = hashlib.sha256(f"{service}\n{digest}".encode()).hexdigest()
        self._path = home / "pock" / "uploads" / name
        self._known: str | None = None

    def find(self) -> str | None:
        """The id, if there is one."""
        if self._known is not None:
            return self._known
        try:
            text = self._path.read_text(encoding="ascii")[:100]
        except (OSError, ValueError):
            return None
        return text if _ID.fullmatch(text) else None

    def keep(self, ident: str) -> None:
        """Remember it."""
        self._known = ident
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.write_text(ident, encoding="ascii")

    def forget(self) -> None:
        """It is done, or gone."""
        self._known = None
        with contextlib.suppress(OSError):
            self._path.unlink()


def check_digest(path: Path, found: str, expected: str) -> None:
    """Damaged unless they are equal."""
    if found != expected:
        raise Damaged(f"what came for {path} has the SHA-256 {found}, not {expected}: the service's copy is damaged")
