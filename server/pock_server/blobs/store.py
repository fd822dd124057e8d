"""Objects in a local folder, S3, GCS or Azure, chosen by URL. Knows bytes and keys, not who may see them."""

import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.store import LocalStore, from_url

from pock_server.settings import Settings

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_CHUNK = 1 << 20


@dataclass(frozen=True)
class BlobStore:
    """Content-addressed blobs under `sha256/`, parts of uploads under `uploads/`."""

    objects: "ObjectStore"

    def put_file(self, path: Path) -> tuple[str, int]:
        """Store a file as a blob; its digest and size."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = path.stat().st_size
        if not self.has(digest):
            obstore.put(self.objects, _blob_key(digest), path)
        return digest, size

    def put_bytes(self, data: bytes) -> tuple[str, int]:
        """Store bytes as a blob; their digest and size."""
        digest = hashlib.sha256(data).hexdigest()
        if not self.has(digest):
            obstore.put(self.objects, _blob_key(digest), data)
        return digest, len(data)

    def put_parts(self, digest: str, keys: Iterable[str]) -> bool:
        """Join objects into the blob `digest`; False, and nothing stored, if their bytes have another digest."""
        found = hashlib.sha256()
        with tempfile.NamedTemporaryFile(prefix="pock-upload-") as file:
            for key in keys:
                for chunk in obstore.get(self.objects, key).stream(min_chunk_size=_CHUNK):
                    found.update(chunk)
                    file.write(chunk)
            file.flush()
            if found.hexdigest() != digest:
                return False
            if not self.has(digest):
                obstore.put(self.objects, _blob_key(digest), Path(file.name))
        return True

    def put_object(self, key: str, data: bytes) -> None:
        """Store one part of an upload."""
        obstore.put(self.objects, key, data)

    def delete_objects(self, keys: Iterable[str]) -> None:
        """Delete parts of uploads; missing ones are fine."""
        for key in keys:
            try:
                obstore.delete(self.objects, key)
            except FileNotFoundError:
                continue

    def has(self, digest: str) -> bool:
        """Whether the blob is stored."""
        try:
            obstore.head(self.objects, _blob_key(digest))
        except FileNotFoundError:
            return False
        return True

    def read(self, digest: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes of a blob; raises FileNotFoundError if it is not stored."""
        if length == 0:
            return b""
        if length is None:
            return bytes(obstore.get(self.objects, _blob_key(digest)).bytes())
        return bytes(obstore.get_range(self.objects, _blob_key(digest), start=start, length=length))

    def download(self, digest: str, path: Path) -> None:
        """Copy a blob to a new file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            for chunk in obstore.get(self.objects, _blob_key(digest)).stream(min_chunk_size=_CHUNK):
                file.write(chunk)

    async def stream(self, digest: str, start: int, stop: int) -> AsyncIterator[bytes]:
        """Bytes `start` to `stop` (exclusive) of a blob, in chunks."""
        if start >= stop:
            return
        result = await obstore.get_async(self.objects, _blob_key(digest), options={"range": (start, stop)})
        async for chunk in result.stream(min_chunk_size=_CHUNK):
            yield bytes(chunk)

    def check(self) -> None:
        """Raise if the store cannot be reached."""
        self.has("0" * 64)


def open_store(settings: Settings) -> BlobStore:
    """The configured store; the embedded one is a folder, made if needed."""
    if settings.store_url:
        return BlobStore(from_url(settings.store_url))
    folder = settings.data_dir.resolve() / "objects"
    folder.mkdir(parents=True, exist_ok=True)
    return BlobStore(LocalStore(folder))


def _blob_key(digest: str) -> str:
    return f"sha256/{digest[:2]}/{digest}"
