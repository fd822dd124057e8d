"""Resumable downloads into the cache: every answer is checked against what was asked before a byte of it is kept."""

from __future__ import annotations

import http.client
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pock_agent.connection import backoff
from pock_agent.connection.service import Service
from pock_agent.connection.transport import raise_for_status
from pock_agent.disk.blobs import Blob, BlobCache
from pock_agent.errors import AgentError, FailureCode, JobFailed, ServiceError, Unreachable, is_disk_full
from pock_agent.job.control import JobControl
from pock_agent.job.spool import told
from pock_agent.settings import MIB, Settings

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class Downloader:
    """Fetches the blobs of one job. Stops with the job: `control` is asked between chunks."""

    def __init__(self, service: Service, cache: BlobCache, control: JobControl, settings: Settings) -> None:
        self._service, self._cache, self._control, self._settings = service, cache, control, settings

    def fetch_all(self, blobs: Iterable[Blob]) -> dict[Blob, Path]:
        """Each blob's verified file; only what the cache lacks is fetched.

        Raises JobFailed: 2002 no room, 2004 content that does not match, 1000 an answer that is final.
        """
        wanted = list(dict.fromkeys(blobs))
        found = {blob: path for blob in wanted if (path := self._cache.find(blob)) is not None}
        missing = [blob for blob in wanted if blob not in found]
        self._cache.make_room(sum(blob.size - self._present(blob) for blob in missing), keep=wanted)
        began = time.monotonic()
        for blob in missing:
            found[blob] = self._fetch(blob)
        size = sum(blob.size for blob in missing) / MIB
        told.info(
            "fetched %d of %d files, %.1f MiB in %.1f s; all have the right digests",
            len(missing), len(found), size, time.monotonic() - began,
        )  # fmt: skip
        return found

    def _present(self, blob: Blob) -> int:
        try:
            size = self._cache.partial(blob).stat().st_size
        except FileNotFoundError:
            return 0
        return min(size, blob.size)

    def _fetch(self, blob: Blob) -> Path:
        failures = mismatches = 0
        while True:
            before = self._present(blob)
            try:
                self._receive(blob)
                path = self._cache.add(blob)
                if path is not None:
                    return path
                mismatches += 1
                error: AgentError = Unreachable(f"blob {blob.sha256} arrived with another digest")
            except (Unreachable, ServiceError) as trouble:
                error = trouble
                if isinstance(trouble, ServiceError) and not trouble.transient:
                    raise JobFailed(FailureCode.SERVICE, f"blob {blob.sha256} cannot be had: {trouble}") from trouble
            except JobFailed:
                self._cache.drop_partials()  # a full disk needs the room for the report
                raise
            failures = 1 if self._present(blob) > before else failures + 1
            if mismatches >= self._settings.download_mismatches:
                raise JobFailed(
                    FailureCode.VERIFICATION,
                    f"blob {blob.sha256} arrived {mismatches} times with another digest; the stored copy is damaged, "
                    "or something on the way changes it",
                )
            if failures >= self._settings.download_tries:
                raise JobFailed(FailureCode.SERVICE, f"blob {blob.sha256}: {failures} tries in vain, the last: {error}")
            pause = backoff.delay(self._settings, failures, error)
            told.warning("%s; another try in %.1f s", error, pause)
            self._control.wait(pause)

    def _receive(self, blob: Blob) -> None:
        """Append what is missing of a blob to its partial file."""
        partial = self._cache.partial(blob)
        start = self._present(blob)
        if start == blob.size:
            partial.touch()
            return
        headers = {"Range": f"bytes={start}-"} if start else {}
        self._service.download(blob.sha256, headers, lambda answer: self._store(answer, blob, start))

    def _store(self, answer: http.client.HTTPResponse, blob: Blob, asked: int) -> None:
        if answer.status == 416:
            self._cache.partial(blob).unlink()
            raise Unreachable(f"the service does not have the rest of blob {blob.sha256} from byte {asked}")
        if answer.status not in (200, 206):
            raise_for_status(answer, answer.read(65536))
            raise Unreachable(f"the service answered {answer.status} to a download")
        start = _check_range(answer, blob, asked)
        left = blob.size - start
        with _storing():
            descriptor = os.open(self._cache.partial(blob), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            with _storing():
                os.ftruncate(descriptor, start)
                os.lseek(descriptor, start, os.SEEK_SET)
            while left:
                self._control.check_policies()
                chunk = answer.read1(min(self._settings.download_chunk_bytes, left))
                if not chunk:
                    raise Unreachable(f"the connection ended {left} bytes before the end of blob {blob.sha256}")
                _append(descriptor, chunk)
                left -= len(chunk)
            with _storing():
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _storing() -> Iterator[None]:
    """Tell trouble with the disk from trouble with the network: both are OSErrors."""
    try:
        yield
    except OSError as error:
        advice = "free some room" if is_disk_full(error) else "check the disk"
        raise JobFailed(FailureCode.DISK_FULL, f"a download was not stored ({error.strerror}); {advice}") from error


def _append(descriptor: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    with _storing():
        while view:
            view = view[os.write(descriptor, view) :]


def _check_range(answer: http.client.HTTPResponse, blob: Blob, asked: int) -> int:
    """Where the body starts, once status, Content-Range and Content-Length agree with the request."""
    if answer.status == 200:
        start = 0
    else:
        text = answer.headers.get("Content-Range", "")
        match = _CONTENT_RANGE.fullmatch(text)
        if match is None or tuple(map(int, match.groups())) != (asked, blob.size - 1, blob.size):
            raise Unreachable(f"asked for bytes {asked}-{blob.size - 1}/{blob.size} and was answered {text!r}")
        start = asked
    length = answer.headers.get("Content-Length")
    if length is not None and length != str(blob.size - start):
        raise Unreachable(f"blob {blob.sha256} came with {length} bytes where {blob.size - start} were expected")
    return start
