"""Ways in which a step takes less memory and more time: nodes that are computed twice, samples in micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..costs import Cost, CostModel, ExactCosts
from ..micro_batches import MicroBatches
from ..space import Choice

TWICE = 3.0
"""How far above a memory the quickest step may be, as a factor, where computing nodes twice is tried."""


@dataclass(frozen=True)
class Spared:
    """A step that keeps to a memory.

    memory         the bytes that its peak is kept to by computing forward nodes twice; None: none is
    micro_batches  that it takes its samples in"""

    cost: Cost
    memory: int | None = None
    micro_batches: int = 1


class Planner(CostModel, Protocol):
    """Says what planning says: slow, and right."""

    @property
    def farthest(self) -> float:
        """How far above a memory a step may be, as a factor, for `within` to be asked; 1: there is no other way."""

    def within(self, choice: Choice, memory: int) -> Spared | None:
        """The step that keeps its peak to so many bytes; None where there is none."""

    def has_form(self, choice: Choice, memory: int) -> bool:
        """Whether there is one."""


class Plans:
    """Plans steps of a space, and where they do not fit the quickest form that does.

    exact          plans steps as they are
    recompute      whether forward nodes may be computed twice
    micro_batches  that a step may take its samples in; None: it takes them at once"""

    def __init__(self, exact: ExactCosts, recompute: bool = False, micro_batches: MicroBatches | None = None) -> None:
        self.recompute, self.micro_batches = recompute, micro_batches
        self.counts = micro_batches.counts if micro_batches is not None else ()
        self._exact = {1: exact}
        self.of = exact.of

    def exact(self, count: int) -> ExactCosts:
        """Plans steps of so many micro-batches."""
        if count not in self._exact:
            assert self.micro_batches is not None
            self._exact[count] = self._exact[1].beside(self.micro_batches.space(count))
        return self._exact[count]

    @property
    def finest(self) -> Plans | None:
        """The same of steps that take their samples one by one; None where they take them at once."""
        return Plans(self.exact(self.counts[-1]), self.recompute) if self.counts else None

    @property
    def farthest(self) -> float:
        """See Planner."""
        return (TWICE if self.recompute else 1.0) * (self.counts[-1] if self.counts else 1)

    def within(self, choice: Choice, memory: int) -> Spared | None:
        """See Planner. Of the steps with ever more micro-batches it is the first that fits, or the first that does
        because nodes are computed twice, if that is quicker."""
        ends = {1, *self.counts[-1:]}  # more parts may take more: a sum of gradients for each parameter
        if not any(self._near(self.exact(count), choice, memory) for count in ends):
            return None
        found: list[Spared] = []
        for count in (1, *self.counts):
            exact = self.exact(count)
            cost = exact.of(choice)
            if cost.peak_bytes <= memory:
                found.append(Spared(cost, None, count))
                break
            if not found and self._near(exact, choice, memory):
                twice = exact.recomputed(choice, memory)
                found += [] if twice is None else [Spared(twice, memory, count)]
        return min(found, key=lambda one: (one.cost.step_ms, one.micro_batches), default=None)

    def has_form(self, choice: Choice, memory: int) -> bool:
        """See Planner. The finest parts tell it, mostly."""
        last = self.counts[-1] if self.counts else 1
        return self.exact(last).of(choice).peak_bytes <= memory or self.within(choice, memory) is not None

    def _near(self, exact: ExactCosts, choice: Choice, memory: int) -> bool:
        """Whether a step fits, or is not too far above to fit if nodes are computed twice."""
        return exact.of(choice).peak_bytes <= (TWICE if self.recompute else 1.0) * memory
