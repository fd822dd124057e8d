"""Ways to choose what is trained: a method is a function of a setting that gives a recipe. A new one is an entry of
`METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np

from benchmarks.tasks.models import Model
from benchmarks.tasks.task import Split, Task, Tensors
from pockengine import Recipe
from pockengine.errors import RecipeError
from pockengine.search import Space

from .costs import Costs
from .published import PUBLISHED


@dataclass(frozen=True, eq=False)
class Setting:
    """What a method may look at.

    space    of the model
    share    of full's memory that may be taken
    task     that the model is adapted to; samples: those it may train on; weights: where training begins"""

    model: Model
    space: Space
    costs: Costs
    share: float
    task: Task
    samples: Split
    weights: Tensors

    def fits(self, recipe: Recipe) -> bool:
        """Whether it keeps to the memory."""
        return self.costs.fits(recipe, self.share)

    def most(self, recipes: Sequence[Callable[[], Recipe]]) -> Recipe | None:
        """The last one that fits of recipes that need more and more memory; None where not even the first does."""
        low, high = 0, len(recipes)
        while low < high:
            middle = (low + high) // 2
            try:
                fits = self.fits(recipes[middle]())
            except RecipeError:  # it trains nothing, or adapts nothing
                fits = True
            low, high = (middle + 1, high) if fits else (low, middle)
        while low:
            low -= 1
            try:
                self.fits(found := recipes[low]())
            except RecipeError:
                continue
            return found
        return None


Method = Callable[[Setting], Recipe | None]
"""None where nothing of its kind keeps to the memory."""


def full(setting: Setting) -> Recipe | None:
    """Everything, whatever it takes."""
    return setting.model.recipe("full")


def head(setting: Setting) -> Recipe | None:
    """The last layer."""
    return setting.most([lambda: setting.model.recipe("head")])


def bias(setting: Setting) -> Recipe | None:
    """The head, and of the biases (where there are none, of the scales of norms) the last that fit."""
    pattern = "*bias" if any(unit.name.endswith("bias") for unit in setting.space.units) else "*norm*"
    count = sum(fnmatchcase(unit.name, pattern) for unit in setting.space.units)
    rules = [["head", {"params": pattern, "last": last}] for last in range(1, count + 1)]
    return setting.most([partial(setting.model.recipe, rule) for rule in rules])


def last(setting: Setting) -> Recipe | None:
    """The last parameters that fit."""
    counts = range(1, len(setting.space.units) + 1)
    return setting.most([partial(setting.model.recipe, {"params": "*", "last": count}) for count in counts])


def lora(setting: Setting, rank: int = 4) -> Recipe | None:
    """The head, and adapters beside the last weights that fit."""
    weights = [unit.name for unit in setting.space.units if unit.is_weight][::-1]
    adapted = [{"params": weights[1 : count + 1], "rank": rank} for count in range(1, len(weights))]
    return setting.most([partial(setting.model.recipe, "head", lora=one) for one in adapted])


def published(setting: Setting) -> Recipe | None:
    """What was published for the architecture, where it fits."""
    rules = PUBLISHED.get(setting.model.name)
    return None if rules is None else setting.most([partial(setting.model.recipe, rules)])


def random(setting: Setting, number: int) -> Recipe | None:
    """The head, and shares of parameters in random order, as many as fit."""
    chance = np.random.default_rng([number, *setting.model.key.encode()])
    order = chance.permutation(len(setting.space.units))
    options = [1 + int(chance.integers(0, len(unit.shares) - 1)) for unit in setting.space.units]

    def first(count: int) -> Recipe:
        rules: list[Any] = ["head"]
        for place in order[:count]:
            unit, index = setting.space.units[place], options[place]
            whole = unit.shares[index] == 1.0
            rules.append({"params": unit.name, **({} if whole else {"channels": unit.channels(index)})})
        return setting.model.recipe(rules)

    return setting.most([partial(first, count) for count in range(1, len(order) + 1)])


RANDOM = 4
"""Random schemes of each model and memory."""

METHODS: dict[str, Method] = {
    "head": head,
    "bias": bias,
    "last": last,
    "lora": lora,
    "published": published,
    **{f"random-{number}": partial(random, number=number) for number in range(RANDOM)},
}
"""All but `full`, with which they are compared."""
