"""Tuning over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query

from pock_server.dependencies import BuildWriter, DeviceAdmin, Reader, ServicesDep
from pock_server.http.fields import Id, Name
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.tuning import service
from pock_server.tuning.repository import Distrusted, Entries, Tunings
from pock_server.tuning.schemas import (
    DistrustOut,
    DistrustPage,
    TuningEntryPage,
    TuningImportIn,
    TuningImportOut,
    TuningOut,
    TuningPage,
)
from pock_server.tuning.tables import EntryRecord, TuningRecord

router = APIRouter(prefix="/tuning", tags=["tuning"], responses=PROBLEMS)


@router.get("")
def list_tuning_entries(
    caller: Reader,
    services: ServicesDep,
    page: PageQuery,
    target: Annotated[Name | None, Query()] = None,
    family: Annotated[Name | None, Query()] = None,
    known: Annotated[bool | None, Query(description="Only decided entries, or only others.")] = None,
) -> TuningEntryPage:
    """List what is known of workloads."""
    wanted = ((EntryRecord.target, target), (EntryRecord.family, family))
    filters = [column == value for column, value in wanted if value is not None]
    if known is not None:
        filters.append(EntryRecord.decided_at.is_not(None) if known else EntryRecord.decided_at.is_(None))
    with services.database.read() as session:
        found = Entries(session, caller.workspace_id).page(page, *filters)
        return TuningEntryPage(items=[service.show_entry(row) for row in found.rows], next_cursor=found.next_cursor)


@router.post("")
def import_tuning_entries(body: TuningImportIn, caller: DeviceAdmin, services: ServicesDep) -> TuningImportOut:
    """Know from now on what a file says; entries that are decided here stay as they are."""
    services.compiler.load().require_target(body.target)
    with services.database.write(caller.actor) as unit:
        added, kept = service.import_entries(unit, caller.workspace_id, body, services.clock.now())
        return TuningImportOut(added=added, kept=kept)


@router.get("/jobs")
def list_tunings(
    caller: Reader, services: ServicesDep, page: PageQuery, build_id: Annotated[Id | None, Query()] = None
) -> TuningPage:
    """List the searches for what is best for builds."""
    filters = [] if build_id is None else [TuningRecord.build_id == build_id]
    with services.database.read() as session:
        found = Tunings(session, caller.workspace_id).page(page, *filters)
        return TuningPage(items=[service.show_tuning(row) for row in found.rows], next_cursor=found.next_cursor)


@router.get("/jobs/{tuning_id}")
def get_tuning(tuning_id: Id, caller: Reader, services: ServicesDep) -> TuningOut:
    """One search."""
    with services.database.read() as session:
        return service.show_tuning(Tunings(session, caller.workspace_id).require(tuning_id))


@router.post("/jobs/{tuning_id}/cancel")
def cancel_tuning(tuning_id: Id, caller: BuildWriter, services: ServicesDep) -> TuningOut:
    """Stop a search; what was decided stays."""
    with services.database.write(caller.actor) as unit:
        return service.show_tuning(service.cancel_tuning(unit, caller.workspace_id, tuning_id, services.clock.now()))


@router.get("/devices")
def list_distrusted_devices(caller: Reader, services: ServicesDep, page: PageQuery) -> DistrustPage:
    """List the devices whose measurements do not count."""
    with services.database.read() as session:
        distrusted = Distrusted(session, caller.workspace_id)
        found = distrusted.page(page)
        names = distrusted.names(found.rows)
        items = [
            DistrustOut(
                device_id=row.id,
                device_name=names.get(row.id, ""),
                reason=row.reason,
                run_id=row.run_id,
                since=row.created_at,
            )
            for row in found.rows
        ]
        return DistrustPage(items=items, next_cursor=found.next_cursor)


@router.delete("/devices/{device_id}", status_code=204)
def drop_device_measurements(device_id: Id, caller: DeviceAdmin, services: ServicesDep) -> None:
    """Forget what a device measured, and that it was not believed; what rested on its word is unknown again."""
    with services.database.write(caller.actor) as unit:
        service.drop_device(unit, caller.workspace_id, device_id, services.clock.now())
