"""Turns the parts of an upload into a blob: one process at a time joins, hashes and stores them in one pass.

The digest is known when the last byte has been read, and only then does the store show the blob. A process that dies
before leaves the parts as they are: the client repeats the end of the upload, or the sweeper drops it a day after it
began.
"""

import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fastapi.concurrency import run_in_threadpool

from pock_server.actor import SERVICE, Actor
from pock_server.audit.service import Action, made, record
from pock_server.blobs.faults import DigestMismatch
from pock_server.blobs.repository import Blobs, Uploads
from pock_server.clock import new_id
from pock_server.db.alive import is_alive
from pock_server.http.problems import Failure, Problem
from pock_server.observing.facts import Counted
from pock_server.services import Services

if TYPE_CHECKING:
    from pock_server.blobs.store import Chunk

_HOLD_SECONDS = 120.0
_log = logging.getLogger(__name__)
_BUSY = "The bytes are being checked by another request; ask again with an empty body."


@dataclass(frozen=True)
class _Turn:
    """The right to finish an upload, and what there is to do."""

    services: Services
    workspace_id: str
    upload_id: str
    token: str
    digest: str
    size: int
    keys: tuple[str, ...]
    by: Actor

    async def parts(self) -> "AsyncIterator[Chunk]":
        """All bytes of the upload; keeps the turn while they are read."""
        renew_at = time.monotonic() + _HOLD_SECONDS / 4
        async for chunk in self.services.blobs.read_objects(self.keys):
            if time.monotonic() >= renew_at:
                await run_in_threadpool(self.renew)
                renew_at = time.monotonic() + _HOLD_SECONDS / 4
            yield chunk

    def renew(self) -> None:
        """Keep the turn; a 409 `Problem` if another process has it now."""
        with self.services.database.write() as unit:
            if not Uploads(unit.session, self.workspace_id).hold(self.upload_id, self.token, _until(self.services)):
                raise _busy()

    def give_back(self) -> None:
        """Somebody else may try at once."""
        with self.services.database.write() as unit:
            Uploads(unit.session, self.workspace_id).let_go(self.upload_id, self.token)

    def settle(self, good: bool) -> None:
        """The upload is complete and the workspace has the blob; or the upload is gone."""
        with self.services.database.write(self.by) as unit:
            uploads = Uploads(unit.session, self.workspace_id)
            if not uploads.hold(self.upload_id, self.token, _until(self.services)):
                raise _busy()
            upload = uploads.require(self.upload_id)
            uploads.drop_parts(upload)
            if good:
                upload.complete = True
                upload.finisher = upload.finishing_until = upload.finishing_by = None
                now = self.services.clock.now()
                Blobs(unit.session, self.workspace_id).remember(self.digest, self.size, now)
                if self.by is not SERVICE:
                    record(unit, Action.UPLOAD_FINISH, upload, self.digest, now, made(size=self.size))
            else:
                unit.session.delete(upload)
            unit.happened(Counted("uploads", "complete" if good else "mismatch"))


async def finish_upload(services: Services, workspace_id: str, upload_id: str, by: Actor) -> None:
    """Make the blob of an upload whose bytes are all there; nothing to do if somebody else did.

    The audit log tells of it unless `by` is the service: what devices send is routine.

    Raises a `Problem`: 460 if the bytes have another digest, after which the upload is gone; 409, to be repeated, while
    another request is at it.
    """
    turn = await run_in_threadpool(_take_turn, services, workspace_id, upload_id, by)
    if turn is None:
        return
    try:
        good = await _store(turn)
    except BaseException:
        await run_in_threadpool(turn.give_back)
        raise
    await run_in_threadpool(turn.settle, good)
    if good and not await run_in_threadpool(services.blobs.has, turn.digest):
        # An unused blob of the same bytes was being collected at that moment. It is used now, and will not be again.
        await services.blobs.write(turn.digest, turn.size, turn.parts())
    await run_in_threadpool(services.blobs.delete_objects, turn.keys)
    if not good:
        detail = "The bytes do not have the promised SHA-256; the upload was discarded, start a new one."
        raise Problem(Failure.DIGEST_MISMATCH, detail)


async def _store(turn: _Turn) -> bool:
    try:
        await turn.services.blobs.write(turn.digest, turn.size, turn.parts())
    except (DigestMismatch, FileNotFoundError):
        return False
    return True


def _take_turn(services: Services, workspace_id: str, upload_id: str, by: Actor) -> _Turn | None:
    now = services.clock.now()
    token, own = new_id(now), services.hub.name
    with services.database.write() as unit:
        uploads = Uploads(unit.session, workspace_id)
        if not uploads.begin_finish(upload_id, token, own, now, _until(services)):
            found = uploads.require(upload_id)
            if found.complete:
                return None
            if found.finisher is None or is_alive(unit.session, found.finishing_by, own):
                raise _busy()
            _log.info("process %s died while it checked upload %s: it is checked again", found.finishing_by, upload_id)
            uploads.let_go(upload_id, found.finisher)
            if not uploads.begin_finish(upload_id, token, own, now, _until(services)):
                raise _busy()
        upload = uploads.require(upload_id)
        keys = tuple(uploads.part_keys(upload))
        return _Turn(services, workspace_id, upload_id, token, upload.digest, upload.size, keys, by)


def _until(services: Services) -> datetime:
    return services.clock.now() + timedelta(seconds=_HOLD_SECONDS)


def _busy() -> Problem:
    return Problem(Failure.UPLOAD_CHECKING, _BUSY, {"Retry-After": "2"})
