"""Looks for a slowdown whenever a benchmark has ended well."""

from datetime import datetime

from sqlalchemy import select

from pock_server.benchmarks.schemas import BenchmarkState
from pock_server.benchmarks.tables import BenchmarkRecord
from pock_server.benchmarks.verdict import Reason
from pock_server.clock import new_id
from pock_server.db.repository import Repository
from pock_server.db.unit import Unit
from pock_server.regressions.detection import LATEST, WINDOW, Point, find_slowdown
from pock_server.regressions.schemas import RegressionOut
from pock_server.regressions.tables import RegressionRecord
from pock_server.webhooks.service import announce
from pock_server.webhooks.tables import Event

_LOOKED_AT = 2 * (WINDOW + LATEST)
"""Benchmarks of a series: some of them are not stable."""


class Regressions(Repository[RegressionRecord]):
    """The regressions of one workspace."""

    row_class = RegressionRecord
    noun = "regression"

    def last_of(self, series: str) -> RegressionRecord | None:
        """The series' last."""
        query = self.select().where(RegressionRecord.series == series)
        order = (RegressionRecord.created_at.desc(), RegressionRecord.id.desc())
        return self.session.scalars(query.order_by(*order).limit(1)).first()


def look_for_slowdown(unit: Unit, newest: BenchmarkRecord, now: datetime) -> RegressionRecord | None:
    """Hold the newest benchmarks of the series against those before; what is found becomes a row and an event.

    After a slowdown the series begins anew with the first benchmark that was slower, so it is told once.
    """
    regressions = Regressions(unit.session, newest.workspace_id)
    last = regressions.last_of(newest.series)
    rows = [row for row in _series(unit, newest, last.since_id if last else None) if _counts(row)]
    if not rows or rows[-1].id != newest.id:
        return None
    found = find_slowdown([Point(row.device_id, float((row.verdict or {})["median_ms"])) for row in rows])
    if found is None:
        return None
    since = rows[found.since]
    same = ("series", "model_name", "recipe_name", "target", "device_kind", "threads")
    row = RegressionRecord(
        id=new_id(now),
        workspace_id=newest.workspace_id,
        created_at=now,
        since_id=since.id,
        found_id=newest.id,
        build_name=since.build_name,
        build_version=since.build_version,
        ratio=found.ratio,
        interval_low=found.interval_low,
        interval_high=found.interval_high,
        p_value=found.p_value,
        **{name: getattr(newest, name) for name in same},
    )
    regressions.add(row)
    told = RegressionOut.model_validate(row).model_dump(mode="json")
    announce(unit, row.workspace_id, Event.REGRESSION_FOUND, told, now)
    return row


def _series(unit: Unit, newest: BenchmarkRecord, since_id: str | None) -> list[BenchmarkRecord]:
    """The last benchmarks of the series that ended well, the oldest first, from `since_id` on. Ids sort by time."""
    query = select(BenchmarkRecord).where(
        BenchmarkRecord.workspace_id == newest.workspace_id,
        BenchmarkRecord.series == newest.series,
        BenchmarkRecord.state == BenchmarkState.SUCCEEDED,
        BenchmarkRecord.created_at <= newest.created_at,
    )
    if since_id is not None:
        query = query.where(BenchmarkRecord.id >= since_id)
    order = (BenchmarkRecord.created_at.desc(), BenchmarkRecord.id.desc())
    return list(unit.session.scalars(query.order_by(*order).limit(_LOOKED_AT)))[::-1]


def _counts(row: BenchmarkRecord) -> bool:
    """Whether it can be trusted; emulated times are not those of the target, but they are compared among themselves."""
    return set((row.verdict or {"reasons": ["none"]})["reasons"]) <= {Reason.EMULATED}
