"""The memory beside the arena that a choice decides: optimizer state, parameters not left in the file, inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...compile import Request
from ...compile.graphs import build_graphs
from ...compile.resolved import resolve
from ...plan import aligned
from ...recipe import adapter_names, is_adapter
from ..space import Choice, Space
from .observed import Observed, Sizes
from .segments import Floats, Ints


@dataclass(frozen=True, eq=False)
class Blocks:
    """Bytes of parameters, optimizer state and inputs: KINDS.

    units  [kinds, units, options]: what each option takes
    rest   [kinds]: what no unit decides"""

    units: Floats
    rest: Floats

    @classmethod
    def learn(cls, space: Space, options: Floats, observed: Sequence[tuple[Choice, Observed]]) -> Blocks:
        """Of what each option has of its own (see `option_bytes`), and of observed schemes: what parameters and inputs
        took while a unit was trained, and while it was frozen."""
        seen = [[one.params, one.states, one.inputs] for _, one in observed]
        choices: Ints = np.array([choice for choice, _ in observed], np.int64)
        units = options.copy()
        for kind, name in enumerate(KINDS):
            if name != "states":
                units[kind] += _others(space, options.shape[2], choices, [sizes[kind] for sizes in seen])
        totals = np.array([[sum(one.values()) for one in sizes] for sizes in seen])
        rests = totals - np.stack([_summed(units, choice) for choice in choices])
        return cls(units, np.median(rests, axis=0))

    def of(self, choice: Sequence[int]) -> Floats:
        """[kinds]: bytes of parameters, optimizer state and inputs."""
        return self.rest + _summed(self.units, choice)


KINDS = ("params", "states", "inputs")
"""The blocks that a choice decides beside the arena, in the order of figures."""


def _summed(units: Floats, choice: Sequence[int] | Ints) -> Floats:
    found: Floats = units[:, np.arange(len(choice)), np.asarray(choice, np.int64)].sum(axis=1)
    return found


def option_bytes(space: Space, request: Callable[[Choice], Request], alignment: int) -> Floats:
    """[kinds, units, options]: aligned bytes of each unit's optimizer state and adapter, from the graphs that train an
    option of all."""
    width = max(unit.options for unit in space.units)
    table = np.zeros((len(KINDS), len(space.units), width))
    for option in range(1, width):
        choice = tuple(min(option, unit.options - 1) for unit in space.units)
        graph = build_graphs(resolve(request(choice))).programs["train"]
        adapters = [value for value in graph.params if is_adapter(value.name)]
        for kind, own in (("params", adapters), ("states", graph.states)):
            sizes = {value.name: aligned(value.type.nbytes, alignment) for value in own}
            for name, unit in _units_of(space, sizes).items():
                if choice[unit] == option:
                    table[KINDS.index(kind), unit, option] += sizes[name]
    return table


def _others(space: Space, width: int, choices: Ints, sizes: Sequence[Sizes]) -> Floats:
    """[units, options]: bytes of each unit itself in a block of observed schemes."""
    whole = np.array(space.full)
    table = np.zeros((len(space.units), width))
    for name, unit in _units_of(space, {name: 0 for one in sizes for name in one if not is_adapter(name)}).items():
        taken = np.array([one.get(name, 0) for one in sizes], np.float64)
        trained = (choices[:, unit] > 0) & (choices[:, unit] <= whole[unit])
        parts = [taken[part].mean() if part.any() else taken.mean() for part in (~trained, trained)]
        table[unit] += parts[0]
        table[unit, 1 : whole[unit] + 1] += parts[1] - parts[0]
    return table


def _units_of(space: Space, names: Mapping[str, int]) -> dict[str, int]:
    """Name -> the unit that it belongs to: the unit's own or its adapter's, or one that begins with these
    (`fc.weight.momentum`)."""
    adapted = {name: place for place, unit in enumerate(space.units) if unit.ranks for name in adapter_names(unit.name)}
    index, found = {**adapted, **space.index}, dict[str, int]()
    for name in names:
        begin = name
        while begin and begin not in index:
            begin = begin.rpartition(".")[0]
        if begin:
            found[name] = index[begin]
    return found
