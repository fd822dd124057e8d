"""Costs in a millisecond: from what the segments of a model took in some schemes that were shaped for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import zip_longest

import numpy as np

from ...check.forked import in_fork, processes
from ...check.speed import clock_of, fitted_clock
from ...codegen import backends
from ...compile import Request, Scope, uncollected
from ...compile.resolved import resolve
from ...plan.lowering import Lowering
from ...progress import Progress, quiet
from ...targets import Target
from ..sampling import modules_of, random_choice
from ..space import Choice, Space
from .blocks import Blocks, option_bytes
from .cost import Cost, Parts
from .exact import request_of
from .observed import FORWARD, Observed, arena_of, moments_of, observe
from .regression import Regression, Sample
from .segments import Bools, Floats, Segments

SCHEMES = 40
"""How many schemes are shaped before anything is told."""

FEW = 3
"""How many are shaped at a time where others wait."""

SEED = 15
"""Of the schemes that are shaped."""

PROCESSES = 8
"""At most, which shape at once: each takes the memory of a compilation."""

SPANS = np.array([name != "made" for name in FORWARD])
"""Which figures of the forward part are bounded by what their kind was seen to take. What a segment makes for the
backward part depends on too much to have been seen."""

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
        backend = backends.of(target)
        alignment = backend.memory(target).alignment
        self._runtime = backend.runtime_bytes(space.graph)
        self._options = option_bytes(space, self._request, alignment)
        self._known: list[tuple[Choice, Observed]] = []
        self._learn(anchors(space, schemes), progress)

    def of(self, choice: Choice) -> Cost:
        """See CostModel."""
        return self.told(choice)[0]

    def told(self, choice: Choice) -> tuple[Cost, Parts]:
        """The cost, and what its memory consists of."""
        forward, backward, runs = self._figures(choice)
        params, states, inputs = map(float, self._blocks.of(choice))
        consts, arena = float(forward[:, 3].sum()), arena_of(forward, backward, runs, self._end)
        parts = Parts(params, states, consts, inputs, arena, self._runtime)
        return Cost(parts.peak, self._cycles(forward, backward) / self.clock * 1e3), parts

    def moments(self, choice: Choice) -> Floats:
        """Bytes of the process in each segment's forward part, then in each one's backward part, then at the end; the
        largest is the peak."""
        forward, backward, runs = self._figures(choice)
        return self._always(choice, forward) + moments_of(forward, backward, runs, self._end)

    def _always(self, choice: Choice, forward: Floats) -> float:
        """Bytes beside the arena, which are there for the whole step."""
        return float(self._runtime + self.beside_arena(choice) + forward[:, 3].sum())

    def beside_arena(self, choice: Choice) -> float:
        """Bytes of parameters, optimizer state and inputs."""
        return float(self._blocks.of(choice).sum())

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

    def _cycles(self, forward: Floats, backward: Floats) -> float:
        return self.space.base.accumulate * float(forward[:, 2].sum() + backward[:, 1].sum())

    def _observed(self, choices: Sequence[Choice], progress: Progress) -> list[Observed]:
        """What each choice takes, found by as many processes as there are cores, up to PROCESSES."""

        def found(choices: Sequence[Choice], report: Progress) -> list[Observed]:
            seen = []
            for done, choice in enumerate(choices):
                report("costs", done, len(choices))
                lowering = Lowering(backends.of(self.target), self.target, self.threads)
                seen.append(observe(self._request(choice), self._segments, lowering))
            return seen

        parts = max(1, min(processes(), PROCESSES, len(choices)))
        with uncollected():
            others = [in_fork(partial(found, choices[part::parts], quiet)) for part in range(1, parts)]
            seen = [found(choices[::parts], progress), *(other() for other in others)]
        progress("costs", 1, 1)
        return [one for row in zip_longest(*seen) for one in row if one is not None]

    def _request(self, choice: Choice) -> Request:
        return replace(request_of(self.space, choice, self.target, self.threads), scope=Scope.UPDATE)

    def _learn(self, choices: Sequence[Choice], progress: Progress) -> None:
        """Shape these choices, and learn from all that were."""
        self._known += zip(choices, self._observed(choices, progress), strict=True)
        segments, seen = self._segments, [one for _, one in self._known]
        parts = [segments.parts_of(choice) for choice, _ in self._known]
        forward, backward = np.stack([one.forward for one in seen]), np.stack([one.backward for one in seen])
        runs = np.stack([one.runs for one in seen])
        gradients = np.stack([segments.gradients(one) for one in parts])
        size, held = segments.reads + segments.makes, segments.holds + 1
        pace = 1 + forward[:, :, 2].mean(axis=0)
        samples = (
            Sample(forward, runs[:, :, 0], np.column_stack((segments.makes, size, pace, np.ones_like(size))), SPANS),
            Sample(backward[:, :, ::2], runs[:, :, 1] & gradients, np.column_stack((size, held)), np.ones(2, np.bool_)),
            Sample(backward[:, :, 1:2], gradients, pace[:, None], np.ones(1, np.bool_)),
        )
        self._told = Regression.fit(segments, np.stack([segments.features(one) for one in parts]), samples)
        self._runs_forward, self._runs_backward = (runs[:, :, part].any(axis=0) for part in (0, 1))
        self._end = float(np.mean([one.end for one in seen]))
        self._blocks = Blocks.learn(self.space, self._options, self._known)

    def _figures(self, choice: Choice) -> tuple[Floats, Floats, Bools]:
        """What `arena_of` asks for. Raises RecipeError for a choice that trains nothing."""
        if not any(choice):
            self.space.recipe(choice)
        parts = self._segments.parts_of(choice)
        forward, bytes_, cycles = self._told.of(self._segments.features(parts))
        forward, backward = np.maximum(forward, 0.0), np.column_stack((bytes_[:, 0], cycles, bytes_[:, 1]))
        backward[:, 1:] = np.maximum(backward[:, 1:], 0.0)
        gradients = self._segments.gradients(parts)
        backward[~gradients] = 0.0
        return forward, backward, np.column_stack((self._runs_forward, self._runs_backward & gradients))


def learned(space: Space, target: Target, threads: int | None = None) -> Iterator[tuple[float, Costs]]:
    """What `Costs` makes, a little at a time, for who has other things to do between: which share of the schemes was
    shaped, and the costs that are known from these. Raises as `Costs` does."""
    costs = Costs(space, target, threads, schemes=1)
    others = anchors(space, SCHEMES)[1:]
    for done in range(0, len(others), FEW):
        yield (1 + done) / SCHEMES, costs
        costs = costs.refined(others[done : done + FEW])
    yield 1.0, costs


def anchors(space: Space, count: int) -> list[Choice]:
    """The choices that are shaped: everything, then random ones, of which two thirds go back to the first module."""
    chance, modules = np.random.default_rng(SEED), len(modules_of(space))
    depths = [modules if number % 3 else 1 + number * modules // count for number in range(1, count)]
    return [space.full, *(random_choice(space, chance, max(1, depth)) for depth in depths)]
