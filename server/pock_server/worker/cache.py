"""C libraries and runtime that were compiled for everybody, and what a build adds for its workspace alone.

A build may read what is everybody's and write to a cache that only builds of its workspace read, so that it can poison
no other workspace's programs. It takes copies: what is everybody's may be another folder for its next build, and the
compilers write into the cache that they read.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pockengine.codegen.folder_cache import default_folder
from pockengine.codegen.native.toolchain import prepare as prepare_toolchain
from pockengine.codegen.native.toolchain import zig_cache
from pockengine.targets import get

_OBJECTS = "objects"
_RECORDS = "h"
"""Zig's: what was made of which files. It holds one locked until what it names is whole."""
_MADE = ("o", "b")
"""Zig's: what was made."""
_SCRATCH = ("z", "tmp")
"""Zig's: what it does not need again."""


def prepare(target: str, known: Path | None) -> None:
    """Compile what every program for a target needs into this process's own cache. It begins with what is `known`, if
    given: the compiler's cache of this machine, and what was prepared before. Raises PockError."""
    if known is not None:
        _take(known / "zig", known / "service" / _OBJECTS)
        for before in sorted((known / "service" / "prepared").glob("*/pockengine")):
            _take(before / "zig", before / _OBJECTS)
    prepare_toolchain(get(target))
    if known is not None:
        for scratch in _SCRATCH:
            shutil.rmtree(zig_cache() / scratch, ignore_errors=True)


def adopt(base: Path) -> None:
    """Give this process's own cache what `base` has more: `base`/zig and `base`/objects. Raises OSError."""
    _take(base / "zig", base / _OBJECTS)


def _take(zigs: Path, objects: Path) -> None:
    own, shared = zig_cache(), zigs / zig_cache().name
    # Records are read first and written last: what a record names is there, though others compile meanwhile.
    records = [(new, _whole(old)) for new, old in _missing(shared / _RECORDS, own / _RECORDS)]
    for name in _MADE:
        for new, old in _missing(shared / name, own / name):
            _copy(old, new)
    for new, record in records:
        if record:
            draft = _draft(new)
            draft.write_bytes(record)
            draft.rename(new)
    for shard in _names(objects):
        for new, old in _missing(objects / shard, default_folder() / _OBJECTS / shard):
            _copy(old, new)


def _whole(record: Path) -> bytes | None:
    """A record, unless somebody is writing it or removed it."""
    with suppress(FileNotFoundError, BlockingIOError), record.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return file.read()
    return None


def _missing(there: Path, here: Path) -> Iterator[tuple[Path, Path]]:
    """(path here, path there) of what is there and not here."""
    names = _names(there)
    if names:
        here.mkdir(parents=True, exist_ok=True)
        for name in sorted(names - _names(here)):
            yield here / name, there / name


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.is_dir() else set()


def _copy(old: Path, new: Path) -> None:
    """Copy a file or folder, which appears whole; another process may do the same, or remove the old one."""
    draft = _draft(new)
    try:
        if old.is_dir():
            shutil.copytree(old, draft)
        else:
            shutil.copyfile(old, draft)
        draft.rename(new)
    except (OSError, shutil.Error):
        shutil.rmtree(draft, ignore_errors=True)
        draft.unlink(missing_ok=True)
        if old.exists() and not new.exists():
            raise


def _draft(new: Path) -> Path:
    return new.with_name(f".{new.name}.{os.getpid()}")
