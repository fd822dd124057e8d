"""The service's only source of time and of new ids, so that tests can move it."""

import os
import threading
import time
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

_JUMP_SECONDS = 5.0


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The present moment, with time zone UTC."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The present moment, with time zone UTC."""
        return datetime.now(UTC)


class JumpWatch:
    """Notices that the clock was set: it went on by more or less than the time that passed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = self._measure()

    def jumped(self) -> float:
        """By how many seconds since the last look; 0 for what a slow correction explains."""
        before, self._offset = self._offset, self._measure()
        jump = self._offset - before
        return jump if abs(jump) >= _JUMP_SECONDS else 0.0

    def _measure(self) -> float:
        return self._clock.now().timestamp() - time.monotonic()


class _Ids:
    """UUIDv7 (RFC 9562 section 5.7), strictly growing within a process: the tail counts up inside a millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self, moment: datetime) -> str:
        milliseconds = int(moment.timestamp() * 1000)
        with self._lock:
            fresh = milliseconds << 74 | int.from_bytes(os.urandom(9), "big") & ((1 << 72) - 1)
            self._last = fresh if fresh > self._last else self._last + 1
            value = self._last
        stamp, tail = value >> 74, value & ((1 << 74) - 1)
        bits = stamp << 80 | 7 << 76 | (tail >> 62) << 64 | 2 << 62 | tail & ((1 << 62) - 1)
        return str(UUID(int=bits))


_ids = _Ids()


def new_id(moment: datetime) -> str:
    """A fresh UUIDv7 as text; ids sort in the order they were made."""
    return _ids.next(moment)
