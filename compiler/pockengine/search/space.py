"""What a search may choose: of each parameter of a model, how much of it is trained, or an adapter beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from glob import escape
from math import prod

from ..autodiff.lora import adapters_of
from ..errors import RecipeError
from ..ir import Array, Graph, Value
from ..recipe import ALL, FROZEN, Channels, LayerRank, Lora, Recipe, Scheme, adapter_names, resolve
from ..recipe.resolution.channels import channel_axis
from ..recipe.resolution.scheme import most_important

SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""The shares of a weight's input channels that are tried, as published for tiny devices (arXiv 2206.15472)."""

Choice = tuple[int, ...]
"""For each unit of a space, the index of what is chosen among its options; 0 is frozen."""

Importance = Mapping[str, Array]
"""Weight -> how important each of its input channels is: f64 [channels]. What is not in it goes by magnitude."""

_BY_MAGNITUDE: Importance = {}


@dataclass(frozen=True)
class Unit:
    """One parameter.

    axis     of its input channels; None for one that is trained whole or not at all
    shares   the first options, ascending: 0 for frozen, 1 for all of it, between them shares of the channels
    ranks    the other options, ascending: of low-rank adapters that are trained beside it, while it stays as it is
    adapter  numbers that an adapter of rank 1 has"""

    name: str
    shape: tuple[int, ...]
    axis: int | None
    shares: tuple[float, ...]
    ranks: tuple[int, ...] = ()
    adapter: int = 0

    @property
    def options(self) -> int:
        """How many there are."""
        return len(self.shares) + len(self.ranks)

    def share(self, index: int) -> float:
        """What an option trains of the parameter itself."""
        return self.shares[index] if index < len(self.shares) else 0.0

    def rank(self, index: int) -> int:
        """Of the adapter that an option trains; 0 for none."""
        return self.ranks[index - len(self.shares)] if index >= len(self.shares) else 0

    def trained(self, index: int) -> tuple[str, ...]:
        """Names of the parameters that an option trains."""
        return adapter_names(self.name) if self.rank(index) else (self.name,) if index else ()

    def numbers(self, index: int) -> int:
        """How many an option trains."""
        if rank := self.rank(index):
            return rank * self.adapter
        size = prod(self.shape)
        if self.axis is not None and 0 < self.share(index) < 1:
            return size // self.shape[self.axis] * self.channels(index)
        return size if index else 0

    @property
    def is_weight(self) -> bool:
        """Whether it has two axes or more; biases and the scales of norms have one."""
        return len(self.shape) >= 2

    @property
    def module(self) -> str:
        """The module that it belongs to: `encoder.fc` for `encoder.fc.weight`."""
        return self.name.rpartition(".")[0] or self.name

    def channels(self, index: int) -> int:
        """How many channels the share at `index` trains, as the recipe counts them."""
        assert self.axis is not None
        return max(1, round(self.shares[index] * self.shape[self.axis])) if index else 0


