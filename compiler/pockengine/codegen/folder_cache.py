"""Folders that can be made again, kept to be found: compiled kernels, unpacked artifacts.

Processes may use them at once. An entry is a folder; it appears by one rename, so it is whole or absent. Its time of
modification says when it was used last, and the least recently used ones go when there are too many. An entry that a
process holds stays: the lock is the kernel's (flock), so it ends with the process, however that ends. Knows nothing of
what entries contain.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pockengine.errors import PockError
from pockengine.sizes import parse_size

DEFAULT_LIMIT = 4 << 30
_WORK = "work-"
_ABANDONED = 60.0
"""Seconds after which a workspace that nobody holds is one of a process that was killed."""


def platform_folder() -> Path:
    """Where this system keeps caches of `pockengine`."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pockengine"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pockengine"


def default_folder() -> Path:
    """`POCK_CACHE_DIR`, or the platform's cache folder."""
    chosen = os.environ.get("POCK_CACHE_DIR")
    return Path(chosen) if chosen else platform_folder()


def limit_bytes() -> int:
    """What compiled kernels may take, and what unpacked artifacts may: `POCK_CACHE_LIMIT`, or 4 GiB. Raises PockError
    where that is no size."""
    text = os.environ.get("POCK_CACHE_LIMIT")
    limit = parse_size(text) if text else DEFAULT_LIMIT
    if limit is None:
        raise PockError(f"POCK_CACHE_LIMIT is a size such as 4GiB or 800MB, not '{text}'")
    return limit


class Hold:
    """A folder in use, until this is closed or forgotten, or the process ends. Raises FileNotFoundError."""

    def __init__(self, folder: Path) -> None:
        self.descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self.close = weakref.finalize(self, os.close, self.descriptor)

    def is_at(self, folder: Path) -> bool:
        """Whether the folder is still there under this name."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), folder.stat())
        except OSError:
            return False


@dataclass(frozen=True)
class Usage:
    """Entries, and the bytes of their files."""

    count: int = 0
    nbytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.count + other.count, self.nbytes + other.nbytes)


@dataclass(frozen=True)
class FolderCache:
    """The entries directly below `root/name`, which is made when needed.

    idle    seconds after its last use for which an entry is not dropped for want of room: those who were told its
            path, and hold nothing, are given as long"""

    root: Path
    name: str
    idle: float

    @property
    def folder(self) -> Path:
        return self.root / self.name

    def publish(self, new: Path, entry: Path, is_intact: Callable[[], bool]) -> Hold:
        """Move the folder `new` (of a `workspace`) to `entry`, and hold what is there then. Where another process was
        first, its entry is as good, unless it is damaged. An intact one is never moved, not for a moment. Raises
        OSError."""
        entry.parent.mkdir(parents=True, exist_ok=True)
        mine = _held(new)
        while not _moved(new, entry):
            with _alone(entry.parent):  # of two that find the same damage, the second finds the first one's entry
                theirs = use(entry)
                if theirs is None:
                    continue
                if is_intact():
                    return theirs
                with suppress(FileNotFoundError):
                    entry.rename(tempfile.mkdtemp(prefix="damaged-", dir=new.parent))
        return mine

    def usage(self) -> Usage:
        entries = self._entries()
        return Usage(len(entries), sum(map(_nbytes, entries)))

    def prune(self, before: float) -> Usage:
        """Drop entries last used before this time (seconds since 1970), but those in use; what went."""
        return sum((self._drop(entry) for entry in self._entries() if _used(entry) < before), Usage())

    def shrink(self, limit: int, keep: Path) -> Usage:
        """Drop the least recently used entries until the rest takes `limit` bytes; not `keep`, none in use and none
        used in the last `idle` seconds. What went."""
        entries = sorted((_used(entry), _nbytes(entry), entry) for entry in self._entries())
        excess = sum(size for _, size, _ in entries) - limit
        dropped, before = Usage(), time.time() - self.idle
        for used, _, entry in entries:
            if dropped.nbytes >= excess or used > before:
                break
            dropped += self._drop(entry) if entry != keep else Usage()
        return dropped

    def _drop(self, entry: Path) -> Usage:
        """Take an entry away unless somebody uses it; it disappears by one rename."""
        hold = _sole(entry)
        if hold is None:
            return Usage()
        size = _nbytes(entry)
        try:
            with workspace(self.root) as folder:
                entry.rename(folder / "dropped")
        except OSError:  # another user's
            return Usage()
        finally:
            hold.close()
        return Usage(1, size)

    def _entries(self) -> list[Path]:
        with suppress(OSError), os.scandir(self.folder) as found:
            return [Path(item.path) for item in found if item.is_dir(follow_symlinks=False)]
        return []


def use(entry: Path) -> Hold | None:
    """Hold an entry, which counts as used now; None where there is none."""
    try:
        return _held(entry)
    except FileNotFoundError:
        return None


@contextmanager
def workspace(root: Path) -> Iterator[Path]:
    """A folder on a cache's own file system, removed afterwards."""
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=_WORK, dir=root))
    hold = use(folder)
    try:
        yield folder
    finally:
        if hold is not None:
            hold.close()
        shutil.rmtree(folder, ignore_errors=True)


def drop_abandoned(root: Path) -> None:
    """Remove the workspaces of processes that were killed."""
    for folder in root.glob(f"{_WORK}*"):
        if _used(folder) < time.time() - _ABANDONED and (hold := _sole(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            hold.close()


def _moved(new: Path, entry: Path) -> bool:
    """Give a folder its name; False where something has that name. Raises OSError."""
    try:
        new.rename(entry)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Only one process at a time is inside, on file systems with locks."""
    hold = Hold(folder)
    try:
        with suppress(OSError):
            fcntl.flock(hold.descriptor, fcntl.LOCK_EX)
        yield
    finally:
        hold.close()


def _held(folder: Path) -> Hold:
    """Raises FileNotFoundError where the folder is gone, or was about to go."""
    hold = Hold(folder)
    with suppress(OSError):  # a file system without locks: nothing is dropped there
        fcntl.flock(hold.descriptor, fcntl.LOCK_SH)
    if not hold.is_at(folder):
        raise FileNotFoundError(errno.ENOENT, "the folder was removed", str(folder))
    with suppress(OSError):  # a cache that may only be read
        os.utime(folder)
    return hold


def _sole(folder: Path) -> Hold | None:
    """The only hold on a folder; None where somebody else holds it, or it is gone."""
    try:
        hold = Hold(folder)
        fcntl.flock(hold.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return hold if hold.is_at(folder) else None


def _nbytes(folder: str | Path) -> int:
    """Bytes of the files in a folder, which other processes may be removing."""
    total = 0
    with suppress(OSError), os.scandir(folder) as found:
        for item in found:
            total += (
                _nbytes(item.path) if item.is_dir(follow_symlinks=False) else item.stat(follow_symlinks=False).st_size
            )
    return total


def _used(folder: Path) -> float:
    """When a folder was last used; never, where it is gone."""
    try:
        return folder.stat().st_mtime
    except OSError:
        return float("inf")
