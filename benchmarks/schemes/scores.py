"""Results by scheme, model, task and seed, and what the differences between schemes say."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from .store import Result

Cell = tuple[str, str, str]
"""A model, a task, and which pre-trained weights of the model: only what began with the same is compared."""
Name = tuple[str, float]
"""A method and its share of memory, as results have them."""

FULL: Name = ("full", 1.0)
_SHOWN = 4
"""Digits of a digest that tell weights apart."""


def interval(values: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the mean, by Student's t; NaN of fewer than two values."""
    if len(values) < 2:
        return math.nan
    return float(stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values)))


@dataclass(frozen=True)
class Mean:
    """A mean over cells, and half the width of its 95 % confidence interval."""

    value: float
    half: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """NaN of none."""
        return cls(statistics.fmean(values) if values else math.nan, interval(values), len(values))

    def __str__(self) -> str:
        around = "" if math.isnan(self.half) else f" ± {100 * self.half:.1f}"
        return f"{100 * self.value:.1f}{around}" if self.count else "–"


def part(successes: int, count: int) -> str:
    """`83 % (69 to 92)`: with the exact 95 % confidence interval of a proportion (Clopper and Pearson)."""
    if not count:
        return "–"
    around = stats.binomtest(successes, count).proportion_ci(0.95, "exact")
    return f"{100 * successes / count:.0f} % ({100 * around.low:.0f} to {100 * around.high:.0f})"


def cell_of(row: Result) -> Cell:
    """Where a row belongs."""
    return row["model"], row["task"], row["weights"][:_SHOWN]


class Scores:
    """Rows by scheme, cell and seed; of rows of the same run the last counts."""

    def __init__(self, rows: Iterable[Result]) -> None:
        self.runs: dict[Name, dict[Cell, dict[int, Result]]] = defaultdict(lambda: defaultdict(dict))
        for one in rows:
            self.runs[one["method"], one["share"]][cell_of(one)][one["seed"]] = one

    @property
    def shares(self) -> list[float]:
        """Of memory, ascending; without those of full."""
        return sorted({share for _, share in self.runs if share < 1})

    def accuracy(self, name: Name) -> Mapping[Cell, Mapping[int, float]]:
        """Of each cell and seed."""
        return {
            cell: {seed: one["accuracy"] for seed, one in seeds.items()}
            for cell, seeds in self.runs.get(name, {}).items()
        }

    def cells(self, name: Name, key: str) -> dict[Cell, float]:
        """The mean of a key of each cell's rows."""
        return {
            cell: statistics.fmean(one[key] for one in seeds.values())
            for cell, seeds in self.runs.get(name, {}).items()
        }

    def differences(self, name: Name, other: Name) -> dict[Cell, float]:
        """Of each cell that both have, how much better the first one is, the mean over the seeds that both have."""
        first, second = self.accuracy(name), self.accuracy(other)
        found = {}
        for cell in first.keys() & second.keys():
            if seeds := first[cell].keys() & second[cell].keys():
                found[cell] = statistics.fmean(first[cell][seed] - second[cell][seed] for seed in seeds)
        return dict(sorted(found.items()))

    def against(self, name: Name, other: Name) -> Mean:
        """The mean of these differences over cells."""
        return Mean.of(list(self.differences(name, other).values()))
