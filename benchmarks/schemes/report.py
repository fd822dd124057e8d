"""The tables: accuracy, memory and time of each scheme, over tasks, models and seeds."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from benchmarks.document import table

from .methods import IN_A_THIRD, IN_HALF_THE_TIME, RANDOM
from .scores import FULL, Cell, Mean, Name, Scores
from .store import Result


def schemes_table(rows: Iterable[Result]) -> str:
    """One row a scheme: means over all cells that it has, with intervals over the cells, each paired with full. Random
    schemes of one limit share a row: the mean of theirs."""
    rows = list(rows)
    scores = Scores(rows)
    groups: dict[Name, list[Name]] = {}
    for name in _ordered(scores):
        groups.setdefault(("random", name[1]) if name[0].startswith(RANDOM) else name, []).append(name)
    lines = []
    for group, names in groups.items():
        apart = _over(names, lambda name: scores.differences(name, FULL))
        near = sum(value >= -0.005 for value in apart) / len(apart) if apart else math.nan
        seeds = [len(seeds) for name in names for seeds in scores.runs[name].values()]
        accuracy, memory, time = (
            _over(names, partial(scores.cells, key=key)) for key in ("accuracy", "memory", "time")
        )
        lines.append(
            [
                *_named(group),
                f"{len(accuracy)} × {min(seeds)} to {max(seeds)}",
                str(Mean.of(accuracy)),
                str(Mean.of(apart)),
                f"{100 * near:.0f} %",
                *(f"{100 * statistics.fmean(values):.0f}" for values in (memory, time)),
            ]
        )
    head = ("scheme", "memory limit", "cells × seeds", "accuracy, %", "against full, points",
            "within 0.5 of full or better", "memory, % of full", "step time, % of full")  # fmt: skip
    return table(head, lines)


def _over(names: Iterable[Name], value_of: Callable[[Name], Mapping[Cell, float]]) -> list[float]:
    """For each cell the mean over the schemes that have it."""
    found: dict[Cell, list[float]] = defaultdict(list)
    for name in names:
        for cell, value in value_of(name).items():
            found[cell].append(value)
    return [statistics.fmean(values) for values in found.values()]


def cells_table(rows: Iterable[Result]) -> str:
    """One row a model, its weights and a task, one column a scheme: mean accuracy over the seeds, with intervals over
    these."""
    scores = Scores(rows)
    names = [name for name in _ordered(scores) if not name[0].startswith(RANDOM)]
    accuracy = {name: scores.accuracy(name) for name in names}
    cells = sorted({cell for name in names for cell in accuracy[name]})
    lines = [[*cell, *(str(Mean.of(list(accuracy[name].get(cell, {}).values()))) for name in names)] for cell in cells]
    return table(("model", "task", "weights", *(" ".join(_named(name)) for name in names)), lines)


def _ordered(scores: Scores) -> list[Name]:
    """Full first, then by limit, the best first; random schemes last."""

    def rank(name: Name) -> tuple[bool, float, bool, float, str]:
        mean = statistics.fmean(scores.cells(name, "accuracy").values())
        return name != FULL, -name[1], name[0].startswith(RANDOM), -mean, name[0]

    return sorted((name for name, cells in scores.runs.items() if cells), key=rank)


def _named(name: Name) -> tuple[str, str]:
    """As in tables. What has a limit of its own and no other has the published scheme's memory."""
    method, share = name
    own = {FULL[0]: "any", IN_A_THIRD: "33 % of full", IN_HALF_THE_TIME: "50 % of full's time"}
    return method, f"{share:.0%}" if share < 1 else own.get(method, "published")
