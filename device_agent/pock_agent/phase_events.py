"""The events of one phase on their way into the spool, and what is known of a training that began before a restart.

A phase that is repeated from its beginning replaces the events of its earlier try. A training that goes on at a
checkpoint keeps those up to it, so that step numbers, sequence numbers and the final report have no gap and no repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pock_agent.spool import EventSpool
from pock_agent.storage import JsonObject

_READ = 1000


@dataclass(frozen=True)
class _Earlier:
    """What the steps before the restart gave: losses and milliseconds, in order."""

    losses: tuple[float, ...] = ()
    times: tuple[float, ...] = ()


class PhaseEvents:
    """Takes the events of one phase; `first` is the sequence number where the phase first began."""

    def __init__(self, spool: EventSpool, first: int) -> None:
        self._spool, self._first = spool, first
        self._started = False
        self._earlier = _Earlier()

    def append(self, event: JsonObject) -> None:
        """Add one event to the spool; OSError when the disk is full."""
        if event["event"] == "start" and not self._started:
            self._started = True
            step = event.get("first_step")
            if isinstance(step, int) and step > 0:
                self._keep_steps(step)
                return  # the start of this phase was told before the restart
            self._spool.truncate(self._first)
        self._spool.append(event)

    def complete(self, report: JsonObject) -> JsonObject:
        """The report of the whole training, where the executable could only report what came after its checkpoint."""
        if not self._earlier.losses:
            return report
        times = report.get("step_ms")
        samples = [*self._earlier.times, *_numbers(times.get("samples") if isinstance(times, dict) else None)]
        losses = [*self._earlier.losses, *_numbers(report.get("loss"))]
        return {
            **report,
            "steps": len(losses),
            "loss": losses,
            "step_ms": summary(samples),
            "resumed_at": len(self._earlier.losses),
        }

    def _keep_steps(self, last: int) -> None:
        """Drop the events after step `last`, and remember what its predecessors measured."""
        losses, times, position = [], [], self._first
        kept = len(self._spool)
        while position < kept:
            for event in self._spool.read(position, min(_READ, kept - position)):
                position += 1
                if event["event"] == "step":
                    if event["step"] > last:
                        kept = position - 1
                        break
                    losses.append(event.get("loss"))
                    times.append(event.get("ms"))
        self._spool.truncate(kept)
        self._earlier = _Earlier(tuple(_numbers(losses)), tuple(_numbers(times)))


def summary(samples: Sequence[float]) -> JsonObject:
    """Median, p10 and p90 (linear between neighbours) without the first step, which is the cold start; all samples."""
    steady = sorted(samples[1:] or samples)
    named = {"median": 0.5, "p10": 0.1, "p90": 0.9}
    return {**{name: _quantile(steady, fraction) for name, fraction in named.items()}, "samples": list(samples)}


def _quantile(ordered: Sequence[float], fraction: float) -> float | None:
    if not ordered:
        return None
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _numbers(values: object) -> list[float]:
    items = values if isinstance(values, list) else []
    return [float(value) for value in items if isinstance(value, (int, float)) and not isinstance(value, bool)]
