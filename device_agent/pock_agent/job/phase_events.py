"""The events of one phase on their way into the spool, and what is known of a training that began before a restart.

A phase that is repeated from its beginning replaces the events of its earlier try. A training that goes on at a
checkpoint keeps those up to it, so that no step is told twice. Steps that the executable had made, and saved in its
checkpoint, when the agent ended before it read of them are counted; their losses and times are lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from pock_agent.job.report import numbers, step_times, summary
from pock_agent.job.spool import EventSpool
from pock_agent.values import JsonObject

_READ = 1000


@dataclass(frozen=True)
class _Earlier:
    """The steps before the restart: how many, and the losses and milliseconds that are known, in order."""

    steps: int = 0
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
        if not self._earlier.steps:
            return report
        samples = [*self._earlier.times, *step_times(report)]
        losses = [*self._earlier.losses, *numbers(report.get("loss"))]
        return {
            **report,
            "steps": self._earlier.steps + report["steps"],
            "loss": losses,
            "step_ms": summary(samples),
            "resumed_at": self._earlier.steps,
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
        self._earlier = _Earlier(last, tuple(numbers(losses)), tuple(numbers(times)))
