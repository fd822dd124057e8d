"""The schemes that a person would write, for comparison with the one that was found."""

from __future__ import annotations

import math

from ...errors import RecipeError
from ...recipe import resolve
from ..choosing import Chooser, Limits
from ..space import Choice, Space

USUAL = ("full", "head", "bias")
"""Shorthands of recipes."""


def schemes_of(space: Space, chooser: Chooser, limits: Limits) -> dict[str, Choice]:
    """Name -> choice: everything, the head, the biases, and as many of the last parameters as fit (`last13`)."""
    found: dict[str, Choice] = {}
    for name in USUAL:
        try:
            choice = space.choice_of(resolve(space.base.with_(update=name, lora=None), space.graph))
        except RecipeError:
            continue  # a model without biases
        if any(choice):
            found[name] = choice
    count = _most_last(space, chooser, limits)
    if 0 < count < len(space.units):
        found[f"last{count}"] = last(space, count)
    return found


def last(space: Space, count: int) -> Choice:
    """The last parameters, whole."""
    frozen = len(space.units) - count
    return tuple(0 if place < frozen else option for place, option in enumerate(space.full))


def _most_last(space: Space, chooser: Chooser, limits: Limits) -> int:
    """How many of the last parameters fit: by estimates, then as planned."""
    low, high = 0, len(space.units)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if limits.keeps(chooser.costs.of(last(space, middle))) else (low, middle - 1)
    while low and not limits.keeps(chooser.planned.of(last(space, low))):
        low -= 1
    return low


def trained_numbers(space: Space, choice: Choice) -> int:
    """How many numbers a scheme trains."""
    total = 0
    for unit, option in zip(space.units, choice, strict=True):
        size = math.prod(unit.shape)
        if option and unit.axis is not None and unit.shares[option] < 1:
            size = size // unit.shape[unit.axis] * unit.channels(option)
        total += size if option else 0
    return total
