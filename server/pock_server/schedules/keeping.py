"""Asks for what schedules are for, when they are due. What is asked for and the next time are one transaction, so that
a service that dies between two of them asks neither twice nor not at all."""

from datetime import datetime

from pock_server.benchmarks.lifecycle import BENCHMARK_LIFECYCLE
from pock_server.benchmarks.repository import Benchmarks
from pock_server.benchmarks.service import request_benchmark
from pock_server.campaigns.repository import Campaigns
from pock_server.campaigns.service import Circumstances, circumstances, create_campaign
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.http.problems import Problem
from pock_server.quotas.service import Quota, check
from pock_server.schedules.repository import Schedules, ScheduleTimes
from pock_server.schedules.schemas import Outcome, Scheduled
from pock_server.schedules.tables import ScheduleRecord, ScheduleTimeRecord
from pock_server.schedules.times import next_time, times_until
from pock_server.services import Services

_DETAIL_CHARACTERS = 1000


def keep(services: Services, workspace_id: str, schedule_id: str) -> None:
    """Ask for what the schedule is for, if it is due. A refusal is written down; nobody waits for an answer."""
    with services.database.read() as session:
        what = Scheduled.model_validate(Schedules(session, workspace_id).require(schedule_id).what)
    around = circumstances(services, what.campaign) if what.campaign else None
    now = services.clock.now()
    try:
        with services.database.write() as unit:
            row = _due(unit, workspace_id, schedule_id, now)
            if row is not None:
                time = _pass(unit, row, now)
                if row.skip_if_running and _runs_still(unit, row):
                    time.outcome, time.detail = Outcome.SKIPPED, _told(time, "The last one is not over.")
                else:
                    _ask(unit, services, row, time, what, around)
        return
    except Problem as problem:
        refusal = problem
    with services.database.write() as unit:
        row = _due(unit, workspace_id, schedule_id, now)
        if row is not None:
            time = _pass(unit, row, now)
            time.outcome, time.detail = Outcome.REFUSED, _told(time, refusal.detail)


def _due(unit: Unit, workspace_id: str, schedule_id: str, now: datetime) -> ScheduleRecord | None:
    """The schedule, locked, if it is still due."""
    row = Schedules(unit.session, workspace_id).find(schedule_id, lock=True)
    return row if row is not None and row.next_at is not None and row.next_at <= now else None


def _pass(unit: Unit, row: ScheduleRecord, now: datetime) -> ScheduleTimeRecord:
    """Write down that this time has come, with those that were missed before it, and when the next one will."""
    assert row.next_at is not None
    missed = times_until(row.cron, row.timezone, row.next_at, now) - 1
    times = ScheduleTimes(unit.session, row.workspace_id)
    time = ScheduleTimeRecord(
        id=new_id(now),
        workspace_id=row.workspace_id,
        created_at=now,
        schedule_id=row.id,
        due_at=row.next_at,
        missed=missed,
        outcome=Outcome.ASKED,
    )
    time.detail = _told(time, None)
    times.add(time)
    times.thin(row.id)
    row.next_at = next_time(row.cron, row.timezone, now)
    return time


def _told(time: ScheduleTimeRecord, sentence: str | None) -> str | None:
    """A sentence, and, where times were missed, another one about them."""
    parts = [sentence] if sentence else []
    if time.missed:
        were = "time was" if time.missed == 1 else "times were"
        parts.append(f"{time.missed} {were} missed while the service was down; this one stands for all.")
    return " ".join(parts)[:_DETAIL_CHARACTERS] or None


def _runs_still(unit: Unit, row: ScheduleRecord) -> bool:
    if Campaigns(unit.session, row.workspace_id).is_open(row.id):
        return True
    mine = (ScheduleTimeRecord.schedule_id == row.id, ScheduleTimeRecord.benchmark_id.is_not(None))
    query = ScheduleTimes(unit.session, row.workspace_id).select().where(*mine)
    last = unit.session.scalars(query.order_by(ScheduleTimeRecord.id.desc()).limit(1)).one_or_none()
    found = Benchmarks(unit.session, row.workspace_id).find(last.benchmark_id or "") if last else None
    return found is not None and found.state not in BENCHMARK_LIFECYCLE.final


def _ask(
    unit: Unit,
    services: Services,
    row: ScheduleRecord,
    time: ScheduleTimeRecord,
    what: Scheduled,
    around: Circumstances | None,
) -> None:
    now = services.clock.now()
    if what.campaign is not None and around is not None:
        time.campaign_id = create_campaign(unit, row.workspace_id, what.campaign, around, now, row.id).id
    elif what.benchmark is not None:
        time.benchmark_id = request_benchmark(unit, row.workspace_id, what.benchmark, services.settings, now).id
        check(unit, services.settings, row.workspace_id, now, Quota.RUNS)
