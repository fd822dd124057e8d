"""Ways to choose what is trained: a method is a function of a setting that gives a recipe. A new one is an entry of
`METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np

from benchmarks.tasks.models import BATCH
from pockengine import Recipe
from pockengine.errors import MemoryBudgetError
from pockengine.recipe.groups import Group
from pockengine.search import Space

from .costs import Costs
from .published import PUBLISHED
from .searching import QUICKEST, Forms, Picked
from .setting import Proposal, Setting
from .store import Result

Method = Callable[[Setting], Proposal | None]
"""None where nothing of its kind keeps to the memory."""

ALL_FORMS = Forms(recompute=True, micro_batches=True)


def full(setting: Setting) -> Proposal | None:
    """Everything, whatever it takes."""
    return Proposal(setting.model.recipe("full"))


def head(setting: Setting) -> Proposal | None:
    """The last layer."""
    return setting.most([lambda: setting.model.recipe("head")])


def bias(setting: Setting) -> Proposal | None:
    """The head, and of the biases (where there are none, of the scales of norms) the last that fit."""
    pattern = "*bias" if any(unit.name.endswith("bias") for unit in setting.space.units) else "*norm*"
    count = sum(fnmatchcase(unit.name, pattern) for unit in setting.space.units)
    rules = [["head", {"params": pattern, "last": last}] for last in range(1, count + 1)]
    return setting.most([partial(setting.model.recipe, rule) for rule in rules])


def last(setting: Setting, recompute: bool = False) -> Proposal | None:
    """The last parameters that fit."""
    counts = range(1, len(setting.space.units) + 1)
    recipes = [partial(setting.model.recipe, {"params": "*", "last": count}) for count in counts]
    return _most(setting, recipes, recompute)


def lora(setting: Setting, rank: int = 4) -> Proposal | None:
    """The head, and adapters beside the last weights that fit."""
    weights = [unit.name for unit in setting.space.units if unit.is_weight][::-1]
    adapted = [{"params": weights[1 : count + 1], "rank": rank} for count in range(1, len(weights))]

    def recipe(adapters: dict[str, Any]) -> Recipe:
        return _careful(setting.model.recipe("head", lora=adapters))

    return setting.most([partial(recipe, one) for one in adapted])


def published(setting: Setting) -> Proposal | None:
    """What was published for the architecture, where it fits."""
    rules = PUBLISHED.get(setting.model.name)
    return None if rules is None else setting.most([partial(setting.model.recipe, rules)])


def _most(setting: Setting, recipes: Sequence[Callable[[], Recipe]], recompute: bool) -> Proposal | None:
    """The last that fits; with `recompute` the last that does because nodes are computed twice, if there is one."""
    return setting.most_recomputing(recipes) if recompute else setting.most(recipes)


def random(setting: Setting, number: int) -> Proposal | None:
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


@dataclass(frozen=True)
class Finding:
    """How the project's search is asked.

    forms       that a step may have to keep to the memory
    way         in which contributions are found
    adapters    whether weights may have adapters
    limit       bytes of its own, by what is known of costs; None: the setting's
    step_share  of full's step time, if that is limited"""

    forms: Forms = ALL_FORMS
    way: str = "default"
    adapters: bool = False
    limit: Callable[[Costs], int] | None = None
    step_share: float | None = None


def found(setting: Setting, asked: Finding) -> Proposal | None:
    """What the project's search chooses from the task's own samples."""
    searching = setting.searching.with_adapters if asked.adapters else setting.searching
    contributions = searching.contributions(setting.task, asked.way)

    def pick(limit: int) -> Picked | None:
        return searching.pick(contributions, limit, asked.step_share, asked.forms)

    about = {"finding_seconds": contributions.seconds}
    limit = setting.limit if asked.limit is None else asked.limit(setting.costs)
    return _fitting(setting, pick, limit, about, space=searching.space, recompute=asked.forms.recompute)


def elsewhere(setting: Setting) -> Proposal | None:
    """What the project's search chooses from the samples of half of the model's tasks, of which this is none."""
    if len(setting.model.tasks) < 2:
        return None
    contributions = setting.searching.averaged(setting.task, "default")

    def pick(limit: int) -> Picked | None:
        return setting.searching.pick(contributions, limit, forms=ALL_FORMS)

    return _fitting(setting, pick, setting.limit, recompute=True)


def evolution(setting: Setting) -> Proposal | None:
    """What the published search chooses from the same contributions as the project's."""
    contributions = setting.searching.contributions(setting.task, "default")
    return _fitting(setting, lambda limit: setting.searching.evolved(contributions, limit), setting.limit)


def found_as_published(setting: Setting) -> Proposal | None:
    """What the project's search chooses in the memory that the published scheme takes."""
    if (rules := PUBLISHED.get(setting.model.name)) is None:
        return None
    memory = setting.costs.of(setting.model.recipe(rules)).memory_bytes
    return found(setting, Finding(limit=lambda costs: memory))


