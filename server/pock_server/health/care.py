"""What `/metrics` shows of what somebody has to see to in time: the end of the trust document, the last backup."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from pock_server.backup.history import last_backup
from pock_server.db.unit import Database
from pock_server.trust.chain import latest

CACHE_SECONDS = 30.0


@dataclass(frozen=True)
class _Dates:
    """In seconds since the epoch; the first is None before the first start, the second 0 before the first backup."""

    trust_ends: float | None
    backup: float


class CareCollector(Collector):
    """Asks the database, unless it has just done so; without it there is nothing to say."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._asked_at = -CACHE_SECONDS
        self._last: _Dates | None = None

    def collect(self) -> Iterator[Metric]:
        """The gauges."""
        dates = self._dates()
        if dates is None:
            return
        yield GaugeMetricFamily(
            "pock_backup_last_success_timestamp_seconds",
            "When `pock-server backup` last ended well; 0: never.",
            dates.backup,
        )
        if dates.trust_ends is not None:
            yield GaugeMetricFamily(
                "pock_trust_end_timestamp_seconds",
                "When devices stop to believe the newest trust document.",
                dates.trust_ends,
            )

    def _dates(self) -> _Dates | None:
        with self._lock:
            if time.monotonic() - self._asked_at >= CACHE_SECONDS:
                try:
                    with self._database.read() as session:
                        trust, backup = latest(session), last_backup(session)
                    self._last = _Dates(
                        trust.expires_at.timestamp() if trust else None, backup.timestamp() if backup else 0
                    )
                except SQLAlchemyError:
                    self._last = None
                self._asked_at = time.monotonic()
            return self._last
