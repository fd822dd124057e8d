"""The zip archive of an artifact, byte for byte: stored entries in order of name, fixed times, nothing optional.

There is exactly one archive for given members, so a reader can tell any change at all: it writes the archive again and
compares. Format: PKWARE APPNOTE 6.3; what 32 bits cannot say (sizes and offsets from 4 GiB on) is said by the fields of
Zip64 (4.5.3), which are there only then.
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

_CHUNK = 1 << 20
_DOS_DATE = (0 << 9) | (1 << 5) | 1  # 1980-01-01, the earliest a zip can say
_VERSION, _VERSION_ZIP64 = 20, 45
_UNIX = 3
_ELSEWHERE = (1 << 32) - 1
"""A field of 32 bits that refers to Zip64's; also the least number that cannot be told otherwise."""
_ZIP64 = 1
_NAME_LENGTH = 26
"""Where a local header says how long the name is, and then the extra field, which are its end: 4.3.7."""
_DAMAGE = (
    zipfile.BadZipFile, EOFError, zlib.error, struct.error, ValueError, IndexError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""What zipfile raises on damaged archives, depending on where the damage is."""
_SAFE = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")


Piece = bytes | memoryview
"""Some bytes of a member; they may change when the next ones are asked for."""


class Content(Protocol):
    """A member's bytes, wherever they are."""

    def chunks(self) -> Iterator[Piece]:
        """The bytes in pieces, from the beginning, each time it is called."""


@dataclass(frozen=True)
class Held:
    """Bytes in memory."""

    data: bytes

    def chunks(self) -> Iterator[bytes]:
        """See Content."""
        yield self.data


@dataclass(frozen=True)
class Summed:
    """Contents whose checksum and size are known: a large member is not read once more for them."""

    content: Content
    crc: int
    size: int

    def chunks(self) -> Iterator[Piece]:
        """See Content."""
        return self.content.chunks()


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

    def place(self) -> tuple[int, int]:
        """Where the bytes lie in the archive, which compresses nothing: (the first one, how many). Raises
        NotAnArchiveError when the archive is damaged."""
        try:
            with zipfile.ZipFile(self.archive) as opened, self.archive.open("rb") as file:
                entry = opened.getinfo(self.name)
                file.seek(entry.header_offset + _NAME_LENGTH)
                name, extra = struct.unpack("<HH", file.read(4))
        except (*_DAMAGE, KeyError) as error:
            raise NotAnArchiveError(f"{self.archive} is damaged at '{self.name}': {error}") from None
        return entry.header_offset + _NAME_LENGTH + 4 + name + extra, entry.file_size


def digest(content: Content) -> tuple[str, int]:
    """SHA-256 and size."""
    sha, size = hashlib.sha256(), 0
    for piece in content.chunks():
        sha.update(piece)
        size += len(piece)
    return sha.hexdigest(), size


def summed(content: Content) -> tuple[Summed, str]:
    """The same contents with what one walk through them tells, and their SHA-256."""
    sha, crc, size = hashlib.sha256(), 0, 0
    for piece in content.chunks():
        sha.update(piece)
        crc = zlib.crc32(piece, crc)
        size += len(piece)
    return Summed(content, crc, size), sha.hexdigest()


def pack(members: Mapping[str, Content]) -> Iterator[Piece]:
    """The archive's bytes in pieces, each member's as its content gives them."""
    directory, offset = b"", 0
    for name in sorted(members):
        entry = _Entry(name, *_checksum(members[name]), offset)
        header = entry.local()
        yield header
        yield from members[name].chunks()
        directory += entry.central()
        offset += len(header) + entry.size
    yield directory
    yield _end(len(members), len(directory), offset)


@dataclass(frozen=True)
class _Entry:
    """What headers tell of a member; `offset` is where its local header begins."""

    name: str
    crc: int
    size: int
    offset: int

    def local(self) -> bytes:
        """The header before the contents: 4.3.7. There, Zip64 has both sizes or none."""
        return b"PK\3\4" + self._common(_extra(self.size, self.size)) + _extra(self.size, self.size)

    def central(self) -> bytes:
        """The member's entry in the directory: 4.3.12."""
        extra, mode = _extra(self.size, self.size, self.offset), 0o100755 if self.name == "bin/model" else 0o100644
        made_by = struct.pack("<BB", self._version(extra), _UNIX)
        place = struct.pack("<HHHII", 0, 0, 0, mode << 16, min(self.offset, _ELSEWHERE))
        name = self.name.encode()
        return b"PK\1\2" + made_by + self._common(extra, named=False) + place + name + extra

    def _common(self, extra: bytes, named: bool = True) -> bytes:
        name, size = self.name.encode(), min(self.size, _ELSEWHERE)
        fields = (0x800, 0, 0, _DOS_DATE, self.crc, size, size, len(name), len(extra))
        return struct.pack("<HHHHHIIIHH", self._version(extra), *fields) + (name if named else b"")

    def _version(self, extra: bytes) -> int:
        return _VERSION_ZIP64 if extra else _VERSION


def _extra(*numbers: int) -> bytes:
    """The Zip64 field with those of a header's numbers that are too large for it, in their order: 4.5.3."""
    large = [number for number in numbers if number >= _ELSEWHERE]
    return struct.pack(f"<HH{len(large)}Q", _ZIP64, 8 * len(large), *large) if large else b""


def _end(count: int, size: int, offset: int) -> bytes:
    """The end of an archive whose directory of `count` entries has `size` bytes and begins at `offset`: 4.3.14 to
    4.3.16."""
    last = struct.pack("<HHHHIIH", 0, 0, count, count, size, min(offset, _ELSEWHERE), 0)
    if offset < _ELSEWHERE:
        return b"PK\5\6" + last
    made_by = (_UNIX << 8) | _VERSION_ZIP64
    whole = struct.pack("<QHHIIQQQQ", 44, made_by, _VERSION_ZIP64, 0, 0, count, count, size, offset)
    return b"PK\6\6" + whole + b"PK\6\7" + struct.pack("<IQI", 0, offset + size, 1) + b"PK\5\6" + last


def read(path: Path) -> dict[str, Stored]:
    """The members of an archive on disk, in order of name, names verified, contents not yet."""
    try:
        with zipfile.ZipFile(path) as opened:
            names = opened.namelist()
            if any(one.header_offset < 0 for one in opened.infolist()):
                raise zipfile.BadZipFile("a member begins before the file does")
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
    if isinstance(content, Summed):
        return content.crc, content.size
    crc, size = 0, 0
    for piece in content.chunks():
        crc = zlib.crc32(piece, crc)
        size += len(piece)
    return crc, size
