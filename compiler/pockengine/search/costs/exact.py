"""Costs by planning: right, and slow. A search checks its winners with it."""

from __future__ import annotations

from typing import Self

from ...check.speed import clock_of
from ...codegen import backends
from ...codegen.backend import Backend
from ...compile import (
    Planned,
    Reduced,
    Request,
    Scope,
    plan_reduced,
    plan_within,
    predicted_peak_bytes,
    reduced,
    step_cycles,
)
from ...errors import MemoryBudgetError
from ...plan.budget import RESERVE
from ...progress import Progress, quiet
from ...targets import Target
from ..space import Choice, Space
from .cost import Cost

NOT_COUNTED = 0
"""Stands for the number of dense backward nodes, which no cost needs and which takes a differentiation to count."""


class ExactCosts:
    """Plans the training step of each choice that it is asked for, once.

    threads   the most threads that kernels use; None: the target's cores
    clock     cycles a second that turn what the backend expects into time; None: what is known of the target
    progress  called as each plan goes on"""

    def __init__(
        self,
        space: Space,
        target: Target,
        threads: int | None = None,
        clock: float | None = None,
        progress: Progress = quiet,
    ) -> None:
        self.space, self.target = space, target
        self.threads = threads or target.cores
        self.clock = clock or clock_of(target)
        self._progress = progress
        self._backend = backends.of(target)
        self._known: dict[Choice, Cost] = {}
        self._recomputed: dict[tuple[Choice, int], Cost | None] = {}
        self._last: tuple[Choice, Reduced] | None = None

    def of(self, choice: Choice) -> Cost:
        """What planning says. Raises RecipeError for a choice that trains nothing, UnsupportedOperatorError where a
        gradient or a kernel is missing."""
        choice = tuple(choice)
        if choice not in self._known:
            self._known[choice] = self._cost(plan_reduced(self._reduced(choice), self._backend))
        return self._known[choice]

    def beside(self, space: Space) -> Self:
        """The same for another space."""
        return type(self)(space, self.target, self.threads, self.clock, self._progress)

    def recomputed(self, choice: Choice, memory: int) -> Cost | None:
        """Of the step that computes forward nodes twice to keep its peak to so many bytes; None where there is none."""
        asked = tuple(choice), memory
        if asked not in self._recomputed:
            self._recomputed[asked] = self._planned_twice(*asked)
        return self._recomputed[asked]

    def _planned_twice(self, choice: Choice, memory: int) -> Cost | None:
        try:
            return self._cost(plan_within(self._reduced(choice), self._backend, memory + RESERVE))
        except MemoryBudgetError:
            return None

    def _reduced(self, choice: Choice) -> Reduced:
        """Kept for the last choice: what does not fit is planned again within the memory."""
        if self._last is None or self._last[0] != choice:
            self._last = choice, reduced(self._request(choice))
        return self._last[1]

    def _cost(self, planned: Planned) -> Cost:
        return Cost(predicted_peak_bytes(planned), step_cycles(planned).step / self.clock * 1e3)

    def _request(self, choice: Choice) -> Request:
        return request_of(self.space, choice, self.target, self.threads, self._progress, self._backend)


def request_of(
    space: Space,
    choice: Choice,
    target: Target,
    threads: int | None,
    progress: Progress = quiet,
    backend: Backend | None = None,
) -> Request:
    """The training step of a choice, made by the target's backend; one that is given again knows the kernels that
    choices have in common. Raises RecipeError for a choice that trains nothing."""
    return Request(
        space.graph,
        space.recipe(choice),
        target,
        threads,
        backend=backend or backends.of(target),
        scope=Scope.TRAINING,
        dense=NOT_COUNTED,
        progress=progress,
    )
