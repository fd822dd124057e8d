"""Drops what the settings say is too old: artifacts, logs; thins the steps of old runs."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, exists, func, select
from sqlalchemy.orm import Session

from pock_server.builds.schemas import BuildKind, BuildState
from pock_server.builds.service import drop_artifact
from pock_server.builds.tables import BuildRecord
from pock_server.events.tables import EventRecord
from pock_server.runs.lifecycle import OPEN
from pock_server.runs.tables import RunRecord, RunStepRecord
from pock_server.services import Services
from pock_server.webhooks.repository import old_deliveries

STEPS_KEPT = 1000
"""Of a run that is thinned: every k-th step, with the smallest k that leaves at most so many, and the last."""
DELIVERIES_KEPT = timedelta(days=30)
"""So long after they ended."""
_BATCH = 200
_HISTORY = ("log", "progress", "steps")


@dataclass
class Dropped:
    """What was too old."""

    artifacts: int = 0
    events: int = 0
    steps: int = 0
    deliveries: int = 0


def drop_old(services: Services) -> Dropped:
    """Drop and thin by the settings, a few rows a transaction; a number of days that is 0 keeps for ever."""
    settings, now = services.settings, services.clock.now()
    dropped = Dropped()
    if settings.keep_artifacts_days:
        dropped.artifacts = _drop_artifacts(services, now - timedelta(days=settings.keep_artifacts_days), now)
    if settings.keep_logs_days:
        dropped.events = _drop_history(services, now - timedelta(days=settings.keep_logs_days))
    dropped.deliveries = _drop_deliveries(services, now - DELIVERIES_KEPT)
    if settings.thin_steps_days:
        dropped.steps = _thin_steps(services, now - timedelta(days=settings.thin_steps_days))
    return dropped


def _drop_artifacts(services: Services, before: datetime, now: datetime) -> int:
    """Retire builds that ended, and were last run, before this moment: the same request builds anew. What searches
    found is small, and stays."""
    needed = exists().where(
        RunRecord.build_id == BuildRecord.id, (RunRecord.created_at >= before) | RunRecord.state.in_(OPEN)
    )
    old = (
        BuildRecord.state == BuildState.SUCCEEDED,
        BuildRecord.kind != BuildKind.SEARCH,
        BuildRecord.retired_at.is_(None),
        BuildRecord.finished_at < before,
    )
    count = 0
    while True:
        with services.database.write() as unit:
            query = select(BuildRecord).where(*old, ~needed).limit(_BATCH).with_for_update(key_share=True)
            rows = list(unit.session.scalars(query))
            for row in rows:
                row.retired_at = now
                drop_artifact(unit.session, row, now)
        count += len(rows)
        if len(rows) < _BATCH:
            return count


def _drop_history(services: Services, before: datetime) -> int:
    """Logs, progress and streamed steps of what ended before this moment; states and results of evaluations stay."""
    count = 0
    for table in (BuildRecord, RunRecord):
        after = ""
        while True:
            with services.database.write() as unit:
                query = select(table.id).where(table.finished_at < before, table.id > after)
                ids = list(unit.session.scalars(query.order_by(table.id).limit(_BATCH)))
                old = delete(EventRecord).where(EventRecord.subject_id.in_(ids), EventRecord.kind.in_(_HISTORY))
                count += len(unit.session.execute(old.returning(EventRecord.seq)).all())
            if len(ids) < _BATCH:
                break
            after = ids[-1]
    return count


def _drop_deliveries(services: Services, before: datetime) -> int:
    """What was told by webhooks, or could not be, and is over."""
    count = 0
    while True:
        with services.database.write() as unit:
            rows = old_deliveries(unit.session, before, _BATCH)
            for row in rows:
                unit.session.delete(row)
        count += len(rows)
        if len(rows) < _BATCH:
            return count


def _thin_steps(services: Services, before: datetime) -> int:
    many = select(RunStepRecord.run_id).group_by(RunStepRecord.run_id, RunStepRecord.fence)
    many = many.having(func.count() > STEPS_KEPT + 1).distinct()
    with services.database.read() as session:
        ids = list(session.scalars(select(RunRecord.id).where(RunRecord.finished_at < before, RunRecord.id.in_(many))))
    count = 0
    for run_id in ids:
        with services.database.write() as unit:
            count += _thin_run(unit.session, run_id)
    return count


def _thin_run(session: Session, run_id: str) -> int:
    mine = RunStepRecord.run_id == run_id
    totals = select(RunStepRecord.fence, func.count(), func.max(RunStepRecord.step)).where(mine)
    count = 0
    for fence, total, last in session.execute(totals.group_by(RunStepRecord.fence)).all():
        every = -(-(last + 1) // STEPS_KEPT) if total > STEPS_KEPT + 1 else 1
        surplus = (RunStepRecord.step % every != 0) & (RunStepRecord.step != last)
        thinned = delete(RunStepRecord).where(mine, RunStepRecord.fence == fence, surplus)
        if every > 1:
            count += len(session.execute(thinned.returning(RunStepRecord.step)).all())
    return count
