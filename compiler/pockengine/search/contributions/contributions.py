"""What training each unit of a space brings, at each of its options: one form, however it was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import PockError, RecipeError
from ...ir import Array
from ...recipe import resolve
from ...recipe.resolution.scheme import magnitudes, most_important
from ..space import Importance, Space
from .ranks import rank_correlation

Gains = tuple[tuple[float, ...], ...]
"""For each unit of a space, what each of its options brings; 0 for the first, frozen."""


@dataclass(frozen=True, eq=False)
class Contributions:
    """Gains are assumed to add: what a scheme brings is the sum of what its units bring. Those of one method are
    comparable with each other and not with another's: the measured ones are of accuracy, the others only order units.

    space       what the gains are of
    gains       for each unit, what each of its options brings
    method      how they were found: `measured`, `fisher` or `gradient_ratio`
    seconds     what that took
    provenance  how exactly, as plain values that JSON can hold
    importance  of input channels, by which the channels of a share are chosen; a weight that is not in it has them
                chosen by magnitude"""

    space: Space
    gains: Gains
    method: str
    seconds: float
    provenance: Mapping[str, Any] = field(default_factory=dict)
    importance: Importance = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert [len(row) for row in self.gains] == [unit.options for unit in self.space.units]

    def gain(self, unit: int, option: int) -> float:
        """What an option of a unit brings."""
        return self.gains[unit][option]

    def total(self, choice: Sequence[int]) -> float:
        """What a scheme brings, if gains add."""
        return sum(row[index] for row, index in zip(self.gains, choice, strict=True))

    @cached_property
    def flat(self) -> Array:
        """The gains of everything but frozen, unit by unit: f64 [options]."""
        return np.array([gain for row in self.gains for gain in row[1:]])

    @cached_property
    def whole(self) -> Array:
        """The gain of each unit trained whole: f64 [units]."""
        return np.array([row[index] for row, index in zip(self.gains, self.space.full, strict=True)])

    @cached_property
    def weighed(self) -> Gains:
        """What a search adds up: the head counts as no more than all others together. A head that begins anew has
        gradients beside which nothing else would be told apart."""
        head = _head(self.space)
        most = [max(0.0, *row) for row in self.gains]
        within = sum(gain for gain, inside in zip(most, head, strict=True) if inside)
        others = sum(most) - within
        factor = others / within if within > others > 0 else 1.0
        return tuple(
            tuple(factor * gain for gain in row) if inside else row
            for row, inside in zip(self.gains, head, strict=True)
        )

    def agreement(self, other: Contributions) -> float:
        """The rank correlation of the gains of two methods over all units and options of the same space."""
        return rank_correlation(self.flat, other.flat)


def _head(space: Space) -> list[bool]:
    """Of each unit, whether it belongs to the head."""
    try:
        names = set(resolve(space.base.with_(update="head", lora=None), space.graph).trained())
    except RecipeError:  # nothing of it can be trained
        names = set()
    return [unit.name in names for unit in space.units]


def gains_of(
    space: Space, values: Mapping[str, Array], importance: Importance, held: Mapping[str, Sequence[float]]
) -> Gains:
    """Gains from values that add over input channels: f64 [channels] of a unit that has channels, else f64 [1]. A share
    brings what the channels bring that it trains: the most important ones, or those of the largest magnitude. An
    adapter brings the part in `held` of what the whole unit does: unit -> of each of its ranks."""
    rows = []
    for unit in space.units:
        value, row = values[unit.name], [0.0]
        if unit.axis is not None:
            order = importance[unit.name] if unit.name in importance else magnitude(space, unit.name, unit.axis)
        for index in range(1, len(unit.shares)):
            chosen = slice(None) if unit.shares[index] == 1.0 else list(most_important(order, unit.channels(index)))
            row.append(float(np.sum(value[chosen])))
        row += [part * row[-1] for part in held.get(unit.name, ())]
        rows.append(tuple(row))
    return tuple(rows)


def check_without_adapters(space: Space) -> None:
    """Raises PockError where adapters may be chosen: not every way tells what they bring."""
    if space.ranks:
        raise PockError("what adapters bring is known by Fisher information only: make the space without ranks")


def magnitude(space: Space, name: str, axis: int) -> Array:
    """The squared L2 norm of each input channel's slice: what a recipe chooses channels by. f64 [channels]."""
    return magnitudes(space.graph.data[name], axis)
