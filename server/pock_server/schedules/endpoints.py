"""Schedules over HTTP."""

from fastapi import APIRouter

from pock_server.auth.schemas import Scope
from pock_server.db.unit import Unit
from pock_server.dependencies import Reader, RunWriter, ServicesDep
from pock_server.http.fields import Id
from pock_server.http.pages import PageQuery
from pock_server.http.problems import PROBLEMS
from pock_server.idempotency.header import Once
from pock_server.quotas.service import Quota, check
from pock_server.schedules import service
from pock_server.schedules.repository import Schedules, ScheduleTimes
from pock_server.schedules.schemas import ScheduleChange, ScheduleIn, ScheduleOut, SchedulePage, TimePage
from pock_server.schedules.tables import ScheduleRecord, ScheduleTimeRecord

router = APIRouter(prefix="/schedules", tags=["schedules"], responses=PROBLEMS)


@router.post("", status_code=201)
def create_schedule(body: ScheduleIn, caller: RunWriter, services: ServicesDep, once: Once) -> ScheduleOut:
    """Ask for a campaign or a benchmark at the times of a cron expression. A campaign that has its builds made needs
    the scope builds:write as well."""
    if body.what.campaign is not None and body.what.campaign.model_id is not None:
        caller.demand(Scope.BUILDS_WRITE)
    with services.database.write(caller.actor) as unit:
        row = service.create_schedule(unit, caller.workspace_id, body, services.clock.now())
        check(unit, services.settings, caller.workspace_id, services.clock.now(), Quota.SCHEDULES)
        return once(unit, _shown(unit, row), 201)


@router.get("")
def list_schedules(caller: Reader, services: ServicesDep, page: PageQuery) -> SchedulePage:
    """List schedules."""
    with services.database.read() as session:
        schedules = Schedules(session, caller.workspace_id)
        found = schedules.page(page)
        return SchedulePage(items=service.show(schedules, found.rows), next_cursor=found.next_cursor)


@router.get("/{schedule_id}")
def get_schedule(schedule_id: Id, caller: Reader, services: ServicesDep) -> ScheduleOut:
    """One schedule."""
    with services.database.read() as session:
        schedules = Schedules(session, caller.workspace_id)
        (shown,) = service.show(schedules, [schedules.require(schedule_id)])
        return shown


@router.get("/{schedule_id}/times")
def list_schedule_times(schedule_id: Id, caller: Reader, services: ServicesDep, page: PageQuery) -> TimePage:
    """The times that the schedule was due, and what became of each."""
    with services.database.read() as session:
        row = Schedules(session, caller.workspace_id).require(schedule_id)
        times = ScheduleTimes(session, caller.workspace_id)
        found = times.page(page, ScheduleTimeRecord.schedule_id == row.id)
        return TimePage(items=[service.show_time(time) for time in found.rows], next_cursor=found.next_cursor)


@router.patch("/{schedule_id}")
def change_schedule(schedule_id: Id, body: ScheduleChange, caller: RunWriter, services: ServicesDep) -> ScheduleOut:
    """Change when a schedule is due, or whether."""
    with services.database.write(caller.actor) as unit:
        row = service.change_schedule(unit, caller.workspace_id, schedule_id, body, services.clock.now())
        return _shown(unit, row)


@router.delete("/{schedule_id}", status_code=204)
def delete_schedule(schedule_id: Id, caller: RunWriter, services: ServicesDep) -> None:
    """Forget a schedule; what it asked for stays."""
    with services.database.write(caller.actor) as unit:
        service.delete_schedule(unit, caller.workspace_id, schedule_id, services.clock.now())


def _shown(unit: Unit, row: ScheduleRecord) -> ScheduleOut:
    (shown,) = service.show(Schedules(unit.session, row.workspace_id), [row])
    return shown
