"""Costs in a millisecond: from what the segments of a model took in some schemes that were shaped for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import zip_longest

import numpy as np

from ...check.forked import in_fork
from ...codegen import backends
from ...compile import Request, uncollected
from ...compile.resolved import resolve
from ...plan.budget import RUNTIME_BYTES
from ...plan.lowering import Lowering
from ...progress import Progress, quiet
from ...targets import Target
from ..sampling import modules_of, random_choice
from ..space import Choice, Space
from .blocks import Blocks, option_states
from .cost import Cost
from .exact import request_of
from .observed import Observed, arena_of, moments_of, observe
from .regression import Regression
from .segments import Bools, Floats, Segments
from .speed import clock_of, fitted_clock

SCHEMES = 40
"""How many schemes are shaped before anything is told."""

SEED = 15
"""Of the schemes that are shaped."""

Steps = Iterable[tuple[Choice, float]]
"""Choices, and the milliseconds that a step of each was measured to take."""


class Costs:
    """Tells what any choice costs without planning it. `ExactCosts` says what is true.

    Made of some schemes that are shaped and ordered as compiling does it, without offsets; `threads`, `clock` and
    `progress` as `ExactCosts` has them, but that `progress` hears of the stage `costs`. Raises what planning raises
    for training everything."""

    def __init__(
        self,
        space: Space,
        target: Target,
        threads: int | None = None,
        clock: float | None = None,
        schemes: int = SCHEMES,
        progress: Progress = quiet,
    ) -> None:
        self.space, self.target = space, target
        self.threads = threads or target.cores
        self.clock = clock or clock_of(target)
        self._segments = Segments.cut(space, resolve(self._request(space.full)).model)
        self._states = option_states(space, self._request, backends.get().memory(target).alignment)
        self._known: list[tuple[Choice, Observed]] = []
        self._learn(anchors(space, schemes), progress)

    def of(self, choice: Choice) -> Cost:
        """See CostModel."""
        forward, backward, runs = self._figures(choice)
        peak = self._always(choice, forward) + arena_of(forward, backward, runs, self._end)
        return Cost(round(peak), self._cycles(forward, backward) / self.clock * 1e3)

    def moments(self, choice: Choice) -> Floats:
        """Bytes of the process in each segment's forward part, then in each one's backward part, then at the end; the
        largest is the peak."""
        forward, backward, runs = self._figures(choice)
        return self._always(choice, forward) + moments_of(forward, backward, runs, self._end)

    def _always(self, choice: Choice, forward: Floats) -> float:
        """Bytes beside the arena, which are there for the whole step."""
        return float(RUNTIME_BYTES + self.beside_arena(choice) + forward[:, 3].sum())

    def beside_arena(self, choice: Choice) -> float:
        """Bytes of parameters, optimizer state and inputs."""
        return self._blocks.of(choice)

    def measured(self, steps: Steps) -> Costs:
        """The same with the clock that explains measured steps best. Raises ValueError without one."""
        known = copy(self)
        known.clock = fitted_clock((self._cycles(*self._figures(choice)[:2]), ms) for choice, ms in steps)
        return known

    def refined(self, choices: Iterable[Choice], progress: Progress = quiet) -> Costs:
        """The same after these choices were shaped too: a search asks for it where it came to. Raises RecipeError for
        one that trains nothing."""
        known = copy(self)
        known._known = list(self._known)
        known._learn(list(choices), progress)
        return known

    @staticmethod
    def _cycles(forward: Floats, backward: Floats) -> float:
        return float(forward[:, 2].sum() + backward[:, 1].sum())

    def _observed(self, choices: Sequence[Choice], progress: Progress) -> list[Observed]:
        """What each choice takes, every other one found by another process."""

        def found(choices: Sequence[Choice], report: Progress) -> list[Observed]:
            seen = []
            for done, choice in enumerate(choices):
                report("costs", done, len(choices))
                lowering = Lowering(backends.get(), self.target, self.threads)
                seen.append(observe(self._request(choice), self._segments, lowering))
            return seen

        with uncollected():
            others = in_fork(lambda: found(choices[1::2], quiet))
            first, second = found(choices[::2], progress), others()
        progress("costs", 1, 1)
        return [one for pair in zip_longest(first, second) for one in pair if one is not None]

    def _request(self, choice: Choice) -> Request:
        return request_of(self.space, choice, self.target, self.threads)

    def _learn(self, choices: Sequence[Choice], progress: Progress) -> None:
        """Shape these choices, and learn from all that were."""
        self._known += zip(choices, self._observed(choices, progress), strict=True)
        segments, seen = self._segments, [one for _, one in self._known]
        shares = [segments.shares(choice) for choice, _ in self._known]
        forth, back = (np.stack(one) for one in zip(*(segments.features(one) for one in shares), strict=True))
        forward, backward = np.stack([one.forward for one in seen]), np.stack([one.backward for one in seen])
        runs, alike = np.stack([one.runs for one in seen]), (segments.kinds, segments.classes)
        size, held = segments.reads + segments.makes, segments.holds + 1
        pace = 1 + forward[:, :, 2].mean(axis=0)
        scales = np.column_stack((segments.makes, size, pace, np.ones_like(size)))
        self._forward = Regression.fit(forth, forward, runs[:, :, 0], alike, scales)
        counts = runs[:, :, 1] & np.stack([self._gradient(one) for one in shares])
        self._backward = Regression.fit(back, backward, counts, alike, np.column_stack((size, pace, held)))
        self._runs_forward, self._runs_backward = (runs[:, :, part].any(axis=0) for part in (0, 1))
        self._end = float(np.mean([one.end for one in seen]))
        self._blocks = Blocks.learn(self.space, self._states, self._known)

    def _gradient(self, shares: Floats) -> Bools:
        """[segments]: whether a gradient comes to it."""
        return self._segments.passes(shares) | self._segments.trains(shares)

    def _figures(self, choice: Choice) -> tuple[Floats, Floats, Bools]:
        """What `arena_of` asks for. Raises RecipeError for a choice that trains nothing."""
        if not any(choice):
            self.space.recipe(choice)
        shares = self._segments.shares(choice)
        forth, back = self._segments.features(shares)
        forward, backward = np.maximum(self._forward.of(forth), 0.0), self._backward.of(back)
        backward[:, 1:] = np.maximum(backward[:, 1:], 0.0)
        gradient = self._gradient(shares)
        backward[~gradient] = 0.0
        return forward, backward, np.column_stack((self._runs_forward, self._runs_backward & gradient))


def anchors(space: Space, count: int) -> list[Choice]:
    """The choices that are shaped: everything, then random ones, of which two thirds go back to the first module."""
    chance, modules = np.random.default_rng(SEED), len(modules_of(space))
    depths = [modules if number % 3 else 1 + number * modules // count for number in range(1, count)]
    return [space.full, *(random_choice(space, chance, max(1, depth)) for depth in depths)]
