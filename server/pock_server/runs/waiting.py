"""Runs that wait for a build or another run: queued when that has succeeded, failed with a sentence when it has not.

The leading process looks each second. What is awaited may be tried again: then the wait is for its next try.
"""

from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.builds.repository import Builds
from pock_server.builds.schemas import BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.http.problems import Problem
from pock_server.runs.failures import DEPENDENCY_FAILED
from pock_server.runs.leases import fail, lock_run
from pock_server.runs.lifecycle import OPEN, RUN_LIFECYCLE
from pock_server.runs.repository import Runs
from pock_server.runs.schemas import RunState
from pock_server.runs.service import require_fitting
from pock_server.runs.tables import RunRecord
from pock_server.services import Services

_OPEN_BUILD = tuple(state for state in BuildState if state not in BUILD_LIFECYCLE.final)
_DETAIL_CHARACTERS = 1000


def waited_enough(session: Session, _now: datetime) -> list[tuple[str, str]]:
    """Waiting runs of all workspaces: what they waited for is over, or is no longer there."""
    build, other = aliased(BuildRecord), aliased(RunRecord)
    building = select(build.id).where(build.id == RunRecord.after_build_id, build.state.in_(_OPEN_BUILD)).exists()
    running = select(other.id).where(other.id == RunRecord.after_run_id, other.state.in_(OPEN)).exists()
    query = select(RunRecord.workspace_id, RunRecord.id)
    found = session.execute(query.where(RunRecord.state == RunState.WAITING, ~building, ~running))
    return [(workspace_id, run_id) for workspace_id, run_id in found]


def end_wait(services: Services, workspace_id: str, run_id: str) -> None:
    """Queue the run, or fail it; or let it wait on, for the next try of what it waits for, or for its own build."""
    now = services.clock.now()
    with services.database.write() as unit:
        run = lock_run(unit, workspace_id, run_id)
        if run.state != RunState.WAITING:
            return
        builds, runs = Builds(unit.session, workspace_id), Runs(unit.session, workspace_id)
        awaited = runs.find(run.after_run_id or "") if run.after_build_id is None else builds.find(run.after_build_id)
        if isinstance(awaited, RunRecord) and awaited.retried_by is not None:
            run.after_run_id = awaited.retried_by
            return
        if _open(awaited):  # another process has moved the wait on since the row was found
            return
        build = builds.require(run.build_id)
        if _succeeded(awaited) and build.state in _OPEN_BUILD:
            run.after_build_id, run.after_run_id = build.id, None
            return
        for one, noun in ((awaited, "build" if run.after_build_id else "run"), (build, "build")):
            if not _succeeded(one):
                fail(unit, run, DEPENDENCY_FAILED, _why_not(one, noun), now)
                return
        try:
            require_fitting(unit.session, build, (run.dataset_id, run.eval_dataset_id))
        except Problem as problem:
            fail(unit, run, problem.failure.code, problem.detail, now)
            return
        ends_at = now + timedelta(seconds=run.queue_seconds or 0)
        RUN_LIFECYCLE.move(unit, run, RunState.QUEUED, now, not_before=now, queue_ends_at=ends_at)
        unit.announce(f"device:{run.device_id}")


def _succeeded(awaited: BuildRecord | RunRecord | None) -> bool:
    return awaited is not None and awaited.state == RunState.SUCCEEDED


def _open(awaited: BuildRecord | RunRecord | None) -> bool:
    return awaited is not None and awaited.state in (OPEN if isinstance(awaited, RunRecord) else _OPEN_BUILD)


def _why_not(awaited: BuildRecord | RunRecord | None, noun: str) -> str:
    """Why the run cannot begin any more."""
    if awaited is None:
        return f"The {noun} that this run waited for was deleted."
    detail = str((awaited.failure or {}).get("detail", ""))[:_DETAIL_CHARACTERS]
    what = f"failed: {detail}" if detail else f"was {awaited.state}."
    return f"The {noun} {awaited.id}, which this run waited for, {what}"
