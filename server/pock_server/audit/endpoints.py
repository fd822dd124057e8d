"""The audit log over HTTP: to read, and nothing else."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, StringConstraints

from pock_server.audit import service
from pock_server.audit.repository import AuditLog, Filter, export
from pock_server.audit.schemas import AuditPage
from pock_server.dependencies import AuditReader, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS

router = APIRouter(prefix="/audit", tags=["audit"], responses=PROBLEMS)

JSON_LINES = "application/jsonl"
_LINES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One entry a line, oldest first.",
        "content": {JSON_LINES: {"schema": {"type": "string"}}},
    }
}
_Word = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_.\-]{1,64}$")]


def _filter(
    action: Annotated[_Word | None, Query(description="Such as `device.revoke`.")] = None,
    object_kind: Annotated[_Word | None, Query(description="Such as `device`.")] = None,
    object_id: Annotated[_Word | None, Query()] = None,
    member_id: Annotated[Id | None, Query(description="Who did it.")] = None,
    key_id: Annotated[Id | None, Query(description="With which key.")] = None,
    since: Annotated[AwareDatetime | None, Query(description="From this moment on.")] = None,
    until: Annotated[AwareDatetime | None, Query(description="Before this moment.")] = None,
) -> Filter:
    return Filter(
        action=action,
        object_kind=object_kind,
        object_id=object_id,
        member_id=member_id,
        key_id=key_id,
        since=since,
        until=until,
    )


Wanted = Annotated[Filter, Depends(_filter)]


@router.get("")
def list_audit_entries(caller: AuditReader, services: ServicesDep, page: PageQuery, wanted: Wanted) -> AuditPage:
    """List changes that people made, and devices that came and went."""
    with services.database.read() as session:
        found = AuditLog(session, caller.workspace_id).page(page, *wanted.conditions())
        return AuditPage(items=[service.describe(row) for row in found.rows], next_cursor=found.next_cursor)


@router.get("/export", response_class=StreamingResponse, responses=_LINES)
def export_audit_entries(caller: AuditReader, services: ServicesDep, wanted: Wanted) -> StreamingResponse:
    """All wanted entries as JSON lines, to be kept elsewhere."""
    batches = export(services.database, replace(wanted, workspace_id=caller.workspace_id))

    def lines() -> Iterator[str]:
        for rows in batches:
            yield "".join(service.describe(row).model_dump_json() + "\n" for row in rows)

    return StreamingResponse(lines(), media_type=JSON_LINES)
