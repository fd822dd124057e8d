"""Blobs and uploads over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from pock_server.audit.service import Action, made, record
from pock_server.auth.service import Caller
from pock_server.blobs.download import blob_response
from pock_server.blobs.repository import Blobs, Uploads
from pock_server.blobs.schemas import UploadIn, UploadOut
from pock_server.blobs.service import Receiver, start_upload
from pock_server.dependencies import ModelWriter, Reader, ServicesDep, UploadReader
from pock_server.http.fields import Digest, Id
from pock_server.http.problems import PROBLEMS
from pock_server.quotas.service import Quota, check
from pock_server.services import Services

router = APIRouter(tags=["blobs"], responses=PROBLEMS)

BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
DOWNLOAD: dict[int | str, dict[str, Any]] = {
    200: {"description": "The whole blob.", "content": BYTES},
    206: {"description": "The range asked for.", "content": BYTES},
    304: {"description": "The client has it."},
}


@router.head("/blobs/sha256/{digest}", response_class=Response, responses={304: {"description": "The client has it."}})
async def head_blob(digest: Digest, request: Request, caller: UploadReader, services: ServicesDep) -> Response:
    """Whether the workspace has the blob, and its size."""
    size = await run_in_threadpool(_size, services, caller, digest)
    return await blob_response(request, services, digest, size)


@router.get("/blobs/sha256/{digest}", response_class=Response, responses=DOWNLOAD)
async def get_blob(digest: Digest, request: Request, caller: Reader, services: ServicesDep) -> Response:
    """Download a blob or a range of it."""
    size = await run_in_threadpool(_size, services, caller, digest)
    return await blob_response(request, services, digest, size)


def _size(services: Services, caller: Caller, digest: str) -> int:
    with services.database.read() as session:
        return Blobs(session, caller.workspace_id).require(digest).size


@router.post("/uploads", status_code=201)
def create_upload(body: UploadIn, caller: ModelWriter, services: ServicesDep) -> UploadOut:
    """Begin an upload."""
    with services.database.write(caller.actor) as unit:
        row = start_upload(unit, services, caller.workspace_id, body)
        if not row.complete:
            check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.BYTES, Quota.UPLOADS)
        audited = made(size=row.size, complete=row.complete)
        record(unit, Action.UPLOAD_START, row, row.digest, services.clock.now(), audited)
        return UploadOut(id=row.id, offset=row.received, size=row.size, complete=row.complete)


@router.head("/uploads/{upload_id}", response_class=Response)
def head_upload(upload_id: Id, caller: UploadReader, services: ServicesDep) -> Response:
    """How much of an upload has arrived."""
    with services.database.read() as session:
        row = Uploads(session, caller.workspace_id).require(upload_id)
        headers = {"Upload-Offset": str(row.received), "Upload-Length": str(row.size), "Cache-Control": "no-store"}
        return Response(headers=headers)


@router.patch(
    "/uploads/{upload_id}",
    status_code=204,
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": BYTES}},
)
async def append_to_upload(
    upload_id: Id,
    request: Request,
    upload_offset: Annotated[int, Header(ge=0, le=2**53, description="Where the body starts.")],
    caller: ModelWriter,
    services: ServicesDep,
) -> Response:
    """Send bytes from `Upload-Offset` on; the last byte completes the upload and has its digest checked."""
    receiver = Receiver(services, caller.workspace_id, upload_id, caller.actor)
    try:
        offset = await receiver.receive(upload_offset, request.stream())
    except ClientDisconnect:
        return Response(status_code=400)
    return Response(status_code=204, headers={"Upload-Offset": str(offset)})
