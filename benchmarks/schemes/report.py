"""The tables: accuracy, memory and time of each scheme, over tasks, models and seeds."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from scipy import stats

from benchmarks.document import table

from .store import Result

Cell = tuple[str, str]
"""A model and a task."""


def interval(values: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the mean, by Student's t; NaN of fewer than two values."""
    if len(values) < 2:
        return math.nan
    return float(stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values)))


def _percent(value: float, half: float = math.nan) -> str:
    around = "" if math.isnan(half) else f" ± {100 * half:.1f}"
    return f"{100 * value:.1f}{around}"


def _group(name: str) -> str:
    """Random schemes count as one."""
    return "random" if name.startswith("random-") else name


class Scores:
    """Accuracies by scheme, cell and seed."""

    def __init__(self, results: Iterable[Result]) -> None:
        self.runs: dict[tuple[str, float], dict[Cell, dict[int, list[Result]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        for one in results:
            place = self.runs[_group(one["method"]), one["share"]]
            place[one["model"], one["task"]][one["seed"]].append(one)

    def of(self, scheme: tuple[str, float]) -> Mapping[Cell, Mapping[int, float]]:
        """Accuracy of each cell and seed; of random schemes the mean."""
        return {
            cell: {seed: statistics.fmean(one["accuracy"] for one in runs) for seed, runs in seeds.items()}
            for cell, seeds in self.runs[scheme].items()
        }

    def mean_of(self, scheme: tuple[str, float], key: str) -> float:
        """The mean over cells of `memory` or `time`."""
        cells = self.runs[scheme].values()
        return statistics.fmean(
            statistics.fmean(one[key] for runs in seeds.values() for one in runs) for seeds in cells
        )

    def differences(self, scheme: tuple[str, float], other: tuple[str, float]) -> dict[int, dict[Cell, float]]:
        """Of each seed and each cell that both have, how much better the first one is."""
        first, second = self.of(scheme), self.of(other)
        found: dict[int, dict[Cell, float]] = defaultdict(dict)
        for cell in first.keys() & second.keys():
            for seed in first[cell].keys() & second[cell].keys():
                found[seed][cell] = first[cell][seed] - second[cell][seed]
        return found


FULL = ("full", 1.0)


def schemes_table(results: Iterable[Result]) -> str:
    """One row a scheme: means over all cells that it has, with intervals over the seeds, each paired with full."""
    scores = Scores(results)
    rows = []
    for scheme in sorted(scores.runs, key=lambda one: (-one[1], one[0] != "full", one[0])):
        apart = scores.differences(scheme, FULL)
        by_seed = [statistics.fmean(cells.values()) for cells in apart.values() if cells]
        accuracy = [value for seeds in scores.of(scheme).values() for value in seeds.values()]
        by_cell: dict[Cell, list[float]] = defaultdict(list)
        for cells in apart.values():
            for cell, value in cells.items():
                by_cell[cell].append(value)
        means = [statistics.fmean(values) for values in by_cell.values()]
        near = sum(value >= -0.005 for value in means) / len(means) if means else math.nan
        rows.append(
            [
                scheme[0],
                "any" if scheme[1] >= 1 else f"{scheme[1]:.0%}",
                f"{len(scores.runs[scheme])}",
                _percent(statistics.fmean(accuracy)),
                _percent(statistics.fmean(by_seed), interval(by_seed)) if by_seed else "–",
                f"{100 * near:.0f} %",
                _percent(scores.mean_of(scheme, "memory")),
                _percent(scores.mean_of(scheme, "time")),
            ]
        )
    head = ("scheme", "memory limit", "cells", "accuracy, %", "against full, points", "within 0.5 of full or better",
            "memory, % of full", "step time, % of full")  # fmt: skip
    return table(head, rows)


def cells_table(results: Iterable[Result]) -> str:
    """One row a model and task, one column a scheme: mean accuracy over the seeds."""
    scores = Scores(results)
    schemes = sorted(scores.runs, key=lambda one: (-one[1], one[0] != "full", one[0]))
    accuracy = {scheme: scores.of(scheme) for scheme in schemes}
    cells = dict.fromkeys(cell for scheme in schemes for cell in accuracy[scheme])
    rows = []
    for cell in sorted(cells):
        values = [list(accuracy[scheme].get(cell, {}).values()) for scheme in schemes]
        texts = [_percent(statistics.fmean(one), interval(one)) if one else "–" for one in values]
        rows.append([cell[0], cell[1], *texts])
    names = [name if share >= 1 else f"{name} {share:.0%}" for name, share in schemes]
    return table(("model", "task", *names), rows)
