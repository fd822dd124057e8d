"""Objects in a local folder, S3, GCS or Azure. Knows bytes and keys, not who may see them.

A blob is written whole or not at all, and only under the digest that its bytes have; whoever reads a whole blob here
gets these bytes or a `BlobFault`. Nothing is held in memory but a few parts of some MiB.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.store import LocalStore

from pock_server.blobs.faults import DamagedBlob, DigestMismatch, MissingBlob, translated

if TYPE_CHECKING:
    from obstore import Bytes, GetResult
    from obstore.store import ObjectStore

    Chunk = Bytes | bytes | bytearray

CHUNK = 1 << 20
"""Bytes that are read at once; a blob no larger is looked at as a whole before anybody gets it."""
_PART = 8 << 20
_MAX_PARTS = 9_000
"""S3 joins at most 10,000 parts."""
_WRITES_AT_ONCE = 2
_LISTED_AT_ONCE = 500
_DRAFT = re.compile(r"#[0-9]+$")
"""How names of files end while they are written."""


@dataclass(frozen=True)
class StoredObject:
    """What the store says of an object."""

    key: str
    size: int
    modified_at: datetime


@dataclass(frozen=True)
class BlobStore:
    """Content-addressed blobs under `sha256/`, parts of uploads under `uploads/`."""

    objects: "ObjectStore"

    async def write(self, digest: str, size: int, chunks: "AsyncIterable[Chunk]") -> None:
        """Store chunks of bytes as the blob `digest`, visible when all of them are there.

        What was stored under the digest before is replaced: it may be damaged, and whoever collects unused blobs sees
        by its age that this one is wanted. Raises `DigestMismatch`, and stores nothing, if the bytes are others or not
        `size` many.
        """
        checked = _checked(digest, size, chunks)
        with translated():
            if size <= _PART:
                await obstore.put_async(self.objects, _blob_key(digest), b"".join([bytes(c) async for c in checked]))
                return
            await obstore.put_async(
                self.objects,
                _blob_key(digest),
                checked,
                use_multipart=True,
                chunk_size=max(_PART, -(-size // _MAX_PARTS)),
                max_concurrency=_WRITES_AT_ONCE,
            )

    def put_file(self, path: Path) -> tuple[str, int]:
        """Store a file as a blob; its digest and size. Call it outside of an event loop."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        asyncio.run(self.write(digest, size, _read_file(path)))
        return digest, size

    def put_bytes(self, data: bytes) -> tuple[str, int]:
        """Store a few bytes as a blob; their digest and size."""
        digest = hashlib.sha256(data).hexdigest()
        with translated():
            obstore.put(self.objects, _blob_key(digest), data)
        return digest, len(data)

    async def put_object(self, key: str, data: bytearray) -> None:
        """Store one part of an upload."""
        with translated():
            await obstore.put_async(self.objects, key, data, use_multipart=False)

    async def read_objects(self, keys: Iterable[str]) -> "AsyncIterator[Chunk]":
        """The bytes of parts of an upload, one after the other; raises FileNotFoundError if one is missing."""
        for key in keys:
            with translated():
                found = await obstore.get_async(self.objects, key)
                async for chunk in found.stream(min_chunk_size=CHUNK):
                    yield chunk

    def put_key(self, key: str, data: bytes) -> None:
        """Store a few bytes that are no blob under a key of their own."""
        with translated():
            obstore.put(self.objects, key, data)

    def read_key(self, key: str, limit: int) -> bytes | None:
        """The bytes of such a key; None where it is not there, or has more than `limit`."""
        with translated():
            try:
                found = obstore.get(self.objects, key)
            except FileNotFoundError:
                return None
            return bytes(found.bytes()) if found.meta["size"] <= limit else None

    def delete_objects(self, keys: Iterable[str]) -> None:
        """Delete parts of uploads; missing ones are fine."""
        for key in keys:
            with translated():
                try:
                    obstore.delete(self.objects, key)
                except FileNotFoundError:
                    continue

    def list_objects(self, folder: str) -> Iterator[list[StoredObject]]:
        """Everything below `folder`, in batches."""
        with translated():
            for batch in obstore.list(self.objects, folder, chunk_size=_LISTED_AT_ONCE):
                yield [StoredObject(found["path"], found["size"], found["last_modified"]) for found in batch]

    def modified_at(self, key: str) -> datetime | None:
        """When an object was stored; None if it is not there."""
        with translated():
            try:
                return obstore.head(self.objects, key)["last_modified"]
            except FileNotFoundError:
                return None

    def drop_leftovers(self, before: datetime) -> None:
        """Remove drafts of processes that were killed; only folders have them: for others, the bucket has a rule."""
        if isinstance(self.objects, LocalStore) and self.objects.prefix:
            for path in Path(self.objects.prefix).rglob("*#*"):
                if _DRAFT.search(path.name) and path.is_file() and path.stat().st_mtime < before.timestamp():
                    path.unlink(missing_ok=True)

    def has(self, digest: str) -> bool:
        """Whether the blob is stored."""
        with translated():
            try:
                obstore.head(self.objects, _blob_key(digest))
            except FileNotFoundError:
                return False
        return True

    def read(self, digest: str, limit: int = 64 << 20) -> bytes:
        """A whole blob of at most `limit` bytes; raises a `BlobFault` if it is missing or not what its digest says."""
        with translated():
            found = self._open(digest)
            if found.meta["size"] > limit:
                raise DamagedBlob(digest, f"has {found.meta['size']} bytes, more than the {limit} that it may have")
            data = bytes(found.bytes())
        if hashlib.sha256(data).hexdigest() != digest:
            raise DamagedBlob(digest, "has other bytes than it had")
        return data

    def read_range(self, digest: str, start: int, length: int) -> bytes:
        """Some bytes of a blob, unverified; raises `MissingBlob` if it is not stored."""
        if length == 0:
            return b""
        with translated():
            try:
                return bytes(obstore.get_range(self.objects, _blob_key(digest), start=start, length=length))
            except FileNotFoundError:
                raise MissingBlob(digest) from None

    def download(self, digest: str, path: Path) -> None:
        """Copy a blob to a new file; raises a `BlobFault`, and leaves no file, if it is missing or damaged.

        A local disk without room is an OSError, a store that fails a `StoreFailed`.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        hashed = hashlib.sha256()
        with path.open("xb") as file:
            try:
                with translated():
                    chunks = self._open(digest).stream(min_chunk_size=CHUNK)
                while (chunk := _next(chunks)) is not None:
                    hashed.update(chunk)
                    file.write(chunk)
                if hashed.hexdigest() != digest:
                    raise DamagedBlob(digest, "has other bytes than it had")
            except BaseException:
                path.unlink()
                raise

    async def stream(self, digest: str, size: int, start: int, stop: int) -> AsyncIterator[bytes]:
        """Open a blob of `size` bytes; its bytes from `start` to `stop` (exclusive), in chunks.

        Raises a `BlobFault` at once if it is missing, has another size, or is small and damaged. Of a whole large blob
        the last chunk is kept back until the digest is known to be right, and a `BlobFault` raised if it is not.
        """
        whole = start == 0 and stop == size
        with translated():
            try:
                options: obstore.GetOptions = {} if whole else {"range": (start, stop)}
                found = await obstore.get_async(self.objects, _blob_key(digest), options=options)
            except FileNotFoundError:
                raise MissingBlob(digest) from None
            if found.meta["size"] != size:
                raise DamagedBlob(digest, f"has {found.meta['size']} bytes, not {size} as it had")
            if not whole:
                return _chunks(found)
            if size > CHUNK:
                return _verified(digest, _chunks(found))
            return _replay([chunk async for chunk in _verified(digest, _chunks(found))])

    def check(self) -> None:
        """Raise if the store cannot be used. It is asked to list, because asking for one object does not tell a
        bucket that is missing from an object that is."""
        for _ in self.list_objects("sha256/00/" + "0" * 64):
            return

    def _open(self, digest: str) -> "GetResult":
        try:
            return obstore.get(self.objects, _blob_key(digest))
        except FileNotFoundError:
            raise MissingBlob(digest) from None


def _next(chunks: Iterator[bytes]) -> bytes | None:
    with translated():
        return next(chunks, None)


def _blob_key(digest: str) -> str:
    return f"sha256/{digest[:2]}/{digest}"


async def _checked(digest: str, size: int, chunks: "AsyncIterable[Chunk]") -> "AsyncIterator[Chunk]":
    """The same chunks; raises `DigestMismatch` at the first byte too many, or at the end."""
    hashed, length = hashlib.sha256(), 0
    async for chunk in chunks:
        length += len(chunk)
        if length > size:
            raise DigestMismatch(f"more than {size} bytes came for blob {digest}")
        await asyncio.to_thread(hashed.update, chunk)
        yield chunk
    if length != size or hashed.hexdigest() != digest:
        raise DigestMismatch(f"the {length} bytes that came for blob {digest} are others")


async def _read_file(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


async def _chunks(found: "GetResult") -> AsyncIterator[bytes]:
    with translated():
        async for chunk in found.stream(min_chunk_size=CHUNK):
            yield bytes(chunk)


async def _verified(digest: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    hashed, kept_back = hashlib.sha256(), b""
    async for chunk in chunks:
        if kept_back:
            yield kept_back
        await asyncio.to_thread(hashed.update, chunk)
        kept_back = chunk
    if hashed.hexdigest() != digest:
        raise DamagedBlob(digest, "has other bytes than it had")
    yield kept_back


async def _replay(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
