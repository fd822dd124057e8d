"""Serves a blob, whole or one range of it (RFC 9110 section 14)."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from pock_server.blobs.care import quarantine
from pock_server.blobs.faults import BlobFault
from pock_server.http.problems import Failure, Problem
from pock_server.services import Services

# A place in a file has at most 19 digits; whatever else is no range that we know, and the header counts as absent.
_RANGE = re.compile(r"^bytes=(\d{0,19})-(\d{0,19})$", re.ASCII)


@dataclass(frozen=True)
class ByteRange:
    """Bytes `start` to `stop`, exclusive."""

    start: int
    stop: int


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """The range asked for; None means everything (no range, several ranges, or not our unit).

    Raises a 416 `Problem` if the range lies outside of the blob.
    """
    match = _RANGE.match(header or "")
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if first == "":
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size or start >= stop:
        detail = f"The range lies outside of the blob's {size} bytes."
        raise Problem(Failure.RANGE_UNSATISFIABLE, detail, {"Content-Range": f"bytes */{size}"})
    return ByteRange(start, stop)


async def blob_response(request: Request, services: Services, digest: str, size: int) -> Response:
    """The answer to GET or HEAD for a blob of `size` bytes."""
    etag = f'"{digest}"'
    headers = {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=31536000, immutable",
        "Content-Disposition": "attachment",
    }
    if request.headers.get("If-None-Match") == etag:
        return Response(status_code=304, headers=headers)
    wanted = None
    if request.headers.get("If-Range", etag) == etag:
        wanted = parse_range(request.headers.get("Range"), size)
    if request.method == "HEAD":
        headers["Content-Length"] = str(size)
        return Response(headers=headers, media_type="application/octet-stream")
    part = wanted or ByteRange(0, size)
    headers["Content-Length"] = str(part.stop - part.start)
    if wanted is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
    return StreamingResponse(
        _watched(services, await services.blobs.stream(digest, size, part.start, part.stop)),
        status_code=206 if wanted else 200,
        headers=headers,
        media_type="application/octet-stream",
    )


async def _watched(services: Services, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The chunks; what turns out to be damaged is quarantined, and the connection ends before its last byte."""
    try:
        async for chunk in chunks:
            yield chunk
    except BlobFault as fault:
        await run_in_threadpool(quarantine, services, fault)
        raise
