"""Follows the runs of benchmarks."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy.orm import Session

from pock_server.benchmarks.repository import moved_on
from pock_server.benchmarks.schemas import BenchmarkState
from pock_server.benchmarks.service import follow
from pock_server.regressions.service import look_for_slowdown
from pock_server.services import Services


def due(session: Session, now: datetime) -> Iterable[tuple[str, str]]:
    """Workspace and id of the benchmarks whose run is not where they believe it is."""
    return moved_on(session)


def do(services: Services, workspace_id: str, row_id: str) -> None:
    """Have one benchmark do as its run did; one that has just ended well may show a slowdown."""
    with services.database.write() as unit:
        now = services.clock.now()
        row = follow(unit, workspace_id, row_id, now)
        if row.state == BenchmarkState.SUCCEEDED:
            look_for_slowdown(unit, row, now)
