"""A scheme as it is planned, and what its cost says of the estimate and of limits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...errors import MemoryBudgetError, PockError
from ...plan.budget import mebibytes
from ..costs import Cost
from ..space import Choice
from .limits import Limits
from .sparing import Spared

_UNUSED = 0.01
"""The part of a limit that may stay unused because an estimate was too high."""


@dataclass(frozen=True)
class Chosen:
    """A scheme that was planned.

    cost       as planned
    estimated  as estimated, with nothing computed twice and all samples at once
    gain       of the scheme, if gains add
    bound      no scheme within the limits gains more, if no option costs less than the least it cost in any company
               that was tried, and no estimate is further above the plan than the furthest of those that were planned
    method     `exact`; `spared` where it is the quickest form that fits of a step that takes more memory; `evolution`
               where integer programming found none; `usual` where a scheme that a person would write is better; `alone`
               where only one parameter fits; `tried` where short trainings chose it
    notes      sentences on what had to be repaired
    memory, micro_batches  as of Spared"""

    choice: Choice
    cost: Cost
    estimated: Cost
    gain: float
    bound: float
    method: str
    notes: tuple[str, ...] = ()
    memory: int | None = None
    micro_batches: int = 1

    def spared(self, step: Spared) -> Chosen:
        """The same where a step keeps to a memory so."""
        return replace(self, cost=step.cost, memory=step.memory, micro_batches=step.micro_batches)

    @property
    def is_spared(self) -> bool:
        """Whether a step is not the quickest that there is."""
        return self.memory is not None or self.micro_batches > 1

    @property
    def gap(self) -> float:
        """The part of the bound that is missing."""
        return max(0.0, 1 - self.gain / self.bound) if self.bound > 0 else 0.0

    @property
    def error(self) -> tuple[int, float]:
        """By how much the estimate was too high: bytes and milliseconds."""
        return self.estimated.peak_bytes - self.cost.peak_bytes, self.estimated.step_ms - self.cost.step_ms

    def wastes(self, limits: Limits) -> bool:
        """Whether too high an estimate left a part of a limit unused that matters."""
        nbytes, ms = self.error
        memory = limits.memory_bytes is not None and nbytes > _UNUSED * limits.memory_bytes
        return memory or (limits.step_ms is not None and ms > _UNUSED * limits.step_ms)

    def excess(self, limits: Limits) -> str:
        """A note on what it takes beyond the limits."""
        nbytes, ms = limits.missing(self.cost)
        over = [f"{mebibytes(nbytes)} of memory"] if nbytes else []
        over += [f"{ms:.3g} ms"] if ms else []
        return f"a scheme of gain {self.gain:.4g} was {' and '.join(over)} above the limits when it was planned"


def impossible(limits: Limits, least: Cost, batch: int | None) -> PockError:
    """Where not even the least that there is keeps to the limits, of steps that take so many samples at once, or as
    many as the model says."""
    nbytes, _ = limits.missing(least)
    advice = "allow at least that, or use a smaller batch" if batch != 1 else "allow at least that"
    if nbytes:
        assert limits.memory_bytes is not None
        allowed, needed = limits.memory_bytes, least.peak_bytes
        return MemoryBudgetError(
            f"no scheme fits into {mebibytes(allowed)} ({allowed} bytes): the least that training a single parameter "
            f"takes is {mebibytes(needed)} ({needed} bytes); {advice}",
            needed,
        )
    return PockError(
        f"no scheme's step takes less than {limits.step_ms:g} ms: training a single parameter takes "
        f"{least.step_ms:.3g} ms; {advice}"
    )