@dataclass(frozen=True, eq=False)
class Space:
    """Every scheme that a search may find for one model.

    graph  the imported model
    base   the recipe whose loss, optimizer and batch every scheme has; its `update` and `memory` are not read
    units  the parameters that can be trained, in model order"""

    graph: Graph
    base: Recipe
    units: tuple[Unit, ...]

    @classmethod
    def of(cls, graph: Graph, base: Recipe, ranks: Sequence[int] = ()) -> Space:
        """All that training everything would train. ranks: of adapters that may be trained beside weights, where they
        are smaller than the weight: those that `lora` of the base recipe names, or without it all that can have one.
        Raises RecipeError."""
        base = base.with_(memory=None)
        trained = resolve(base.with_(update="full", lora=None), graph).trained()
        values = {value.name: value for value in graph.params}
        sizes = _adapter_sizes(graph, base) if ranks else {}
        units = (_unit(graph, values[name]) for name in trained)
        return cls(graph, base, tuple(_with_ranks(unit, ranks, sizes.get(unit.name, 0)) for unit in units))

    @cached_property
    def index(self) -> dict[str, int]:
        """Name of a parameter -> its place among the units."""
        return {unit.name: place for place, unit in enumerate(self.units)}

    @property
    def frozen(self) -> Choice:
        """Nothing is trained."""
        return (0,) * len(self.units)

    @property
    def full(self) -> Choice:
        """Everything is trained."""
        return tuple(len(unit.shares) - 1 for unit in self.units)

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Of the adapters that may be chosen, ascending."""
        return tuple(sorted({rank for unit in self.units for rank in unit.ranks}))

    def choice_of(self, scheme: Scheme) -> Choice:
        """The choice nearest above what a scheme trains: its channels are rounded up to a share of the space."""
        return tuple(_nearest(unit, scheme) for unit in self.units)

    def choice_in(self, recipe: Recipe) -> Choice | None:
        """The choice that trains what a recipe trains; None where the space has none such. Raises RecipeError."""
        scheme = resolve(recipe.with_(lora=None), self.graph) if recipe.update else Scheme({})
        adapted = adapters_of(self.graph, recipe.lora) if recipe.lora else ()
        ranks = {one.weight.name: one.a.shape[0] for one in adapted}
        found = [_same(unit, scheme, ranks.pop(unit.name, 0)) for unit in self.units]
        return None if ranks or None in found else tuple(place for place in found if place is not None)

    def recipe(self, choice: Sequence[int], importance: Importance = _BY_MAGNITUDE) -> Recipe:
        """The base recipe that trains what was chosen, one rule a parameter; of the weights in `importance` those
        channels that it says are most important, named one by one. Raises RecipeError if that is nothing."""
        rules = [
            {"params": unit.name, **_channels(unit, index, importance.get(unit.name))}
            for unit, index in zip(self.units, choice, strict=True)
            if unit.share(index)
        ]
        return self.base.with_(update=rules, lora=self._lora(choice))

    def _lora(self, choice: Sequence[int]) -> Lora | None:
        """The adapters that were chosen; the commonest rank is everyone's."""
        ranks = {unit.name: rank for unit, index in zip(self.units, choice, strict=True) if (rank := unit.rank(index))}
        if not ranks:
            return None
        usual = Counter(ranks.values()).most_common(1)[0][0]
        others = tuple(LayerRank(escape(name), rank) for name, rank in ranks.items() if rank != usual)
        return replace(self.base.lora or Lora(()), params=tuple(map(escape, ranks)), rank=usual, ranks=others)


def _channels(unit: Unit, index: int, importance: Array | None) -> dict[str, int | tuple[int, ...]]:
    if unit.shares[index] == 1.0:
        return {}
    count = unit.channels(index)
    return {"channels": count if importance is None else most_important(importance, count)}


def _unit(graph: Graph, value: Value) -> Unit:
    try:
        axis = channel_axis(graph, value)
    except RecipeError:
        return Unit(value.name, value.type.shape, None, (0.0, 1.0))
    counts = {max(1, round(share * value.type.shape[axis])): share for share in SHARES}
    return Unit(value.name, value.type.shape, axis, (0.0, *sorted(counts.values())))


def _adapter_sizes(graph: Graph, base: Recipe) -> dict[str, int]:
    """Weight -> numbers of an adapter of rank 1. Raises RecipeError where none can have an adapter."""
    lora = replace(base.lora or Lora(("*",)), rank=1, ranks=())
    return {one.weight.name: one.a.size + one.b.size for one in adapters_of(graph, lora)}


def _with_ranks(unit: Unit, ranks: Sequence[int], adapter: int) -> Unit:
    smaller = tuple(rank for rank in sorted(set(ranks)) if 0 < rank * adapter < prod(unit.shape))
    return replace(unit, ranks=smaller, adapter=adapter if smaller else 0)


def _nearest(unit: Unit, scheme: Scheme) -> int:
    update = scheme.of(unit.name)
    if isinstance(update, Channels):
        return next(i for i in range(1, len(unit.shares)) if unit.channels(i) >= len(update.indices))
    return {ALL: len(unit.shares) - 1, FROZEN: 0}[update]


def _same(unit: Unit, scheme: Scheme, rank: int) -> int | None:
    """The option that trains exactly this of a unit, with an adapter of a rank or (0) without one."""
    place = _nearest(unit, scheme)
    if rank:
        return len(unit.shares) + unit.ranks.index(rank) if place == 0 and rank in unit.ranks else None
    update = scheme.of(unit.name)
    return None if isinstance(update, Channels) and len(update.indices) != unit.channels(place) else place


def with_option(choice: Choice, unit: int, option: int) -> Choice:
    """The same with another option of one unit."""
    return (*choice[:unit], option, *choice[unit + 1 :])


def alone(unit: int, units: int) -> Choice:
    """One of so many units at the first option that trains, nothing else."""
    return with_option((0,) * units, unit, 1)
