"""What the whole fleet costs: sightings of devices are written together, and the heartbeat grows with their number.

A fleet's beats and polls must not become a fleet's transactions, nor its size a query for each of them.
"""

import threading
from datetime import datetime, timedelta

from sqlalchemy import bindparam, update

from pock_server.clock import Clock
from pock_server.db.base import UtcDateTime
from pock_server.db.unit import Database
from pock_server.devices.repository import count_active
from pock_server.devices.tables import DeviceRecord
from pock_server.settings import Settings

RESOLUTION = timedelta(seconds=1)
"""Sightings are written this late at most."""
_COUNT_FOR = timedelta(seconds=5)
_NEWER = (
    update(DeviceRecord.__table__)  # type: ignore[arg-type]
    .where(DeviceRecord.id == bindparam("device"))
    .where(DeviceRecord.last_seen_at.is_(None) | (DeviceRecord.last_seen_at < bindparam("moment", type_=UtcDateTime)))
    .values(last_seen_at=bindparam("moment"))
)


class Fleet:
    """Notes of this process about the devices of all workspaces; safe from any thread."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database, self._clock, self._settings = database, clock, settings
        self._lock = threading.Lock()
        self._seen: dict[str, datetime] = {}
        self._written: datetime | None = None
        self._count: tuple[int, datetime] | None = None

    def saw(self, device_id: str) -> None:
        """Note that the device is alive now."""
        now = self._clock.now()
        with self._lock:
            self._seen[device_id] = now
            if self._written is not None and abs(now - self._written) < RESOLUTION:
                return
            self._written = now
        self.write_down()

    def write_down(self) -> None:
        """Write what was noted; also called once in a while, for the last sighting before a pause."""
        with self._lock:
            seen, self._seen = self._seen, {}
        if not seen:
            return
        # In the order of ids: two processes that write about the same devices never wait for each other in a circle.
        rows = [{"device": device, "moment": moment} for device, moment in sorted(seen.items())]
        with self._database.write() as unit:
            unit.session.connection().execute(_NEWER, rows)

    def heartbeat_seconds(self) -> float:
        """Time between two heartbeats, stretched so that the whole fleet stays below its limit."""
        now, known = self._clock.now(), self._count
        if known is None or abs(now - known[1]) >= _COUNT_FOR:
            with self._database.read() as session:
                known = self._count = (count_active(session), now)
        return max(self._settings.heartbeat_seconds, known[0] / self._settings.heartbeats_per_second)
