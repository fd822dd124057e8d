"""Counts what a workspace has, and finds what needs somebody: each by one query, and one more for its newest few.

What devices report is compared as text: whatever they write there, no query fails.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, String, case, cast, func, select
from sqlalchemy.orm import Session, defer

from pock_server.builds.repository import Builds
from pock_server.builds.schemas import BuildKind, BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.datasets.repository import Datasets
from pock_server.db.repository import Repository
from pock_server.devices.presence import is_in
from pock_server.devices.repository import Devices
from pock_server.devices.states import DeviceState, DeviceStatus
from pock_server.devices.tables import DeviceRecord
from pock_server.models.repository import Models
from pock_server.overview.schemas import ConcernedOut, ConcernKind, ConcernOut, OverviewOut
from pock_server.regressions.service import Regressions
from pock_server.regressions.tables import RegressionRecord
from pock_server.rollouts.repository import Rollouts
from pock_server.rollouts.states import RolloutState
from pock_server.rollouts.tables import RolloutRecord
from pock_server.runs.repository import Runs
from pock_server.runs.schemas import RunState
from pock_server.runs.service import run_name
from pock_server.runs.tables import RunRecord

NEWEST = 5
_DAY, _WEEK, _MONTH = timedelta(days=1), timedelta(days=7), timedelta(days=30)
_LONG = timedelta(hours=1)
_MODELS = BuildRecord.kind == BuildKind.MODEL


@dataclass(frozen=True)
class _Sought:
    """Rows of a concern, and how some of them are told."""

    concern: ConcernKind
    rows: Repository[Any]
    filters: tuple[ColumnElement[bool], ...]
    newest_by: Any
    tell: Callable[[Sequence[Any]], list[ConcernedOut]]


def overview(session: Session, workspace_id: str, now: datetime, since: datetime) -> OverviewOut:
    """What goes on; a device that was not heard `since` then is offline."""
    devices, builds, runs = Devices(session, workspace_id), Builds(session, workspace_id), Runs(session, workspace_id)
    device_state = case(*((is_in(each, since), str(each)) for each in DeviceState))
    return OverviewOut(
        models=Models(session, workspace_id).count(),
        datasets=Datasets(session, workspace_id).count(),
        devices=_counts(devices, device_state),  # type: ignore[arg-type]
        builds=_counts(builds, BuildRecord.state, _MODELS),  # type: ignore[arg-type]
        runs=_counts_of_runs(runs),
        concerns=[
            ConcernOut(concern=sought.concern, count=count, items=_newest(sought))
            for sought in _all_sought(session, workspace_id, now, since)
            if (count := sought.rows.count(*sought.filters))
        ],
    )


def _counts(rows: Repository[Any], state: Any, *filters: ColumnElement[bool]) -> dict[str, int]:
    query = select(state, func.count()).select_from(rows.row_class).group_by(state)
    found = rows.session.execute(query.where(rows.row_class.workspace_id == rows.workspace_id, *filters))
    return {str(name): count for name, count in found}


def _counts_of_runs(runs: Runs) -> dict[RunState, int]:
    """Most have succeeded: these are what is left of all. The others are counted by the index of the state."""
    others = (state for state in RunState if state != RunState.SUCCEEDED)
    counts: dict[RunState, int] = {state: count for state in others if (count := runs.count(RunRecord.state == state))}
    succeeded = runs.count() - sum(counts.values())
    return {**counts, RunState.SUCCEEDED: succeeded} if succeeded > 0 else counts


def _newest(sought: _Sought) -> list[ConcernedOut]:
    order = (sought.newest_by.desc(), sought.rows.row_class.id.desc())
    query = sought.rows.select().where(*sought.filters).order_by(*order).limit(NEWEST)
    for large in ("report", "facts", "recipe"):
        if hasattr(sought.rows.row_class, large):
            query = query.options(defer(getattr(sought.rows.row_class, large)))
    return sought.tell(list(sought.rows.session.scalars(query)))


def _says_yes(column: Any) -> ColumnElement[bool]:
    """Whether the health of a report says that the device was slowed down; one database has a 1 for true."""
    return cast(column["health"]["throttled"].as_string(), String).in_(("true", "1"))


def _all_sought(session: Session, workspace_id: str, now: datetime, since: datetime) -> Iterator[_Sought]:
    devices, builds, runs = Devices(session, workspace_id), Builds(session, workspace_id), Runs(session, workspace_id)
    rollouts, regressions = Rollouts(session, workspace_id), Regressions(session, workspace_id)
    seen = DeviceRecord.last_seen_at
    quarantined = (DeviceRecord.status == DeviceStatus.QUARANTINED,)
    yield _Sought(ConcernKind.DEVICE_QUARANTINED, devices, quarantined, seen, _devices)
    stopped = (RolloutRecord.state == RolloutState.STOPPED,)
    yield _Sought(ConcernKind.ROLLOUT_STOPPED, rollouts, stopped, RolloutRecord.created_at, _rollouts)
    day = now - _DAY
    failed = (RunRecord.state == RunState.FAILED, RunRecord.finished_at > day, RunRecord.retried_by.is_(None))
    yield _Sought(ConcernKind.RUN_FAILED, runs, failed, RunRecord.finished_at, _runs_of(runs))
    broken = (_MODELS, BuildRecord.state == BuildState.FAILED, BuildRecord.finished_at > day)
    yield _Sought(ConcernKind.BUILD_FAILED, builds, broken, BuildRecord.finished_at, _builds)
    slower = (RegressionRecord.created_at > now - _WEEK,)
    yield _Sought(ConcernKind.REGRESSION, regressions, slower, RegressionRecord.created_at, _regressions)
    there = (DeviceRecord.status == DeviceStatus.ACTIVE, seen >= since)
    yield _Sought(ConcernKind.DEVICE_THROTTLED, devices, (*there, DeviceRecord.throttled.is_(True)), seen, _devices)
    # Asked for in the last days: so the page's index finds them, and few reports are read.
    recent = (RunRecord.created_at > day - _DAY, RunRecord.finished_at > day)
    hot = (RunRecord.state == RunState.SUCCEEDED, *recent, _says_yes(RunRecord.report))
    yield _Sought(ConcernKind.RUN_THROTTLED, runs, hot, RunRecord.finished_at, _runs_of(runs))
    gone = (DeviceRecord.status == DeviceStatus.ACTIVE, seen < now - _LONG, seen < since, seen > now - _MONTH)
    yield _Sought(ConcernKind.DEVICE_OFFLINE, devices, gone, seen, _devices)


def _devices(rows: Sequence[DeviceRecord]) -> list[ConcernedOut]:
    return [ConcernedOut(id=row.id, name=row.name, detail="", at=row.last_seen_at) for row in rows]


def _runs_of(runs: Runs) -> Callable[[Sequence[RunRecord]], list[ConcernedOut]]:
    def tell(rows: Sequence[RunRecord]) -> list[ConcernedOut]:
        origins = runs.origins(rows)
        names = [run_name(origins[row.id].build, row.device_name) for row in rows]
        return [
            ConcernedOut(id=row.id, name=name, detail=_why(row.failure), at=row.finished_at)
            for row, name in zip(rows, names, strict=True)
        ]

    return tell


def _builds(rows: Sequence[BuildRecord]) -> list[ConcernedOut]:
    return [ConcernedOut(id=row.id, name=row.name, detail=_why(row.failure), at=row.finished_at) for row in rows]


def _why(failure: dict[str, Any] | None) -> str:
    return str(failure["detail"]) if failure else ""


def _regressions(rows: Sequence[RegressionRecord]) -> list[ConcernedOut]:
    return [
        ConcernedOut(
            id=row.id,
            name=f"{row.build_name} on {row.device_kind}",
            detail=f"{row.ratio:.2f} times as slow as before (95 %: {row.interval_low:.2f} to {row.interval_high:.2f})",
            at=row.created_at,
        )
        for row in rows
    ]


def _rollouts(rows: Sequence[RolloutRecord]) -> list[ConcernedOut]:
    return [ConcernedOut(id=row.id, name=f"agent {row.version}", detail=row.reason, at=row.created_at) for row in rows]
