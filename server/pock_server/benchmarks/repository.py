"""Queries on benchmarks."""

from collections.abc import Iterable

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from pock_server.benchmarks.lifecycle import OPEN
from pock_server.benchmarks.schemas import BenchmarkState
from pock_server.benchmarks.tables import BenchmarkRecord
from pock_server.db.repository import Repository
from pock_server.runs.lifecycle import RUN_LIFECYCLE
from pock_server.runs.schemas import RunState
from pock_server.runs.tables import RunRecord


class Benchmarks(Repository[BenchmarkRecord]):
    """The benchmarks of one workspace."""

    row_class = BenchmarkRecord
    noun = "benchmark"


def moved_on(session: Session) -> Iterable[tuple[str, str]]:
    """Workspace and id of the benchmarks of all workspaces whose run is not where they believe it is."""
    over = or_(RunRecord.id.is_(None), RunRecord.state.in_(RUN_LIFECYCLE.final))
    begun = and_(BenchmarkRecord.state == BenchmarkState.QUEUED, RunRecord.state == RunState.RUNNING)
    lost = and_(BenchmarkRecord.state == BenchmarkState.RUNNING, RunRecord.state == RunState.QUEUED)
    query = (
        select(BenchmarkRecord.workspace_id, BenchmarkRecord.id)
        .outerjoin(RunRecord, RunRecord.id == BenchmarkRecord.run_id)
        .where(BenchmarkRecord.state.in_(OPEN), or_(over, begun, lost))
        .order_by(BenchmarkRecord.created_at)
    )
    return [(workspace_id, row_id) for workspace_id, row_id in session.execute(query)]
