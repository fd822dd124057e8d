"""Minutes and joules of work, by local day: what daily limits are compared with. One small file.

The time worked is measured by a clock that nobody can set; the day is that of the device's clock. A clock set back
makes an earlier day the present one again, with what was used on it: no setting of it gives a day's allowance twice.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from pock_agent.disk.files import read_json, write_json
from pock_agent.errors import AgentError

KEPT_DAYS = 8
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Use:
    """Work of one day: seconds, and joules where something measured them."""

    seconds: float = 0.0
    joules: float | None = None

    def plus(self, seconds: float, joules: float | None) -> Use:
        """With more work."""
        total = self.joules if joules is None else (self.joules or 0.0) + joules
        return Use(self.seconds + seconds, total)


def day_of(now: float) -> str:
    """The local day, such as 2026-01-31."""
    return datetime.fromtimestamp(now).strftime("%Y-%m-%d")


class Ledger:
    """The file. What was added in the last seconds before a power cut may be lost: `save` is called now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._days = _stored(path)
        self._saved = time.monotonic()

    def today(self, now: float) -> Use:
        """What was used on the present day."""
        return self._days.get(day_of(now), Use())

    def add(self, now: float, seconds: float, joules: float | None) -> None:
        """Count work that was done until now."""
        day = day_of(now)
        self._days[day] = self._days.get(day, Use()).plus(
            max(0.0, seconds), None if joules is None else max(0.0, joules)
        )
        for old in sorted(set(self._days) - {day})[:-KEPT_DAYS]:
            del self._days[old]

    def save(self, every: float = 0.0) -> None:
        """Write it, unless that was done less than `every` seconds ago."""
        if time.monotonic() - self._saved < every:
            return
        self._saved = time.monotonic()
        try:
            write_json(self._path, {day: asdict(use) for day, use in self._days.items()})
        except OSError as error:
            log.warning("%s is not written: %s", self._path, error)


def _stored(path: Path) -> dict[str, Use]:
    try:
        stored = read_json(path) or {}
    except AgentError as error:
        log.error("%s; what was used today is counted anew", error)
        return {}
    return {day: use for day, value in stored.items() if (use := _use(value)) is not None}


def _use(value: object) -> Use | None:
    if not isinstance(value, Mapping):
        return None
    seconds, joules = _amount(value.get("seconds")), _amount(value.get("joules"))
    return None if seconds is None else Use(seconds, joules)


def _amount(value: object) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if known else None  # type: ignore[arg-type]
