"""What recipes take of one model, told in milliseconds once some of its schemes were shaped: a little at each question,
so that none waits long."""

import os
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from pockengine.ir import Graph
from pockengine.recipe import Recipe
from pockengine.search import Costs, Space
from pockengine.search.costs import learned
from pockengine.targets import Target

SECONDS = 1.0
"""After which no more schemes are shaped for one question."""
_MOST = 4
"""Models, devices and optimizers whose costs are kept."""
_BLOCKS = {
    "params": "param", "states": "state", "consts": "const", "inputs": "input", "arena": "arena", "runtime": "runtime",
}  # fmt: skip


class Approximations:
    """Of the recipes that are asked about. Its process gives way to those that plan."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], _Learning] = OrderedDict()
        self._gives_way = False

    def answer(self, graph: Graph, recipe: Recipe, target: Target, threads: int | None) -> dict[str, Any]:
        """Raises PockError."""
        if not self._gives_way:
            os.nice(10)
            self._gives_way = True
        lora = recipe.lora
        ranks = tuple(sorted({lora.rank, *(one.rank for one in lora.ranks)})) if lora else ()
        any_rate = recipe.with_(optimizer=replace(recipe.optimizer, lr=1.0))
        key = (graph, any_rate.but_for("update", "lora"), ranks, target, threads)
        if key not in self._known:
            base = recipe.with_(update="full", lora=lora and replace(lora, params=("*",), ranks=()))
            space = Space.of(graph, base, ranks)
            self._known[key] = _Learning(space, learned(space, target, threads))
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key].answer(recipe)


class _Learning:
    """Costs that become known."""

    def __init__(self, space: Space, steps: Iterator[tuple[float, Costs]]) -> None:
        self._space, self._steps = space, steps
        self._share = 0.0
        self._costs: Costs | None = None

    def answer(self, recipe: Recipe) -> dict[str, Any]:
        """What the recipe takes, once that can be told. Raises PockError."""
        began = time.monotonic()
        while self._share < 1 and time.monotonic() - began < SECONDS:
            self._share, self._costs = next(self._steps)
        choice = self._space.choice_in(recipe)
        if self._share < 1 or self._costs is None or choice is None:
            return {"learned": self._share, "takes": None}
        cost, parts = self._costs.told(choice)
        numbers = sum(unit.numbers(option) for unit, option in zip(self._space.units, choice, strict=True))
        blocks = {f"{_BLOCKS[name]}_bytes": max(0, round(size)) for name, size in asdict(parts).items()}
        takes = {"predicted_peak_bytes": sum(blocks.values()), "step_ms": cost.step_ms, "trained_parameters": numbers}
        return {"learned": 1.0, "takes": {**takes, **blocks}}
