"""Resumable uploads: parts become durable one by one, and a blob only when all of them have the promised digest."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NoReturn

from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from pock_server.blobs.repository import Blobs, Uploads
from pock_server.blobs.schemas import UploadIn
from pock_server.blobs.tables import UploadRecord
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.http.problems import Failure, Problem
from pock_server.services import Services


def start_upload(unit: Unit, services: Services, workspace_id: str, order: UploadIn) -> UploadRecord:
    """Begin an upload; complete at once if the workspace has the blob."""
    if order.size > services.settings.max_blob_bytes:
        raise Problem(Failure.TOO_LARGE, f"At most {services.settings.max_blob_bytes} bytes can be uploaded.")
    now = services.clock.now()
    blob = Blobs(unit.session, workspace_id).find(order.digest)
    if blob is not None and blob.size != order.size:
        raise Problem(Failure.INVALID, f"body.size: the blob with this digest has {blob.size} bytes.")
    row = UploadRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        digest=order.digest,
        size=order.size,
        received=order.size if blob else 0,
        complete=blob is not None,
    )
    return Uploads(unit.session, workspace_id).add(row)


@dataclass(frozen=True)
class Receiver:
    """Takes the body of one PATCH request."""

    services: Services
    workspace_id: str
    upload_id: str

    async def receive(self, offset: int, body: AsyncIterator[bytes]) -> int:
        """Store `body` from `offset` on; the new offset. What arrived before a lost connection stays."""
        upload = await run_in_threadpool(self._load, offset)
        pending = bytearray()
        try:
            async for chunk in body:
                pending += chunk
                if offset + len(pending) > upload.size:
                    raise Problem(Failure.TOO_LARGE, f"The body goes beyond the {upload.size} bytes of this upload.")
                if len(pending) >= self.services.settings.upload_part_bytes:
                    offset = await run_in_threadpool(self._append, offset, bytes(pending))
                    pending.clear()
        except ClientDisconnect:
            await run_in_threadpool(self._append, offset, bytes(pending))
            raise
        offset = await run_in_threadpool(self._append, offset, bytes(pending))
        if offset == upload.size:
            await run_in_threadpool(self._finish)
        return offset

    def _load(self, offset: int) -> UploadRecord:
        with self.services.database.read() as session:
            upload = Uploads(session, self.workspace_id).require(self.upload_id)
        if upload.complete:
            raise Problem(Failure.STATE_CONFLICT, "This upload is complete; nothing can be added.")
        if upload.received != offset:
            _refuse_offset(offset, upload.received)
        return upload

    def _append(self, offset: int, data: bytes) -> int:
        if not data:
            return offset
        # A random tail keeps two requests that race for the same offset from overwriting each other's object.
        key = f"uploads/{self.upload_id}/{offset:020d}-{os.urandom(8).hex()}"
        self.services.blobs.put_object(key, data)
        with self.services.database.write() as unit:
            advanced = Uploads(unit.session, self.workspace_id).advance(self.upload_id, offset, len(data), key)
        if not advanced:
            self.services.blobs.delete_objects([key])
            with self.services.database.read() as session:
                _refuse_offset(offset, Uploads(session, self.workspace_id).require(self.upload_id).received)
        return offset + len(data)

    def _finish(self) -> None:
        with self.services.database.read() as session:
            uploads = Uploads(session, self.workspace_id)
            upload = uploads.require(self.upload_id)
            keys = uploads.part_keys(upload)
        good = self.services.blobs.put_parts(upload.digest, keys)
        with self.services.database.write() as unit:
            uploads = Uploads(unit.session, self.workspace_id)
            upload = uploads.require(self.upload_id)
            uploads.drop_parts(upload)
            if good:
                upload.complete = True
                Blobs(unit.session, self.workspace_id).remember(upload.digest, upload.size, self.services.clock.now())
            else:
                unit.session.delete(upload)
        self.services.blobs.delete_objects(keys)
        if not good:
            detail = "The bytes do not have the promised SHA-256; the upload was discarded, start a new one."
            raise Problem(Failure.DIGEST_MISMATCH, detail)


def _refuse_offset(sent: int, expected: int) -> NoReturn:
    detail = f"Upload-Offset is {sent}, but {expected} bytes were received; continue from there."
    raise Problem(Failure.OFFSET_WRONG, detail, {"Upload-Offset": str(expected)})
