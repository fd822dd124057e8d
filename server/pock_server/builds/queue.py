"""The one queue of all workspaces' builds: who is next, and at which place each waits.

Workspaces take turns, so that one with a thousand builds holds nobody else up. The next build is of the workspace that
has the fewest running; among those, of the one whose last turn is longest ago. Priority and age order the builds of one
workspace; a workspace cannot get ahead of another by its own priorities.
"""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Select, func, select, true
from sqlalchemy.orm import Session

from pock_server.auth.tables import WorkspaceRecord
from pock_server.builds.schemas import BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.db.locks import Lock, hold


def take_next(session: Session, limit: int, now: datetime) -> BuildRecord | None:
    """The next build, locked, and its workspace's turn noted; None if none may run now.

    `limit` is how many builds of a workspace run at once. One runner at a time is here, until its transaction ends:
    what is next depends on everything that runs.
    """
    hold(session, Lock.TAKE_BUILD)
    first = find_next(session, limit)
    if first is None:
        return None
    row = session.get(BuildRecord, first, with_for_update={"key_share": True})
    if row is None or row.state != BuildState.QUEUED:
        return None  # it was cancelled at this moment; its bell rings again
    session.get_one(WorkspaceRecord, row.workspace_id).last_build_at = now
    return row


def find_next(session: Session, limit: int) -> str | None:
    """The id of the build that `take_next` would take."""
    return session.scalars(_queue(limit).limit(1)).one_or_none()


def list_next(session: Session, limit: int, most: int) -> list[str]:
    """Ids of the first `most` builds in the queue, of workspaces that have fewer than `limit` running."""
    return list(session.scalars(_queue(limit).limit(most)))


def queue_positions(session: Session, rows: Iterable[BuildRecord]) -> dict[str, int]:
    """Place in the queue of the queued ones among `rows`, 1 is next, if nothing is added and none ends before another
    that began earlier. Counts, and only counts, the builds of other workspaces."""
    wanted = {row.id for row in rows if row.state == BuildState.QUEUED}
    if not wanted:
        return {}
    places = enumerate(session.scalars(_queue()), start=1)
    return {build_id: place for place, build_id in places if build_id in wanted}


def _queue(limit: int | None = None) -> Select[str]:
    """Ids of the queued builds in order; with a limit, only of workspaces that have fewer running."""
    running = (
        select(BuildRecord.workspace_id, func.count().label("running"))
        .where(BuildRecord.state == BuildState.RUNNING)
        .group_by(BuildRecord.workspace_id)
        .subquery()
    )
    running_now = func.coalesce(running.c.running, 0)
    order = (BuildRecord.priority.desc(), BuildRecord.created_at, BuildRecord.id)
    turn = func.row_number().over(partition_by=BuildRecord.workspace_id, order_by=order)
    return (
        select(BuildRecord.id)
        .join(WorkspaceRecord, WorkspaceRecord.id == BuildRecord.workspace_id)
        .outerjoin(running, running.c.workspace_id == BuildRecord.workspace_id)
        .where(BuildRecord.state == BuildState.QUEUED, true() if limit is None else running_now < limit)
        .order_by(running_now + turn, WorkspaceRecord.last_build_at.asc().nulls_first(), *order)
    )