_ATTEMPTS = 3
"""Choices, each within less memory, until one fits with its own channels."""
_LESS = 0.05
"""The part of the memory that the next choice goes without, where this one does not fit whatever is computed twice."""


def _fitting(
    setting: Setting,
    pick: Callable[[int], Picked | None],
    limit: int,
    about: Result | None = None,
    space: Space | None = None,
    recompute: bool = False,
) -> Proposal | None:
    """What is picked from a space, as a recipe that keeps to the memory: where its channels are named, it may take a
    little more than one that takes the largest."""
    room = limit
    for _ in range(_ATTEMPTS):
        if (picked := pick(room)) is None:
            return None
        recipe = _careful((space or setting.space).recipe(picked.choice, picked.importance))
        if picked.micro_batches > 1:
            recipe = in_micro_batches(recipe, picked.micro_batches)
        if recompute and not setting.fits(recipe, limit):
            recipe = setting.recomputing(recipe, limit)
        try:
            over = setting.costs.of(recipe).memory_bytes - limit
        except MemoryBudgetError:
            over = round(_LESS * room)
        if over <= 0:
            known = {"gain": picked.gain, "bound": picked.bound}
            return Proposal(recipe, {**known, **(about or {})})
        room -= over
    return None


def in_micro_batches(recipe: Recipe, count: int) -> Recipe:
    """The same training in steps that take their samples in so many parts."""
    return recipe.with_(batch=BATCH // count, accumulate=count)


def _careful(recipe: Recipe) -> Recipe:
    """With a tenth of the rate for adapters where SGD trains them: at the others' rates they diverge, as a step of one
    of the two matrices is multiplied by the other."""
    optimizer = recipe.optimizer
    if recipe.lora is None or optimizer.name != "sgd":
        return recipe
    return recipe.with_(optimizer=replace(optimizer, groups=(Group("*.lora_[AB].weight", lr=optimizer.lr / 10),)))


USUAL: dict[str, Method] = {"head": head, "bias": bias, "last": last, "lora": lora}
"""What a person would write."""

LAST_RECOMPUTED = "last-recompute"
"""The strongest of it, as much as fits where forward nodes are computed twice."""

FOUND, AT_ONCE = "found", "found-at-once"
"""What `pock search` does within a memory; the same where each step must be of the quickest form."""

IN_A_THIRD, IN_HALF_THE_TIME = "found-third", "found-half-time"
"""What `pock search` does within a third of the memory that full takes; within half of its step time, whatever the
memory."""
HALF = 0.5

CRITERIA: dict[str, Method] = {
    f"found-{way}": partial(found, asked=Finding(QUICKEST, way))
    for way in ("activations", "signal", "channels", "ratio", "root", "even", "earlier", "measured", "measured-loss")
}
"""The same choice as `AT_ONCE` from contributions that are found in other ways."""

SEARCHED: dict[str, Method] = {
    FOUND: partial(found, asked=Finding()),
    AT_ONCE: partial(found, asked=Finding(QUICKEST)),
    "found-recompute": partial(found, asked=Finding(Forms(recompute=True))),
    IN_A_THIRD: partial(found, asked=Finding(limit=lambda costs: costs.full.memory_bytes // 3)),
    IN_HALF_THE_TIME: partial(
        found, asked=Finding(QUICKEST, limit=lambda costs: costs.full.memory_bytes, step_share=HALF)
    ),
    "found-elsewhere": elsewhere,
    "found-adapters": partial(found, asked=Finding(adapters=True)),
    "found-as-published": found_as_published,
    "evolution": evolution,
    **CRITERIA,
}
"""What looks at samples of the task, and changes where the search does."""

METHODS: dict[str, Method] = {
    **USUAL,
    LAST_RECOMPUTED: partial(last, recompute=True),
    "published": published,
    **SEARCHED,
}
"""All but `full` and `random`, with which they are compared."""

AT_PUBLISHED = ("published", "found-as-published")
"""Compared with each other at the memory that the published scheme takes, not at a share."""

AT_OWN = (*AT_PUBLISHED, IN_A_THIRD, IN_HALF_THE_TIME)
"""What has a limit of its own."""

RANDOM = "random"
RATED = 3
"""Random schemes whose learning rates are tried; the others take the middle one of theirs."""


def random_name(number: int) -> str:
    """Of a random scheme."""
    return f"{RANDOM}-{number}"


def method_of(name: str) -> Method:
    """By the name that a scheme has in results."""
    if name == "full":
        return full
    kind, _, number = name.partition("-")
    return partial(random, number=int(number)) if kind == RANDOM else METHODS[name]


def rated_as(name: str) -> tuple[str, ...]:
    """The methods whose learning rates a method takes the middle one of; it alone tries its own."""
    kind, _, number = name.partition("-")
    if kind == RANDOM and int(number) >= RATED:
        return tuple(map(random_name, range(RATED)))
    return (name,)
