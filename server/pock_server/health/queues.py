"""What `/metrics` shows of the database: queues, work in hand, devices. Counted at most every few seconds."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from pock_server.blobs.repository import count_quarantined
from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.builds.tables import BuildRecord
from pock_server.db.unit import Database
from pock_server.devices.tables import DeviceRecord
from pock_server.runs.lifecycle import RUN_LIFECYCLE
from pock_server.runs.tables import RunRecord

CACHE_SECONDS = 10.0
ONLINE = timedelta(minutes=2)
"""A device that was seen within this time is counted as online, and its queue's age is looked at."""
_LIFECYCLES = (BUILD_LIFECYCLE, RUN_LIFECYCLE)


@dataclass(frozen=True)
class Queues:
    """`rows` by (kind, state), `oldest` in seconds by kind."""

    rows: dict[tuple[str, str], int]
    oldest: dict[str, float]
    online: int


def count_queues(session: Session, now: datetime) -> Queues:
    """Over all workspaces. Rows that are over are not counted, they are without number; their index is not read."""
    rows: dict[tuple[str, str], int] = {}
    for lifecycle in _LIFECYCLES:
        state = lifecycle.row_class.state
        open_states = [str(s) for s in lifecycle.transitions if s not in lifecycle.final]
        found = session.execute(select(state, func.count()).where(state.in_(open_states)).group_by(state))
        rows |= {(lifecycle.noun, s): 0 for s in open_states} | {(lifecycle.noun, s): n for s, n in found}
    devices = session.execute(select(DeviceRecord.status, func.count()).group_by(DeviceRecord.status))
    rows |= {("device", status): count for status, count in devices}
    rows["blob", "quarantined"] = count_quarantined(session)
    online = DeviceRecord.last_seen_at >= now - ONLINE
    first_build = select(func.min(BuildRecord.created_at)).where(BuildRecord.state == "queued")
    # Runs wait for devices that are away as long as they are away: that is no fault of the service.
    first_run = (
        select(func.min(func.coalesce(RunRecord.not_before, RunRecord.created_at)))
        .join(DeviceRecord, DeviceRecord.id == RunRecord.device_id)
        .where(RunRecord.state == "queued", DeviceRecord.current_run_id.is_(None), online)
    )
    oldest = {}
    for kind, query in (("build", first_build), ("run", first_run)):
        moment = session.scalar(query)
        oldest[kind] = max(0.0, (now - moment).total_seconds()) if moment is not None else 0.0
    return Queues(rows, oldest, session.scalar(select(func.count()).select_from(DeviceRecord).where(online)) or 0)


class QueueCollector(Collector):
    """Counts when it is asked, unless it has just counted; without the database it has nothing to say."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database, self._now = database, now
        self._lock = threading.Lock()
        self._counted_at = -CACHE_SECONDS
        self._last: Queues | None = None

    def collect(self) -> Iterator[Metric]:
        """The gauges."""
        queues = self._queues()
        yield GaugeMetricFamily("pock_database_up", "Whether the queues could be counted.", float(queues is not None))
        if queues is None:
            return
        rows = GaugeMetricFamily("pock_rows", "Open builds and runs, devices, damaged blobs.", labels=("kind", "state"))
        for labels, count in queues.rows.items():
            rows.add_metric(labels, count)
        age = GaugeMetricFamily(
            "pock_queue_oldest_seconds",
            "Age of the oldest queued build, and of the oldest run whose device is online and idle.",
            labels=("kind",),
        )
        for kind, seconds in queues.oldest.items():
            age.add_metric((kind,), seconds)
        yield rows
        yield age
        yield GaugeMetricFamily("pock_devices_online", "Devices seen within two minutes.", queues.online)

    def _queues(self) -> Queues | None:
        with self._lock:
            if time.monotonic() - self._counted_at >= CACHE_SECONDS:
                try:
                    with self._database.read() as session:
                        self._last = count_queues(session, self._now())
                except SQLAlchemyError:
                    self._last = None
                self._counted_at = time.monotonic()
            return self._last
