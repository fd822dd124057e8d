"""Compiled kernels as the compiler's cache keeps them, and as one object each of the store.

An entry is a folder named by the SHA-256 of all that the kernel depends on, with the object file and, beside it, those
inputs and the object's own SHA-256. A build wrote it, so it may be anything: it is read without following links, its
size is bounded, and it counts only if its name and its digest are what it says.
"""

import hashlib
import json
import os
import re
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OBJECTS = ("pockengine", "objects")
"""Where entries lie in a workspace's cache; below it, in a folder of the first two digits of their keys."""
MOST_RECORD, MOST_OBJECT = 4 << 20, 32 << 20
_OBJECT, _RECORD = "object.o", "inputs.json"
_KEY = re.compile(r"[0-9a-f]{64}")
_LENGTH = struct.Struct("<Q")


def keys_in(cache: Path) -> set[str]:
    """The keys of the entries in a workspace's cache."""
    found: set[str] = set()
    with suppress(OSError), _folder(cache, *OBJECTS) as objects:
        for shard in os.listdir(objects):
            with suppress(OSError), _inside(objects, shard) as folder:
                found.update(name for name in os.listdir(folder) if _KEY.fullmatch(name))
    return found


def read_entry(cache: Path, key: str) -> bytes | None:
    """An entry of a cache as one object of the store; None where it is none."""
    with suppress(OSError), _folder(cache, *OBJECTS, key[:2], key) as folder:
        record, data = _read(folder, _RECORD, MOST_RECORD), _read(folder, _OBJECT, MOST_OBJECT)
        if record is not None and data is not None and _is_sound(key, record, data):
            return _LENGTH.pack(len(record)) + record + data
    return None


def write_entry(folder: Path, key: str, content: bytes) -> bool:
    """Write an object of the store as an entry below `folder`/objects; False if it is not what its key says."""
    if len(content) < _LENGTH.size:
        return False
    (length,) = _LENGTH.unpack_from(content)
    record, data = content[_LENGTH.size : _LENGTH.size + length], content[_LENGTH.size + length :]
    if not _is_sound(key, record, data):
        return False
    place = folder / "objects" / key[:2] / key
    place.mkdir(parents=True)
    (place / _RECORD).write_bytes(record)
    (place / _OBJECT).write_bytes(data)
    return True


def make_readable(top: Path) -> None:
    """Let whoever sees this folder read all that lies in it."""
    for parent, folders, files in os.walk(top):
        os.chmod(parent, 0o755)
        for name in (*folders, *files):
            os.chmod(os.path.join(parent, name), 0o755)


def _is_sound(key: str, record: bytes, data: bytes) -> bool:
    """Whether a record is of this key, and the object is the one that it tells of."""
    try:
        told = json.loads(record)
        inputs, digest = told["inputs"], told["sha256"]
        texts = isinstance(inputs, dict) and all(isinstance(text, str) for text in inputs.values())
        same = texts and hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest() == key
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return same and hashlib.sha256(data).hexdigest() == digest


@contextmanager
def _folder(top: Path, *names: str) -> Iterator[int]:
    """A descriptor of a folder below `top`, reached without following a link. Raises OSError."""
    held = [os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)]
    try:
        for name in names:
            held.append(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held[-1]))
        yield held[-1]
    finally:
        for descriptor in held:
            os.close(descriptor)


@contextmanager
def _inside(folder: int, name: str) -> Iterator[int]:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(folder: int, name: str, most: int) -> bytes | None:
    """A plain file of at most so many bytes. Raises OSError."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        return file.read(most) if stat.S_ISREG(found.st_mode) and found.st_size <= most else None
