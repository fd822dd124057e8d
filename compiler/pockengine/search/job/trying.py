"""Which of several schemes is best when each is trained for some steps, at the learning rates that suit it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...errors import PockError
from ...recipe import Recipe
from ..contributions import Work
from ..contributions.work import Clock, Data
from ..rates import Rates, find_rates
from ..space import Choice, Importance, Space
from ..writing import few_rules


@dataclass(frozen=True)
class Tried:
    """A scheme's learning rates, with the loss that they come to, and its recipe with them."""

    rates: Rates
    recipe: Recipe


def try_schemes(
    space: Space, schemes: Mapping[str, Choice], importance: Importance, data: Data, steps: int, work: Work
) -> dict[str, Tried]:
    """Each scheme's learning rates, as `find_rates` looks for them, in an equal part of the time: all are judged by the
    same samples kept back. Equal schemes are tried once. A scheme after the first that trains at no rate, or for which
    there is no time, is left out. Raises what `find_rates` does for the first."""
    clock = Clock(work.seconds)
    known: dict[Choice, Tried] = {}
    found: dict[str, Tried] = {}
    for done, (name, choice) in enumerate(schemes.items()):
        work.progress("try", done, len(schemes))
        if choice not in known:
            seconds = None if clock.left is None else clock.left / (len(schemes) - done)
            recipe = few_rules(space, choice, importance)
            try:
                rates, recipe = find_rates(space, choice, recipe, data, steps, replace(work, seconds=seconds))
            except PockError:
                if not known:
                    raise
                continue
            known[choice] = Tried(rates, recipe)
        found[name] = known[choice]
    work.progress("try", len(schemes), len(schemes))
    return found


def best_of(tried: Mapping[str, Tried]) -> str:
    """The name of the scheme with the least loss of the samples kept back; of equals the first."""
    return min(tried, key=lambda name: tried[name].rates.loss)
