"""The additive problem: gains that add up, under limits on what schemes take; and what solves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..space import Choice

Numbers = NDArray[np.float64]
Gains = tuple[tuple[float, ...], ...]
"""For each unit of a space, what each of its options adds; the first option is to freeze it: 0."""


def gain_of(gains: Gains, choice: Sequence[int]) -> float:
    """The sum over all units, in their order."""
    return sum(options[index] for options, index in zip(gains, choice, strict=True))


def first_of(choice: Sequence[int]) -> int:
    """The first unit that is trained; the number of units where none is."""
    return next((place for place, index in enumerate(choice) if index), len(choice))


@dataclass(frozen=True, eq=False)
class Problem:
    """What to train, as numbers. A scheme takes, of each row (the bytes in use at one moment, or milliseconds),

        reach[first trained unit] + the sum over trained units of takes[unit][option]

    and no row may be above its limit: gradients reach back to the first trained unit, whatever is trained after it;
    what a unit adds (state, saved activations, work) it adds in any company.

    gains   for each unit and option
    takes   for each unit [options, rows]; zeros for the option that freezes it
    reach   [units, rows]
    limits  [rows]"""

    gains: Gains
    takes: tuple[Numbers, ...]
    reach: Numbers
    limits: Numbers

    def __post_init__(self) -> None:
        units, rows = self.reach.shape
        assert len(self.gains) == len(self.takes) == units and self.limits.shape == (rows,)
        for gains, takes in zip(self.gains, self.takes, strict=True):
            assert takes.shape == (len(gains), rows) and not gains[0] and not takes[0].any()

    def usage(self, choice: Sequence[int]) -> Numbers:
        """What a scheme that trains something takes: [rows]."""
        chosen = [takes[index] for takes, index in zip(self.takes, choice, strict=True) if index]
        total: Numbers = np.sum([self.reach[first_of(choice)], *chosen], axis=0)
        return total

    def allows(self, choice: Sequence[int]) -> bool:
        """Whether it trains something within the limits."""
        return any(choice) and bool(np.all(self.usage(choice) <= self.limits))

    def with_limits(self, limits: Numbers) -> Problem:
        """The same under other limits."""
        return Problem(self.gains, self.takes, self.reach, limits)

    @cached_property
    def flat(self) -> Flat:
        """Its options in one row."""
        return Flat(self)


class Flat:
    """The options of all units that are not frozen, one behind the other.

    units, options  of each entry: which unit, which of its options
    gains, takes    of each entry: a number; [rows]"""

    def __init__(self, problem: Problem) -> None:
        places = [(unit, index) for unit, gains in enumerate(problem.gains) for index in range(1, len(gains))]
        self.units: NDArray[Any] = np.array([unit for unit, _ in places], int)
        self.options: NDArray[Any] = np.array([index for _, index in places], int)
        self.gains: Numbers = np.array([problem.gains[unit][index] for unit, index in places])
        self.takes: Numbers = np.array([problem.takes[unit][index] for unit, index in places])

    def choice(self, entries: Sequence[int] | NDArray[Any], units: int) -> Choice:
        """The choice of these entries, at most one a unit."""
        chosen = [0] * units
        for entry in entries:
            chosen[int(self.units[entry])] = int(self.options[entry])
        return tuple(chosen)


@dataclass(frozen=True)
class Solution:
    """What was found.

    choice  None where nothing at all keeps to the limits
    gain    of it
    bound   no choice within the limits has a larger gain"""

    choice: Choice | None
    gain: float
    bound: float

    @property
    def gap(self) -> float:
        """The part of the bound that is missing: 0 where nothing better exists."""
        return max(0.0, self.bound - self.gain) / self.bound if self.bound > 0 else 0.0
