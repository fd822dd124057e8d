"""Queries on schedules and their times."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from pock_server.db.repository import Repository
from pock_server.schedules.tables import ScheduleRecord, ScheduleTimeRecord

KEPT_TIMES = 500
"""Of one schedule."""


class Schedules(Repository[ScheduleRecord]):
    """The schedules of one workspace."""

    row_class = ScheduleRecord
    noun = "schedule"


class ScheduleTimes(Repository[ScheduleTimeRecord]):
    """The times of one workspace's schedules."""

    row_class = ScheduleTimeRecord
    noun = "time of a schedule"

    def last(self, schedule_ids: Iterable[str]) -> dict[str, ScheduleTimeRecord]:
        """The last time of each of these schedules that was due yet, by the schedule's id."""
        mine = ScheduleTimeRecord.schedule_id.in_(list(schedule_ids))
        newest = select(func.max(ScheduleTimeRecord.id)).where(mine).group_by(ScheduleTimeRecord.schedule_id)
        rows = self.session.scalars(self.select().where(ScheduleTimeRecord.id.in_(newest)))
        return {row.schedule_id: row for row in rows}

    def thin(self, schedule_id: str) -> None:
        """Forget all but the newest times of a schedule."""
        mine = ScheduleTimeRecord.schedule_id == schedule_id
        kept = select(ScheduleTimeRecord.id).where(mine).order_by(ScheduleTimeRecord.id.desc()).limit(KEPT_TIMES)
        oldest = self.session.scalars(kept).all()[-1:]
        for row_id in oldest:
            self.session.execute(delete(ScheduleTimeRecord).where(mine, ScheduleTimeRecord.id < row_id))

    def forget(self, schedule_id: str) -> None:
        """Delete all times of a schedule that is being deleted."""
        self.session.execute(delete(ScheduleTimeRecord).where(ScheduleTimeRecord.schedule_id == schedule_id))


def due_schedules(session: Session, now: datetime) -> list[tuple[str, str]]:
    """Schedules of all workspaces that are due."""
    query = select(ScheduleRecord.workspace_id, ScheduleRecord.id).where(ScheduleRecord.next_at <= now)
    return [(workspace_id, row_id) for workspace_id, row_id in session.execute(query)]
