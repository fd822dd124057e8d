"""Counts what a workspace has and what it waits for: each by one query that an index leads to its rows."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Select, case, func, select
from sqlalchemy.orm import Session

from pock_server.auth.repository import require_workspace
from pock_server.blobs.tables import BlobRecord, QuarantineRecord, UploadRecord
from pock_server.builds.schemas import BuildKind, BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.quotas.service import standings
from pock_server.runs.lifecycle import HELD, OPEN
from pock_server.runs.tables import RunRecord
from pock_server.settings import Settings
from pock_server.usage.schemas import JobKind, QueueOut, QuotaOut, StorageOut, UsageOut, WorkOut

MOST_WORK = 50
_KINDS = {BuildKind.MODEL: JobKind.BUILD, BuildKind.SEARCH: JobKind.SEARCH, BuildKind.TRIALS: JobKind.TRIALS}
_OPEN_BUILDS = (BuildState.QUEUED, BuildState.RUNNING)


def usage(session: Session, settings: Settings, workspace_id: str, now: datetime) -> UsageOut:
    """Everything that is counted, as it stands now."""
    workspace = require_workspace(session, workspace_id)
    return UsageOut(
        quotas=[
            QuotaOut(quota=one.quota, noun=one.noun, used=one.used, limit=one.limit, own=one.own, way_out=one.way_out)
            for one in standings(session, settings, workspace, now)
        ],
        storage=_storage(session, workspace_id),
        queues=list(_queues(session, workspace_id, now)),
        workers=_work(session, workspace_id, now),
        runner=settings.runner,
        builds_at_once=settings.builds_per_workspace,
    )


def _storage(session: Session, workspace_id: str) -> StorageOut:
    mine = BlobRecord.workspace_id == workspace_id
    blobs, stored = session.execute(select(func.count(), func.coalesce(func.sum(BlobRecord.size), 0)).where(mine)).one()
    announced = select(func.coalesce(func.sum(UploadRecord.size), 0)).where(
        UploadRecord.workspace_id == workspace_id, UploadRecord.complete.is_(False)
    )
    damaged = (
        select(func.count())
        .select_from(QuarantineRecord)
        .join(BlobRecord, BlobRecord.digest == QuarantineRecord.digest)
    )
    return StorageOut(
        blobs=blobs,
        stored_bytes=int(stored),
        announced_bytes=int(session.scalars(announced).one()),
        damaged_blobs=session.scalars(damaged.where(mine)).one(),
    )


def _counted(row_class: type[BuildRecord] | type[RunRecord], held: tuple[Any, ...], now: datetime) -> tuple[Any, ...]:
    """Columns: how many wait, are at work, are silent; and since when the oldest waits."""
    works = row_class.state.in_(held)
    silent = works & (row_class.lease_expires_at < now)
    return (
        func.coalesce(func.sum(case((works, 0), else_=1)), 0),
        func.coalesce(func.sum(case((works, 1), else_=0)), 0),
        func.coalesce(func.sum(case((silent, 1), else_=0)), 0),
        func.min(case((works, None), else_=row_class.created_at)),
    )


def _queues(session: Session, workspace_id: str, now: datetime) -> Iterator[QueueOut]:
    builds: Select[Any] = select(BuildRecord.kind, *_counted(BuildRecord, (BuildState.RUNNING,), now))
    builds = builds.where(BuildRecord.workspace_id == workspace_id, BuildRecord.state.in_(_OPEN_BUILDS))
    found = {_KINDS[BuildKind(row[0])]: row[1:] for row in session.execute(builds.group_by(BuildRecord.kind))}
    runs: Select[Any] = select(*_counted(RunRecord, HELD, now))
    runs = runs.where(RunRecord.workspace_id == workspace_id, RunRecord.state.in_(OPEN))
    found[JobKind.RUN] = session.execute(runs).one()
    for kind in JobKind:
        waiting, working, silent, oldest = found.get(kind, (0, 0, 0, None))
        yield QueueOut(kind=kind, waiting=waiting, working=working, silent=silent, oldest_at=oldest)


def _work(session: Session, workspace_id: str, now: datetime) -> list[WorkOut]:
    columns = (
        BuildRecord.id,
        BuildRecord.kind,
        BuildRecord.name,
        BuildRecord.model_name,
        BuildRecord.started_at,
        BuildRecord.lease_expires_at,
    )
    query = select(*columns).where(BuildRecord.workspace_id == workspace_id, BuildRecord.state == BuildState.RUNNING)
    rows = session.execute(query.order_by(BuildRecord.started_at.desc(), BuildRecord.id.desc()).limit(MOST_WORK))
    return [_told(row, now) for row in rows]


def _told(row: Any, now: datetime) -> WorkOut:
    return WorkOut(
        id=row.id,
        kind=_KINDS[BuildKind(row.kind)],
        name=row.name or row.model_name,
        started_at=row.started_at,
        silent=row.lease_expires_at is not None and row.lease_expires_at < now,
    )
