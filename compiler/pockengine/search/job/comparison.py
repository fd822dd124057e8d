"""The schemes that a person would write, for comparison with the one that was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import RecipeError
from ...recipe import resolve
from ..choosing import Chooser, Limits
from ..contributions.trainer import head_start
from ..space import Choice, Space, with_option
from .blocks import first_weights, most_weights

USUAL = ("full", "head", "bias")
"""Shorthands of recipes."""


def schemes_of(space: Space, chooser: Chooser, limits: Limits) -> dict[str, Choice]:
    """Name -> choice: everything, the head, the biases, as many of the last parameters as fit (`last13`), the head and
    biases with the first weight, or all but the last, of as many of the last blocks as fit (`first5`, `most3`), and the
    head with adapters of a rank beside as many of the last weights as fit (`lora4`)."""
    found: dict[str, Choice] = {}
    for name in USUAL:
        try:
            choice = space.choice_of(resolve(space.base.with_(update=name, lora=None), space.graph))
        except RecipeError:
            continue  # a model without biases
        if any(choice):
            found[name] = choice
    growing = {
        "last": [last(space, count) for count in range(1, len(space.units))],
        "first": first_weights(space),
        "most": most_weights(space),
    }
    for name, choices in growing.items():
        if count := _most(choices, chooser, limits):
            found[f"{name}{count}"] = choices[count - 1]
    for rank in space.ranks:
        adapted = adapted_last(space, rank)
        if count := _most(adapted, chooser, limits):
            found[f"lora{rank}"] = adapted[count - 1]
    return found


def last(space: Space, count: int) -> Choice:
    """The last parameters, whole."""
    frozen = len(space.units) - count
    return tuple(0 if place < frozen else option for place, option in enumerate(space.full))


def adapted_last(space: Space, rank: int) -> list[Choice]:
    """The head whole, and adapters of a rank beside the last weights before it that can have them, ever more."""
    start = head_start(space)
    choice = tuple(option if place >= start else 0 for place, option in enumerate(space.full))
    found = []
    for place in reversed(range(start)):
        if rank in (ranks := space.units[place].ranks):
            option = len(space.units[place].shares) + ranks.index(rank)
            choice = with_option(choice, place, option)
            found.append(choice)
    return found


def _most(choices: Sequence[Choice], chooser: Chooser, limits: Limits) -> int:
    """How many of choices that take ever more fit: by estimates, then as planned; where a step can be made to take
    less, by plans."""
    most = _last(len(choices), lambda count: limits.keeps(chooser.costs.of(choices[count - 1])))

    def fits(count: int) -> bool:
        return chooser.has_form(choices[count - 1], limits)

    if chooser.spares:
        most = _last(len(choices), fits, least=most)
    while most and not fits(most):
        most -= 1
    return most


def _last(most: int, holds: Callable[[int], bool], least: int = 0) -> int:
    """The largest number up to `most` for which something holds that holds for all below it; it does for `least`."""
    low, high = least, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def trained_numbers(space: Space, choice: Choice) -> int:
    """How many numbers a scheme trains."""
    return sum(unit.numbers(option) for unit, option in zip(space.units, choice, strict=True))
