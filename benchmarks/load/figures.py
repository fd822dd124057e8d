"""What the load keeps count of: latencies by kind of call, wrong answers, and the life of each run."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field


@dataclass
class Figures:
    """One phase of a measurement; times in seconds."""

    latencies: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    submitted: dict[str, float] = field(default_factory=dict)
    """When the answer to the submission of a run arrived, by run id."""
    leased: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """When a device received each lease of a run."""
    finished: Counter[str] = field(default_factory=Counter)
    """How often devices carried a run to its end, from their own logs."""
    recording: bool = True

    def note(self, kind: str, seconds: float) -> None:
        """One answered call."""
        if self.recording:
            self.latencies[kind].append(seconds)

    def fail(self, what: str) -> None:
        """One call that was not answered as it should have been."""
        self.errors[what] += 1

    def waits(self) -> list[float]:
        """Seconds from the answer to a submission to its lease on the device."""
        return [max(0.0, self.leased[run][0] - moment) for run, moment in self.submitted.items() if run in self.leased]

    def requests(self) -> int:
        """Calls answered."""
        return sum(map(len, self.latencies.values()))


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie; NaN of none."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Stopwatch:
    """Times one call: `with Stopwatch() as watch: …`, then `watch.seconds`."""

    seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._start = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._start
