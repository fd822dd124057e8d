"""Resumable uploads: parts become durable one by one, and a blob only when all of them have the promised digest."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NoReturn

from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from pock_server.actor import SERVICE, Actor
from pock_server.blobs.finishing import finish_upload
from pock_server.blobs.repository import Blobs, Uploads
from pock_server.blobs.schemas import UploadIn
from pock_server.blobs.tables import UploadRecord
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.observing.facts import Counted
from pock_server.services import Services


def start_upload(unit: Unit, services: Services, workspace_id: str, order: UploadIn) -> UploadRecord:
    """Begin an upload; complete at once if the workspace has the blob."""
    if order.size > services.settings.max_blob_bytes:
        raise Problem(Failure.TOO_LARGE, f"At most {services.settings.max_blob_bytes} bytes can be uploaded.")
    now = services.clock.now()
    blob = Blobs(unit.session, workspace_id).touch(order.digest, now)
    if blob is not None and blob.size != order.size:
        raise Problem(Failure.INVALID, f"body.size: the blob with this digest has {blob.size} bytes.")
    if blob is not None:
        unit.happened(Counted("uploads", "known"))
    row = UploadRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        digest=order.digest,
        size=order.size,
        received=order.size if blob else 0,
        parts=0,
        complete=blob is not None,
    )
    return Uploads(unit.session, workspace_id).add(row)


@dataclass(frozen=True)
class Receiver:
    """Takes the body of one PATCH request; holds one part of it in memory."""

    services: Services
    workspace_id: str
    upload_id: str
    by: Actor = SERVICE
    """Whose upload the audit log tells of; what devices send is routine, and it does not."""

    async def receive(self, offset: int, body: AsyncIterator[bytes]) -> int:
        """Store `body` from `offset` on; the new offset. What arrived before a lost connection stays."""
        upload = await run_in_threadpool(self._load, offset)
        pending = bytearray()
        try:
            async for chunk in body:
                pending += chunk
                if pending and upload.complete:
                    raise Problem(Failure.STATE_CONFLICT, "This upload is complete; nothing can be added.")
                if offset + len(pending) > upload.size:
                    raise Problem(Failure.TOO_LARGE, f"The body goes beyond the {upload.size} bytes of this upload.")
                if len(pending) >= self.services.settings.upload_part_bytes:
                    offset = await self._append(offset, pending)
                    pending = bytearray()
        except ClientDisconnect:
            await self._append(offset, pending)
            raise
        offset = await self._append(offset, pending)
        if offset == upload.size and not upload.complete:
            await finish_upload(self.services, self.workspace_id, self.upload_id, self.by)
        return offset

    def _load(self, offset: int) -> UploadRecord:
        with self.services.database.read() as session:
            upload = Uploads(session, self.workspace_id).require(self.upload_id)
        if upload.received != offset:
            _refuse_offset(offset, upload.received)
        return upload

    async def _append(self, offset: int, data: bytearray) -> int:
        if not data:
            return offset
        # A random tail keeps two requests that race for the same offset from overwriting each other's object.
        key = f"uploads/{self.upload_id}/{offset:020d}-{os.urandom(8).hex()}"
        await self.services.blobs.put_object(key, data)
        try:
            await run_in_threadpool(self._note, offset, len(data), key)
        except Problem:
            await run_in_threadpool(self.services.blobs.delete_objects, [key])
            raise
        # After any other error nobody knows whether the row is there. An object without a row is collected later; a row
        # without its object would be the end of the upload.
        return offset + len(data)

    def _note(self, offset: int, size: int, key: str) -> None:
        with self.services.database.write() as unit:
            uploads = Uploads(unit.session, self.workspace_id)
            if not uploads.advance(self.upload_id, offset, size, key):
                uploads.require_room(self.upload_id)
                _refuse_offset(offset, uploads.require(self.upload_id).received)


def _refuse_offset(sent: int, expected: int) -> NoReturn:
    detail = f"Upload-Offset is {sent}, but {expected} bytes were received; continue from there."
    raise Problem(Failure.OFFSET_WRONG, detail, {"Upload-Offset": str(expected)})
