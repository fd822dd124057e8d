"""The file that a backup is: a plain tar archive, written and read as a stream.

manifest.json          what it is, of which version, and how much of it there is
blobs/DIGEST           each blob once, sorted
keys/NAME              the files of the data folder's `keys/`
tables/NAME.jsonl      one row a line; tables that others refer to come first
end.json               rows and SHA-256 of each table, SHA-256 of each key, blobs that could not be read

Whoever reads it takes nothing for granted: only plain files with these names, in this order, none of them larger than
it may be, none twice. Python's `tarfile` reads headers of single entries here and nothing else: its extensions (long
names, links, sparse files) take memory by another's word.
"""

import json
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

BLOCK = 512
CHUNK = 1 << 20
MAX_TEXT = 4 << 20
"""Of `manifest.json` and `end.json`."""
MAX_KEY = 64 << 10
MAX_LINE = 64 << 20
"""Of one row."""
_NAME = re.compile(r"manifest\.json|end\.json|blobs/[0-9a-f]{64}|keys/[A-Za-z0-9_.-]{1,80}|tables/[a-z_]{1,60}\.jsonl")


class BadArchive(Exception):
    """The archive cannot be restored; the message ends the sentence "the archive …"."""


@dataclass(frozen=True)
class Entry:
    """A file of the archive; its bytes follow."""

    name: str
    size: int


@dataclass(frozen=True)
class Writer:
    """Appends entries to a file."""

    file: BinaryIO

    def begin(self, name: str, size: int) -> int:
        """The head of an entry, of which `size` bytes must follow; where it began, for `undo`."""
        start = self.file.tell()
        head = tarfile.TarInfo(name)
        head.size, head.mode = size, 0o600
        self.file.write(head.tobuf(tarfile.GNU_FORMAT))
        return start

    def end(self) -> None:
        """Fill up the last block of the entry."""
        self.file.write(bytes(-self.file.tell() % BLOCK))

    def undo(self, start: int) -> None:
        """Forget the entry that began at `start`."""
        self.file.seek(start)
        self.file.truncate()

    def add(self, name: str, data: bytes) -> None:
        """A whole small entry."""
        self.begin(name, len(data))
        self.file.write(data)
        self.end()

    def add_file(self, name: str, source: BinaryIO) -> None:
        """A whole entry with the bytes of a file."""
        self.begin(name, source.seek(0, os.SEEK_END))
        source.seek(0)
        while chunk := source.read(CHUNK):
            self.file.write(chunk)
        self.end()

    def finish(self) -> None:
        """The end of the archive, which reaches the disk."""
        self.file.write(bytes(2 * BLOCK))
        self.file.flush()
        os.fsync(self.file.fileno())


@dataclass
class Reader:
    """Reads entries from a file, one after the other."""

    file: BinaryIO
    left: int = 0
    padding: int = 0

    def next(self) -> Entry | None:
        """The next entry, None at the end; what was not read of the one before is skipped."""
        while self.left:
            self._take(min(self.left, CHUNK))
        self._exactly(self.padding)
        self.padding = 0
        block = self._exactly(BLOCK)
        if block == bytes(BLOCK):
            return None
        try:
            head = tarfile.TarInfo.frombuf(block, "ascii", "strict")
        except (tarfile.HeaderError, UnicodeError, ValueError) as error:
            raise BadArchive(f"is damaged: {error}") from None
        if head.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or not _NAME.fullmatch(head.name) or head.size < 0:
            raise BadArchive(f"holds something that no backup has, {head.name[:100]!r}")
        self.left, self.padding = head.size, -head.size % BLOCK
        return Entry(head.name, head.size)

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the present entry."""
        while self.left:
            yield self._take(min(self.left, CHUNK))

    def whole(self, entry: Entry, limit: int) -> bytes:
        """All bytes of a small entry."""
        if entry.size > limit:
            raise BadArchive(f"holds {entry.size} bytes as {entry.name}; {limit} are allowed")
        return b"".join(self.chunks())

    def lines(self) -> Iterator[bytes]:
        """The lines of the present entry, with their ends."""
        rest = b""
        for chunk in self.chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line + b"\n"
            if len(rest) > MAX_LINE:
                raise BadArchive(f"holds a row of more than {MAX_LINE} bytes")
        if rest:
            raise BadArchive("holds a table whose last row has no end")

    def _take(self, size: int) -> bytes:
        data = self._exactly(size)
        self.left -= size
        return data

    def _exactly(self, size: int) -> bytes:
        data = self.file.read(size)
        if len(data) != size:
            raise BadArchive("ends early")
        return data


def parse_object(name: str, data: bytes) -> dict[str, Any]:
    """The JSON object of an entry; raises `BadArchive`."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BadArchive(f"holds no JSON as {name}") from None
    if not isinstance(found, dict):
        raise BadArchive(f"holds no object as {name}")
    return found
