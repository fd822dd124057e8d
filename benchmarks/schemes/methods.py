"""Ways to choose what is trained: a method is a function of a setting that gives a recipe. A new one is an entry of
`METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np

from benchmarks.tasks.models import BATCH
from pockengine import Recipe
from pockengine.errors import MemoryBudgetError
from pockengine.recipe.groups import Group
from pockengine.search import Choice, Space
from pockengine.search.job.blocks import first_weights, most_weights

from .published import PUBLISHED
from .searching import QUICKEST, Forms, Picked
from .setting import Proposal, Setting
from .store import Result

Method = Callable[[Setting], Proposal | None]
"""None where nothing of its kind keeps to the memory."""


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


def blocks(setting: Setting, growing: Callable[[Space], list[Choice]], recompute: bool = False) -> Proposal | None:
    """Weights and biases of as many of the last blocks as fit, in a published form; None where there are no blocks."""
    choices = growing(setting.space)
    return _most(setting, [partial(setting.space.recipe, choice) for choice in choices], recompute)


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


def found(
    setting: Setting,
    way: str = "default",
    step_share: float | None = None,
    adapters: bool = False,
    forms: Forms = QUICKEST,
    limit: int | None = None,
) -> Proposal | None:
    """What the project's search chooses from the task's own samples."""
    searching = setting.searching.with_adapters if adapters else setting.searching
    contributions = searching.contributions(setting.task, way)
    about = {"finding_seconds": contributions.seconds}
    return _fitting(
        setting,
        lambda limit: searching.pick(contributions, limit, step_share, forms),
        about,
        limit=limit,
        space=searching.space,
        recompute=forms.recompute,
    )


def found_in_a_third(setting: Setting) -> Proposal | None:
    """What the project's search chooses in a third of what full takes, as `pock search` does it."""
    return found(setting, forms=ALL_FORMS, limit=setting.costs.full.memory_bytes // 3)


def elsewhere(setting: Setting, way: str = "default") -> Proposal | None:
    """What the project's search chooses from the samples of half of the model's tasks, of which this is none."""
    if len(setting.model.tasks) < 2:
        return None
    contributions = setting.searching.averaged(setting.task, way)
    return _fitting(setting, lambda limit: setting.searching.pick(contributions, limit))


def evolution(setting: Setting, way: str = "default") -> Proposal | None:
    """What the published search chooses from the same contributions as `found`."""
    contributions = setting.searching.contributions(setting.task, way)
    return _fitting(setting, lambda limit: setting.searching.evolved(contributions, limit))


def found_as_published(setting: Setting) -> Proposal | None:
    """As `found`, in the memory that the published scheme takes."""
    if (rules := PUBLISHED.get(setting.model.name)) is None:
        return None
    limit = setting.costs.of(setting.model.recipe(rules)).memory_bytes
    contributions = setting.searching.contributions(setting.task, "default")
    return _fitting(setting, lambda limit: setting.searching.pick(contributions, limit), limit=limit)


IN_A_THIRD = "found-third"
"""What `pock search` does within a third of the memory that full takes."""
TWICE, ALL_FORMS = Forms(recompute=True), Forms(recompute=True, micro_batches=True)

_ATTEMPTS = 3
"""Choices, each within less memory, until one fits with its own channels."""
_LESS = 0.05
"""The part of the memory that the next choice goes without, where this one does not fit whatever is computed twice."""


def _fitting(
    setting: Setting,
    pick: Callable[[int], Picked | None],
    about: Result | None = None,
    limit: int | None = None,
    space: Space | None = None,
    recompute: bool = False,
) -> Proposal | None:
    """What is picked from a space, as a recipe that keeps to the memory: where its channels are named, it may take a
    little more than one that takes the largest."""
    allowed = room = setting.limit if limit is None else limit
    for _ in range(_ATTEMPTS):
        if (picked := pick(room)) is None:
            return None
        recipe = _careful((space or setting.space).recipe(picked.choice, picked.importance))
        if picked.micro_batches > 1:
            recipe = in_micro_batches(recipe, picked.micro_batches)
        if recompute and not setting.fits(recipe, allowed):
            recipe = setting.recomputing(recipe, allowed)
        try:
            over = setting.costs.of(recipe).memory_bytes - allowed
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


HALF = 0.5
"""The share of full's step time that `found-quick` may take."""

USUAL: dict[str, Method] = {"head": head, "bias": bias, "last": last, "lora": lora}
"""What a person would write."""

BLOCKS: dict[str, Method] = {
    "first": partial(blocks, growing=first_weights),
    "most": partial(blocks, growing=most_weights),
}
"""The published forms, as the search compares them on any network."""

FOUND: dict[str, Method] = {
    "found": found,
    "found-quick": partial(found, step_share=HALF),
    "found-elsewhere": elsewhere,
    "found-adapters": partial(found, adapters=True),
}
"""The project's search; in half of full's step time; from half of the tasks for the other half; with adapters."""

CRITERIA: dict[str, Method] = {
    f"found-{way}": partial(found, way=way)
    for way in ("activations", "signal", "channels", "ratio", "root", "even", "earlier", "measured", "measured-loss")
}
"""The same choice from contributions that are found in other ways."""

TRIED = "found-tried"
"""What is best of `CANDIDATES` when each is trained without a part of the samples, and judged by it."""

CANDIDATES = ("found", "found-earlier", "evolution", *USUAL, *BLOCKS)

RECOMPUTED: dict[str, Method] = {
    "last-recompute": partial(last, recompute=True),
    "first-recompute": partial(blocks, growing=first_weights, recompute=True),
    "most-recompute": partial(blocks, growing=most_weights, recompute=True),
}
"""The strongest of what a person would write and the published forms: as many as fit where forward nodes are computed
twice."""

FOUND_RECOMPUTED: dict[str, Method] = {
    "found-recompute": partial(found, forms=TWICE),
    "found-earlier-recompute": partial(found, way="earlier", forms=TWICE),
}
"""The project's search, where nodes may be computed twice to fit."""

SPLIT = "found-split"
"""The same where steps may also take their samples in micro-batches: what `pock search` does within a memory."""

TRIED_RECOMPUTED = "found-tried-recompute"
"""What is best of `CANDIDATES` and of those that compute nodes twice."""

TRIES: dict[str, tuple[str, ...]] = {
    TRIED: CANDIDATES,
    TRIED_RECOMPUTED: (*CANDIDATES, *FOUND_RECOMPUTED, *RECOMPUTED),
}
"""What is tried, and what of."""

SEARCHED: dict[str, Method] = {
    **FOUND,
    **CRITERIA,
    **FOUND_RECOMPUTED,
    SPLIT: partial(found, forms=ALL_FORMS),
    IN_A_THIRD: found_in_a_third,
    "evolution": evolution,
    "found-as-published": found_as_published,
}
"""What looks at samples of the task, and changes where the search does."""

METHODS: dict[str, Method] = {**USUAL, **BLOCKS, **RECOMPUTED, "published": published, **SEARCHED}
"""All but `full` and `random`, with which they are compared, and what is tried, which is one of them."""

TRIED_AS_PUBLISHED = "found-tried-as-published"
"""The same in the memory that the published scheme takes."""

AT_PUBLISHED = ("published", "found-as-published", TRIED_AS_PUBLISHED)
"""Compared with each other at the memory that the published scheme takes, not at a share."""

AT_OWN = (*AT_PUBLISHED, IN_A_THIRD)
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
