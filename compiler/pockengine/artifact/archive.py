"""The zip archive of an artifact, byte for byte: stored entries in order of name, fixed times, nothing optional.

There is exactly one archive for given members, so a reader can tell any change at all: it writes the archive again and
compares. Format: PKWARE APPNOTE 6.3, without Zip64, so an archive stays below 4 GiB.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pockengine.artifact.errors import (
    AlteredArchiveError,
    DuplicateMemberError,
    NotAnArchiveError,
    UnsafePathError,
)
from pockengine.errors import ArtifactError

_CHUNK = 1 << 20
_DOS_DATE = (0 << 9) | (1 << 5) | 1  # 1980-01-01, the earliest a zip can say
_VERSION = 20
_UNIX = 3
_LARGEST = (1 << 32) - 1
_DAMAGE = (
    zipfile.BadZipFile, EOFError, zlib.error, struct.error, ValueError, IndexError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""What zipfile raises on damaged archives, depending on where the damage is."""
_SAFE = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")


class Content(Protocol):
    """A member's bytes, wherever they are."""

    def chunks(self) -> Iterator[bytes]:
        """The bytes in pieces, from the beginning, each time it is called."""


@dataclass(frozen=True)
class Held:
    """Bytes in memory."""

    data: bytes

    def chunks(self) -> Iterator[bytes]:
        """See Content."""
        yield self.data


@dataclass(frozen=True)
class Stored:
    """A member of an archive on disk."""

    archive: Path
    name: str

    def chunks(self) -> Iterator[bytes]:
        """See Content. Raises NotAnArchiveError when the archive is damaged."""
        try:
            with zipfile.ZipFile(self.archive) as opened, opened.open(self.name) as member:
                while piece := member.read(_CHUNK):
                    yield piece
        except _DAMAGE as error:
            raise NotAnArchiveError(f"{self.archive} is damaged at '{self.name}': {error}") from None


def digest(content: Content) -> tuple[str, int]:
    """SHA-256 and size."""
    sha, size = hashlib.sha256(), 0
    for piece in content.chunks():
        sha.update(piece)
        size += len(piece)
    return sha.hexdigest(), size


def pack(members: Mapping[str, Content]) -> Iterator[bytes]:
    """The archive's bytes in pieces. Raises ArtifactError above 4 GiB."""
    directory, offset = b"", 0
    for name in sorted(members):
        crc, size = _checksum(members[name])
        common = struct.pack("<HHHHHIIIHH", _VERSION, 0x800, 0, 0, _DOS_DATE, crc, size, size, len(name.encode()), 0)
        header = b"PK\3\4" + common + name.encode()
        mode = 0o100755 if name == "bin/model" else 0o100644
        directory += b"PK\1\2" + struct.pack("<BB", _VERSION, _UNIX) + common
        directory += struct.pack("<HHHII", 0, 0, 0, mode << 16, offset) + name.encode()
        yield header
        yield from members[name].chunks()
        offset += len(header) + size
        if offset > _LARGEST:
            raise ArtifactError("the artifact would be larger than 4 GiB, which its format cannot hold")
    count = len(members)
    yield directory
    yield b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), offset, 0)


def read(path: Path) -> dict[str, Stored]:
    """The members of an archive on disk, in order of name, names verified, contents not yet."""
    try:
        with zipfile.ZipFile(path) as opened:
            names = opened.namelist()
    except _DAMAGE as error:
        raise NotAnArchiveError(f"{path} is not an artifact: {error}") from None
    for name in names:
        if names.count(name) > 1:
            raise DuplicateMemberError(f"{path} holds '{name}' twice")
        if not _SAFE.fullmatch(name) or ".." in name.split("/") or "." in name.split("/"):
            raise UnsafePathError(f"{path} holds a member with the unsafe name {name!r}")
    return {name: Stored(path, name) for name in sorted(names)}


def check_canonical(path: Path, members: Mapping[str, Content]) -> None:
    """Raises AlteredArchiveError unless the file is, byte for byte, what `pack` makes of its members."""
    with path.open("rb") as file:
        for piece in pack(members):
            if file.read(len(piece)) != piece:
                raise AlteredArchiveError(f"{path} was altered near byte {file.tell()}; fetch or compile it again")
        if file.read(1):
            raise AlteredArchiveError(f"{path} has bytes after its end; fetch or compile it again")


def _checksum(content: Content) -> tuple[int, int]:
    crc, size = 0, 0
    for piece in content.chunks():
        crc = zlib.crc32(piece, crc)
        size += len(piece)
    return crc, size
