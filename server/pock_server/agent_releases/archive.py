"""Reads what a file says of itself: the version of the agent in it, and the machines that it has libraries for.

The file is somebody else's: its directory is bounded before anything is made of it.
"""

import io
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass

_END, _ZIP64 = b"PK\x05\x06", b"PK\x06\x07"
_TAIL_BYTES = 22 + 65_535
_MAX_ENTRIES, _MAX_DIRECTORY_BYTES = 4096, 1 << 20
_VERSION_FILE = "any/pock_agent/__init__.py"
_MAX_SOURCE_BYTES = 64 << 10
_VERSION = re.compile(rb'^__version__ = "([0-9]{1,6}(?:\.[0-9]{1,6}){2})"$', re.MULTILINE)
_MACHINES = ("aarch64", "x86_64")


class BadArchive(ValueError):
    """A file that is no agent; the message says why."""


@dataclass(frozen=True)
class Archive:
    """The agent as one file: its version, and where it runs (`linux-x86_64`)."""

    version: str
    platforms: tuple[str, ...]


def read_archive(content: bytes) -> Archive:
    """What the file says; raises BadArchive."""
    _check_directory(content)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            source = _first_bytes(archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        raise BadArchive(f"the file is damaged: {error}") from None
    found = _VERSION.search(source)
    if found is None:
        raise BadArchive(f"{_VERSION_FILE} in the file states no version such as 0.2.0")
    platforms = tuple(f"linux-{machine}" for machine in _MACHINES if any(n.startswith(machine + "/") for n in names))
    if not platforms:
        raise BadArchive("the file has no libraries for any machine")
    return Archive(found.group(1).decode(), platforms)


def _check_directory(content: bytes) -> None:
    tail = content[-_TAIL_BYTES:]
    place = tail.rfind(_END)
    if place < 0 or len(tail) - place < 22:
        raise BadArchive("the file is no pock-agent.pyz: it is no zip archive")
    entries, size = struct.unpack_from("<HI", tail, place + 10)
    if _ZIP64 in tail[max(0, place - 20) : place] or entries > _MAX_ENTRIES or size > _MAX_DIRECTORY_BYTES:
        raise BadArchive("the file is no pock-agent.pyz: its directory is too long")


def _first_bytes(archive: zipfile.ZipFile) -> bytes:
    try:
        with archive.open(_VERSION_FILE) as file:
            return file.read(_MAX_SOURCE_BYTES)
    except KeyError:
        raise BadArchive(f"the file is no pock-agent.pyz: it has no {_VERSION_FILE}") from None
