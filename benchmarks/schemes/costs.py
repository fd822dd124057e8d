"""What recipes cost, as they are planned: memory and time, each as a share of training everything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from benchmarks.tasks.models import Model
from pockengine import Recipe
from pockengine.compile import RUNTIME_BYTES, Request, Scope, plan_programs, predicted_peak_bytes
from pockengine.search.costs.exact import NOT_COUNTED, step_cycles
from pockengine.targets import get

THREADS = 1


@dataclass(frozen=True)
class Cost:
    """memory_bytes: weights, optimizer state and the arena, without the program itself; cycles: of a step, as the
    backend expects it."""

    memory_bytes: int
    cycles: float


class Costs:
    """Plans each recipe of a model once."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._known: dict[str, Cost] = {}

    def of(self, recipe: Recipe) -> Cost:
        """Plans it, if it is new. Raises RecipeError where it trains nothing."""
        key = json.dumps(recipe.to_mapping(), sort_keys=True)
        if key not in self._known:
            request = Request(self.model.graph(), recipe, get("host"), THREADS, scope=Scope.TRAINING, dense=NOT_COUNTED)
            planned = plan_programs(request)
            self._known[key] = Cost(predicted_peak_bytes(planned) - RUNTIME_BYTES, step_cycles(planned))
        return self._known[key]

    @cached_property
    def full(self) -> Cost:
        """Of training everything."""
        return self.of(self.model.recipe("full"))

    def fits(self, recipe: Recipe, share: float) -> bool:
        """Whether it takes at most this share of full's memory."""
        return self.of(recipe).memory_bytes <= share * self.full.memory_bytes
