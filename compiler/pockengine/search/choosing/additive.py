"""From a model of costs to an additive problem, by asking what each option adds in the company of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from ...progress import Progress, quiet
from ..costs import CostModel
from ..space import Choice, Space, alone, with_option
from .limits import Limits
from .problem import Gains, Numbers, Problem


@runtime_checkable
class Momentary(Protocol):
    """A model of costs that knows memory at several moments of a step."""

    def moments(self, choice: Choice) -> Sequence[float]:
        """Bytes of the process at each moment, as many for each choice; the largest is the peak."""


class Rows:
    """The rows of additive problems for one model of costs: bytes at each moment that it tells apart (at least the
    peak), then milliseconds."""

    def __init__(self, space: Space, costs: CostModel, gains: Gains, progress: Progress = quiet) -> None:
        self.space, self.costs, self.gains, self.progress = space, costs, gains, progress
        self._known: dict[Choice, Numbers] = {}

    def of(self, choice: Choice) -> Numbers:
        """What a choice takes: [rows]."""
        if choice not in self._known:
            cost = self.costs.of(choice)
            bytes_ = self.costs.moments(choice) if isinstance(self.costs, Momentary) else [cost.peak_bytes]
            self._known[choice] = np.array([*bytes_, cost.step_ms], np.float64)
        return self._known[choice]

    def limits(self, limits: Limits) -> Numbers:
        """The limit of each row; infinite where there is none."""
        memory = np.inf if limits.memory_bytes is None else float(limits.memory_bytes)
        time = np.inf if limits.step_ms is None else limits.step_ms
        rows = len(self.of(alone(len(self.gains) - 1, len(self.gains))))
        return np.array([memory] * (rows - 1) + [time])

    def problem(self, around: Choice, limits: Limits) -> Problem:
        """What each option adds beside the units that `around` trains, with gradients that reach all the way back; and
        what reaching back to each unit takes, of schemes that train that unit alone. So schemes of one unit are exact;
        others as far as costs add up."""
        units, company = len(self.gains), (max(around[0], 1), *around[1:])
        takes = []
        for unit in range(units):
            self.progress("probe", unit, units)
            takes.append(self._takes(unit, company))
        reach = np.array([self.of(alone(unit, units)) - takes[unit][1] for unit in range(units)])
        self.progress("probe", units, units)
        return Problem(self.gains, tuple(takes), reach, self.limits(limits))

    def _takes(self, unit: int, company: Choice) -> Numbers:
        """[options, rows]. The first unit has no company without itself: its first option is part of what reaching back
        to it takes."""
        without = self.of(with_option(company, unit, 0 if unit else 1))
        rows, first_rank = [np.zeros_like(without)], len(self.space.units[unit].shares)
        for option in range(1, len(self.gains[unit])):
            more = np.maximum(self.of(with_option(company, unit, option)) - without, 0)
            less = rows[0 if option == first_rank else -1]
            rows.append(np.maximum(more, less))  # a larger share never takes less, nor a higher rank
        return np.array(rows)


def lower(problems: Sequence[Problem]) -> Problem:
    """The least that each option and each reach took in any company that was tried."""
    first = problems[0]
    takes = tuple(np.min([one.takes[unit] for one in problems], axis=0) for unit in range(len(first.gains)))
    return Problem(first.gains, takes, np.min([one.reach for one in problems], axis=0), first.limits)
