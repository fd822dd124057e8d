"""Rate limits by the generic cell rate algorithm: one moment per subject says when its bucket will be full again.

Each process counts for itself, so a limit holds for one process.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from pock_server.http.problems import Failure, Problem

_SUBJECTS = 100_000
"""Those that asked last are remembered; a forgotten one starts with a full bucket."""


@dataclass(frozen=True)
class Rate:
    """So many requests a second for ever, and so many at once after a pause."""

    per_second: float
    burst: int


class Rates:
    """The buckets of all subjects under one rate."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, subject: str) -> float:
        """Seconds until the subject may ask again; 0 if it may now."""
        now = self._clock()
        slack = (self.rate.burst - 1) / self.rate.per_second
        return max(0.0, self._full_at.get(subject, now) - slack - now)

    def count(self, subject: str) -> None:
        """One request more of the subject."""
        now = self._clock()
        self._full_at[subject] = max(now, self._full_at.get(subject, now)) + 1 / self.rate.per_second
        self._full_at.move_to_end(subject)
        if len(self._full_at) > _SUBJECTS:
            self._full_at.popitem(last=False)

    def demand(self, subject: str, who: str) -> None:
        """Count a request; a 429 `Problem` if it comes too early."""
        wait = self.wait(subject)
        if wait > 0:
            raise too_many(who, self.rate, wait)
        self.count(subject)


def too_many(who: str, rate: Rate, wait: float) -> Problem:
    """What is answered to requests that come too early; `wait` is in seconds."""
    seconds = math.ceil(wait)
    detail = f"{who} may send {rate.per_second:g} requests a second; wait {seconds} s."
    return Problem(Failure.RATE_LIMITED, detail, {"Retry-After": str(seconds)})
