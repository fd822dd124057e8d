"""What a scheme may take, and what people prefer among the schemes that keep to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..costs import Cost


@dataclass(frozen=True)
class Limits:
    """None where there is no limit.

    memory_bytes  of the predicted peak of the whole process
    step_ms       of one training step"""

    memory_bytes: int | None = None
    step_ms: float | None = None

    def keeps(self, cost: Cost) -> bool:
        """Whether a scheme of this cost is within both."""
        return self.missing(cost) == (0, 0.0)

    def missing(self, cost: Cost) -> tuple[int, float]:
        """The bytes and the milliseconds by which a cost is above the limits."""
        memory = 0 if self.memory_bytes is None else max(0, cost.peak_bytes - self.memory_bytes)
        return memory, 0.0 if self.step_ms is None else max(0.0, cost.step_ms - self.step_ms)

    def shifted(self, nbytes: int, ms: float) -> Limits:
        """The same with so much more room."""
        memory = None if self.memory_bytes is None else self.memory_bytes + nbytes
        return Limits(memory, None if self.step_ms is None else self.step_ms + ms)

    def within(self, cost: Cost) -> Limits:
        """What keeps to these and takes no more than `cost`."""
        memory = cost.peak_bytes if self.memory_bytes is None else min(self.memory_bytes, cost.peak_bytes)
        return Limits(memory, cost.step_ms if self.step_ms is None else min(self.step_ms, cost.step_ms))

    def widened(self, factor: float) -> Limits:
        """The same, times a factor."""
        memory = None if self.memory_bytes is None else int(self.memory_bytes * factor)
        return Limits(memory, None if self.step_ms is None else self.step_ms * factor)


class Preference(StrEnum):
    """Which scheme of the front is taken."""

    ACCURACY = "accuracy"
    """The one of the largest gain."""
    MEMORY = "memory"
    """The one of the lowest peak among those that keep KEPT of the largest gain."""
    TIME = "time"
    """The one of the shortest step among those that keep KEPT of the largest gain."""
    BALANCED = "balanced"
    """The one for which gain, less the mean of peak and step time, is largest; each as a share of the front's range."""


KEPT = 0.95
"""The part of the largest gain that a preference for memory or time keeps."""
