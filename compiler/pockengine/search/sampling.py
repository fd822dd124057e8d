"""Random schemes that cover a space: every depth, biases with and without weights, few and many, one share or all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .space import Choice, Space, Unit

SPIKE = 0.25
"""How often none of the units of a kind are trained, and how often all: schemes that people write have such rates."""


def random_choices(space: Space, seed: int = 0) -> Iterator[Choice]:
    """Endless random choices that train something, of any depth; the same seed gives the same ones."""
    chance = np.random.default_rng(seed)
    count = len(modules_of(space))
    while True:
        yield random_choice(space, chance, int(chance.integers(1, count + 1)))


def random_choice(space: Space, chance: np.random.Generator, depth: int) -> Choice:
    """A random choice that trains something among the units of the last `depth` modules.

    Of weights, and of all else, a random part is trained; of their channels a share that is one for the whole scheme,
    or one for each weight. Where there may be adapters, a random part of the weights has one instead."""
    late = set(modules_of(space)[-depth:])
    while True:
        rates = [_rate(chance), _rate(chance)]
        share = None if chance.random() < 0.5 else float(chance.random())
        adapted = _rate(chance) if space.ranks else 0.0
        choice = tuple(
            _index(unit, unit.module in late, rates[unit.is_weight], share, adapted, chance) for unit in space.units
        )
        if any(choice):
            return choice


def modules_of(space: Space) -> tuple[str, ...]:
    """The modules that hold units, in model order."""
    return tuple(dict.fromkeys(unit.module for unit in space.units))


def _rate(chance: np.random.Generator) -> float:
    rate, spike = chance.random(2)
    return 0.0 if spike < SPIKE else 1.0 if spike > 1 - SPIKE else float(rate)


def _index(
    unit: Unit, late: bool, rate: float, share: float | None, adapted: float, chance: np.random.Generator
) -> int:
    trained, own = chance.random(2)
    if not late or trained >= rate:
        return 0
    place = own if share is None else share
    if unit.ranks and chance.random() < adapted:
        return len(unit.shares) + int(place * len(unit.ranks))
    return 1 + int(place * (len(unit.shares) - 1))
