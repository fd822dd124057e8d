"""Files to and from the service: in parts, across cuts, checked by size and SHA-256."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import httpx

from pock_client.answers import check_encoding
from pock_client.asynchronous.transport import Transport
from pock_client.calls import Call, part, sending
from pock_client.errors import Damaged, ServiceError, Unreachable
from pock_client.files import PartFile, Progress, UnfinishedUpload, check_digest, digest_and_size, read_part
from pock_client.pausing import in_thread, sleep_async
from pock_client.retry import Attempts
from pock_client.schema import Upload, UploadIn

PART_BYTES = 8 << 20
"""Of one request of an upload, which is held in memory; the service stores parts of this size."""
_CHECK_SECONDS = 600.0
"""The service joins and hashes all parts before it answers the last one."""
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", re.ASCII)
_OFFSET_WRONG, _MISMATCH = 1010, 1011


@dataclass(frozen=True)
class _Source:
    """A file that is sent."""

    path: Path
    digest: str
    size: int
    progress: Progress

    def told(self, done: int) -> None:
        self.progress(done, self.size)


class Blobs:
    """`client.blobs`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def upload(self, path: str | Path, progress: Progress | None = None) -> str:
        """Store a file and return its SHA-256; nothing is sent where the service has it.

        A cut upload goes on where it was, also when another process begins it again. `progress` is called with bytes
        done and bytes in all. Raises ServiceError, Unreachable, and PockClientError for a file that cannot be read.
        """
        path = Path(path)
        digest, size = await in_thread(digest_and_size, path)
        source = _Source(path, digest, size, progress or _silent)
        unfinished = UnfinishedUpload(self._transport.url, digest)
        attempts = Attempts(self._transport.patience)
        while True:
            try:
                await self._send(source, unfinished, attempts)
                unfinished.forget()
                return digest
            except (ServiceError, Unreachable) as error:
                pause = self._pause(source, unfinished, attempts, error)
            await sleep_async(pause)

    def _pause(
        self, source: _Source, unfinished: UnfinishedUpload, attempts: Attempts, error: ServiceError | Unreachable
    ) -> float:
        """Seconds until the upload goes on; raises what ends it."""
        if isinstance(error, ServiceError):
            if error.failure_code == _MISMATCH:
                unfinished.forget()
                raise Damaged(f"{source.path} changed while it was sent: send it again") from error
            if error.status == 404 and unfinished.find() is not None:
                unfinished.forget()  # it was kept too long
                return 0.0
            if error.failure_code == _OFFSET_WRONG:
                # Another process sends the same file, or the answer to the last part was lost. The service knows.
                error.retryable = True
        return attempts.pause(error, repeatable=True)

    async def _send(self, source: _Source, unfinished: UnfinishedUpload, attempts: Attempts) -> None:
        ident = unfinished.find()
        if ident is None:
            order = sending("POST", "/uploads", UploadIn(digest=source.digest, size=source.size))
            upload = await self._transport.json(order, Upload)
            if upload.complete:
                source.told(source.size)
                return
            unfinished.keep(ident := upload.id)
            offset = upload.offset
        else:
            offset = _number(
                await self._transport.head(Call("HEAD", f"/uploads/{ident}")), "upload-offset", source.size
            )
        source.told(offset)
        while True:
            content = await in_thread(read_part, source.path, offset, PART_BYTES)
            if offset + len(content) > source.size or (not content and offset < source.size):
                raise Damaged(f"{source.path} changed while it was sent: send it again")
            place = {"Upload-Offset": str(offset), "Content-Type": "application/octet-stream"}
            call = Call("PATCH", f"/uploads/{ident}", content=content, headers=place, seconds=_CHECK_SECONDS)
            await self._transport.once(call)
            offset += len(content)
            attempts.progressed()
            source.told(offset)
            if offset == source.size:
                return

    async def size(self, digest: str) -> int | None:
        """Bytes of a stored file; None if the service does not have it."""
        try:
            return _number(await self._transport.head(Call("HEAD", f"/blobs/sha256/{part(digest)}")), "content-length")
        except ServiceError as error:
            if error.status == 404:
                return None
            raise

    async def download(self, digest: str, path: str | Path, progress: Progress | None = None) -> Path:
        """Write a stored file to `path`, which is returned. What is there before the end is `path` with `.part` behind;
        a download that was cut goes on from it, also in another process.

        Raises Damaged if what came is not what `digest` names, ServiceError, Unreachable, and PockClientError for a
        file that cannot be written.
        """
        path = Path(path)
        target = PartFile(path)
        await in_thread(target.open)
        try:
            await self._receive(digest, target, progress or _silent)
            if target.hexdigest() != digest and target.inherited:
                target.restart()  # what was there before was of something else
                await self._receive(digest, target, progress or _silent)
            if target.hexdigest() != digest:
                found = target.hexdigest()
                target.remove()
                check_digest(path, found, digest)
            await in_thread(target.finish)
        finally:
            target.close()
        return path

    async def _receive(self, digest: str, target: PartFile, progress: Progress) -> None:
        """All bytes that are missing."""
        attempts = Attempts(self._transport.patience)
        while True:
            before = target.size
            try:
                wanted = {"Range": f"bytes={target.size}-"} if target.size else {}
                call = Call("GET", f"/blobs/sha256/{part(digest)}", headers=wanted)
                async with self._transport.answer(call) as response:
                    size = _expected(response, target)
                    target.check_room(size)
                    progress(target.size, size)
                    async for chunk in response.aiter_raw():
                        if target.size + len(chunk) > size:
                            raise Damaged(f"the service sends more than the {size} bytes that it announced")
                        await in_thread(target.write, chunk)
                        progress(target.size, size)
                if target.size == size:
                    return
                raise Unreachable(f"{self._transport.url} ended a download early")
            except (ServiceError, Unreachable) as error:
                if isinstance(error, ServiceError) and error.status == 416 and target.size:
                    if await self.size(digest) == target.size:
                        return
                    target.restart()
                    continue
                if target.size > before:
                    attempts.progressed()
                pause = attempts.pause(error, repeatable=True)
            await sleep_async(pause)


def _expected(response: httpx.Response, target: PartFile) -> int:
    """Bytes of the whole file. A service that sends all of it makes the download begin again."""
    check_encoding(response)
    if response.status_code == 206:
        match = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
        if match is None or int(match[1]) != target.size or int(match[2]) + 1 != int(match[3]):
            raise Damaged(f"the service sends another range than the one from byte {target.size} on")
        return int(match[3])
    if target.size:
        target.restart()
    return _number(response.headers, "content-length")


def _number(headers: httpx.Headers, name: str, most: int | None = None) -> int:
    """A header that is a number. Raises Damaged if it is not there, or too large."""
    text = headers.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 20) or (most is not None and int(text) > most):
        raise Damaged(f"the service's answer has no useful {name.title()}")
    return int(text)


def _silent(done: int, total: int) -> None:
    """Nobody wants to know."""
