"""C libraries and runtime that were compiled for everybody, and what a build adds for its workspace alone.

A build may read what is everybody's and write to a cache that only builds of its workspace read, so that it can poison
no other workspace's programs. The compilers write into the cache that they read: zig opens its records for writing,
which are small and copied, and only reads its libraries, which are linked.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pockengine.codegen.folder_cache import default_folder
from pockengine.codegen.toolchain import prepare as prepare_toolchain
from pockengine.codegen.toolchain import zig_cache
from pockengine.targets import get

_OBJECTS = "objects"
_RECORDS = ("h", "b")
_LIBRARIES = "o"


def prepare(target: str, cache: Path) -> None:
    """Compile what every program for a target needs; the runtime's objects go to `cache`. Raises PockError."""
    prepare_toolchain(get(target), cache)


def adopt(base: Path) -> None:
    """Give this process's own cache what `base` has more: `base`/zig and `base`/objects."""
    own = zig_cache()
    shared = base / "zig" / own.name
    for records in _RECORDS:
        for new, old in _missing(shared / records, own / records):
            _copy(old, new)
    for new, old in _missing(shared / _LIBRARIES, own / _LIBRARIES):
        new.symlink_to(old)
    for shard in _names(base / _OBJECTS):
        for new, old in _missing(base / _OBJECTS / shard, default_folder() / _OBJECTS / shard):
            _copy(old, new)


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
    """Copy a file or folder, which appears whole; another process may do the same."""
    draft = new.with_name(f".{new.name}.{os.getpid()}")
    if old.is_dir():
        shutil.copytree(old, draft)
    else:
        shutil.copyfile(old, draft)
    try:
        draft.rename(new)
    except OSError:
        shutil.rmtree(draft)
