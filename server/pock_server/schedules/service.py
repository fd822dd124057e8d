"""Makes, changes and shows schedules."""

from collections.abc import Sequence
from datetime import datetime

from pock_server.audit.service import Action, changed, gone, made, record
from pock_server.builds.repository import Builds
from pock_server.campaigns.service import require_ingredients
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.devices.repository import Devices
from pock_server.schedules.repository import Schedules, ScheduleTimes
from pock_server.schedules.schemas import Outcome, ScheduleChange, Scheduled, ScheduleIn, ScheduleOut, TimeOut
from pock_server.schedules.tables import ScheduleRecord, ScheduleTimeRecord
from pock_server.schedules.times import next_time


def create_schedule(unit: Unit, workspace_id: str, order: ScheduleIn, now: datetime) -> ScheduleRecord:
    """Keep a schedule; it is due for the first time after now. A 404 `Problem` if what it names is not there."""
    if order.what.campaign is not None:
        require_ingredients(unit.session, workspace_id, order.what.campaign)
    elif order.what.benchmark is not None:
        Builds(unit.session, workspace_id).require(order.what.benchmark.build_id)
        Devices(unit.session, workspace_id).require(order.what.benchmark.device_id)
    row = ScheduleRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        name=order.name,
        cron=order.cron,
        timezone=order.timezone,
        what=order.what.model_dump(mode="json"),
        skip_if_running=order.skip_if_running,
        enabled=order.enabled,
        next_at=next_time(order.cron, order.timezone, now) if order.enabled else None,
    )
    Schedules(unit.session, workspace_id).add(row)
    record(unit, Action.SCHEDULE_CREATE, row, row.name, now, made(cron=row.cron, timezone=row.timezone))
    return row


def change_schedule(
    unit: Unit, workspace_id: str, schedule_id: str, order: ScheduleChange, now: datetime
) -> ScheduleRecord:
    """Change what the order names. What was due meanwhile is not made up for when it is enabled again."""
    row = Schedules(unit.session, workspace_id).require(schedule_id, lock=True)
    wanted = order.model_dump(exclude_none=True)
    before = {name: getattr(row, name) for name in wanted}
    for name, value in wanted.items():
        setattr(row, name, value)
    changes = changed(before, wanted)
    if changes:
        if {"cron", "timezone", "enabled"} & set(changes):
            row.next_at = next_time(row.cron, row.timezone, now) if row.enabled else None
        record(unit, Action.SCHEDULE_CHANGE, row, row.name, now, changes)
    return row


def delete_schedule(unit: Unit, workspace_id: str, schedule_id: str, now: datetime) -> None:
    """Forget a schedule and its times; what it asked for stays."""
    row = Schedules(unit.session, workspace_id).require(schedule_id, lock=True)
    record(unit, Action.SCHEDULE_DELETE, row, row.name, now, gone(cron=row.cron, timezone=row.timezone))
    ScheduleTimes(unit.session, workspace_id).forget(row.id)
    unit.session.flush()
    unit.session.delete(row)


def show(schedules: Schedules, rows: Sequence[ScheduleRecord]) -> list[ScheduleOut]:
    """Schedules as the API shows them."""
    last = ScheduleTimes(schedules.session, schedules.workspace_id).last(row.id for row in rows)
    return [
        ScheduleOut(
            id=row.id,
            name=row.name,
            cron=row.cron,
            timezone=row.timezone,
            what=Scheduled.model_validate(row.what),
            skip_if_running=row.skip_if_running,
            enabled=row.enabled,
            next_at=row.next_at,
            last=show_time(last[row.id]) if row.id in last else None,
            created_at=row.created_at,
        )
        for row in rows
    ]


def show_time(row: ScheduleTimeRecord) -> TimeOut:
    """A time as the API shows it."""
    return TimeOut(
        id=row.id,
        due_at=row.due_at,
        missed=row.missed,
        outcome=Outcome(row.outcome),
        detail=row.detail,
        campaign_id=row.campaign_id,
        benchmark_id=row.benchmark_id,
        created_at=row.created_at,
    )
