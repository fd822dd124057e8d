"""Small additive problems, and models of costs that stand in for a planner."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from pockengine.recipe import Recipe
from pockengine.search import Choice, Space, Unit
from pockengine.search.choosing import Gains, Problem, Spared, gain_of
from pockengine.search.costs import Cost

SHARES = (0.0, 0.125, 0.25, 0.5, 1.0)


def random_problem(seed: int) -> Problem:
    """Up to five units of up to four options, up to four rows, all whole numbers; about one in five has no solution."""
    rng = np.random.default_rng(seed)
    units, rows = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    counts = rng.integers(2, 5, units)
    gains = tuple((0.0, *map(float, np.sort(rng.integers(-3, 30, count - 1)))) for count in counts)
    takes = tuple(
        np.vstack([np.zeros(rows), np.cumsum(rng.integers(0, 20, (count - 1, rows)), axis=0)]) for count in counts
    )
    reach = np.cumsum(rng.integers(0, 10, (units, rows)), axis=0)[::-1].astype(float)
    limits = rng.integers(5, 100, rows).astype(float)
    limits[rng.random(rows) < 0.2] = np.inf
    return Problem(gains, takes, reach, limits)


def choices(gains: Gains) -> Iterator[Choice]:
    """Every one."""
    return itertools.product(*(range(len(options)) for options in gains))


def best_gain(gains: Gains, allows: Callable[[Choice], bool]) -> float | None:
    """By looking at every choice; None where none is allowed."""
    return max((gain_of(gains, choice) for choice in choices(gains) if allows(choice)), default=None)


def space_of(layers: int) -> Space:
    """Layers of a weight and a bias; there is no graph."""
    units = []
    for layer in range(layers):
        units.append(Unit(f"layer.{layer}.weight", (64, 64), 1, SHARES))
        units.append(Unit(f"layer.{layer}.bias", (64,), None, (0.0, 1.0)))
    return Space(None, Recipe(), tuple(units))  # type: ignore[arg-type]


def random_gains(space: Space, seed: int) -> Gains:
    """More for weights than for biases, less for each further channel."""
    rng = np.random.default_rng(seed)
    return tuple(
        (0.0, *(float(whole * np.sqrt(share)) for share in unit.shares[1:]))
        for unit in space.units
        for whole in [rng.exponential() * (1.0 if unit.is_weight else 0.3)]
    )


class Chain:
    """What the layers of a chain take: activations that are saved from a layer's forward part to its backward part,
    state, and what each part needs while it runs. `wrong` is by how much it may be wrong of a scheme, as a part."""

    def __init__(self, layers: int, seed: int, wrong: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.saved, self.state, self.own = (rng.integers(1, 100, layers) * size for size in (1280, 256, 2560))
        self.ms, self.wrong = rng.random(layers), wrong

    def moments(self, choice: Choice) -> np.ndarray:
        layers, first = len(self.ms), next(place for place, index in enumerate(choice) if index) // 2
        shares = np.array([SHARES[index] for index in choice[::2]])
        masks = np.where(np.arange(layers) > first, self.saved / 32, 0)
        live = np.cumsum(shares * self.saved + masks) + 1e6 + shares @ self.state + 256 * sum(choice[1::2])
        return np.concatenate([live + self.own, live + np.where(np.arange(layers) >= first, 2 * self.own, 0)])

    def of(self, choice: Choice) -> Cost:
        first = next(place for place, index in enumerate(choice) if index) // 2
        shares = np.array([SHARES[index] for index in choice[::2]])
        ms = self.ms.sum() + self.ms[first + 1 :].sum() + shares @ self.ms
        error = 1 + self.wrong * (hash(choice) % 1001 / 500 - 1)
        return Cost(int(self.moments(choice).max() * error), float(ms))

    farthest = 1.0

    def within(self, choice: Choice, memory: int) -> Spared | None:
        return None

    def has_form(self, choice: Choice, memory: int) -> bool:
        return self.within(choice, memory) is not None


class Shrinking(Chain):
    """The same where nodes that are computed twice take 0.7 of the memory and 1.2 of the time."""

    farthest = 3.0

    def within(self, choice: Choice, memory: int) -> Spared | None:
        cost = self.of(choice)
        shrunk = Cost(int(0.7 * cost.peak_bytes), 1.2 * cost.step_ms)
        return Spared(shrunk, memory) if shrunk.peak_bytes <= memory else None


class Peak:
    """The same, without moments."""

    def __init__(self, chain: Chain) -> None:
        self.of = chain.of
