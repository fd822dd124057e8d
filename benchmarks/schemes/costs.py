"""What recipes cost, as they are planned: memory and time, each compared with training everything."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property

from benchmarks.tasks.models import BATCH, Model
from pockengine import Recipe
from pockengine.compile import Planned, Request, Scope, plan_programs, space_bytes, step_cycles
from pockengine.plan.budget import RESERVE
from pockengine.search.costs.exact import NOT_COUNTED
from pockengine.targets import get

from .store import Store, digest_of

THREADS = 1
TARGET = "host"


@dataclass(frozen=True)
class Cost:
    """memory_bytes: weights, optimizer state and the arena, without the program itself; cycles: of a step, as the
    backend expects it."""

    memory_bytes: int
    cycles: float


class Costs:
    """Plans each recipe of a model once; with a store, once for ever."""

    def __init__(self, model: Model, store: Store | None = None) -> None:
        self.model, self.store = model, store
        self._known: dict[str, Cost] = {}
        self._programs: dict[int, int] = {}

    def of(self, recipe: Recipe) -> Cost:
        """Plans it, if it is new. Raises RecipeError where it trains nothing."""
        text = json.dumps(recipe.to_mapping(), sort_keys=True)
        if text not in self._known:
            self._known[text] = self._kept(recipe, text)
        return self._known[text]

    def _kept(self, recipe: Recipe, text: str) -> Cost:
        if self.store is None:
            return self._planned(recipe)
        key = digest_of("cost", self.model.key, sum(array.size for array in self.model.graph().data.values()), text)
        if (known := self.store.get(key)) is None:
            known = self.store.add(key, {"kind": "cost", **asdict(self._planned(recipe))})
        return Cost(known["memory_bytes"], known["cycles"])

    def _planned(self, recipe: Recipe) -> Cost:
        planned = self._plan(recipe)
        return Cost(sum(space_bytes(planned).values()), step_cycles(planned).step)

    def _plan(self, recipe: Recipe) -> Planned:
        graph = self.model.graph(batch=recipe.batch or BATCH)
        request = Request(graph, recipe, get(TARGET), THREADS, scope=Scope.TRAINING, dense=NOT_COUNTED)
        return plan_programs(request)

    @cached_property
    def full(self) -> Cost:
        """Of training everything."""
        return self.of(self.model.recipe("full"))

    @cached_property
    def head(self) -> Cost:
        """Of training the last layer, which every scheme does."""
        return self.of(self.model.recipe("head"))

    @cached_property
    def program_bytes(self) -> int:
        """What the program itself takes, whatever it trains."""
        return self._program_bytes(BATCH)

    def _program_bytes(self, batch: int) -> int:
        if batch not in self._programs:
            recipe = self.model.recipe("head").with_(batch=batch)
            self._programs[batch] = self._plan(recipe).runtime_bytes
        return self._programs[batch]

    def allowed(self, limit: int, batch: int | None = None) -> int:
        """What a recipe's `memory` says for a limit without the program itself."""
        return limit + self._program_bytes(batch or BATCH) + RESERVE

    def limit(self, share: float) -> int:
        """The bytes that a scheme may take: what the head takes, and this share of what full takes beyond that."""
        head, full = self.head.memory_bytes, self.full.memory_bytes
        return head + round(share * (full - head))
