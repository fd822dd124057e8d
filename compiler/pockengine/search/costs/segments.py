"""A model cut into segments, each a contraction with what follows it, and what of a choice each of them sees.

A scheme changes a training step mostly where it trains: what a layer keeps for its backward part depends on what is
trained in it and beside it, and on whether a gradient passes through it. So costs are told for each segment from its
surroundings, and added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from operator import or_

import numpy as np
import numpy.typing as npt

from ...ir import Graph, Node, Value
from ...ops import is_kind, is_view
from ..space import Space

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

WHOLE = ("attention",)
"""Operators that count as contractions."""

OFFSET = 0.05
"""What a difference in a bias, or in another offset, counts against one in all else."""


@dataclass(frozen=True, eq=False)
class Segments:
    """The segments of a model, in model order.

    nodes    of each segment
    of       origin of a node, or name of a parameter -> its segment
    units    places of the units that each segment is the first to compute with
    scales   places of the units by which something is multiplied, element by element
    before   [segments, units]: whether a unit lies on a path to what the segment reads of others
    beside   of each segment, those that it reads and those that read it
    kinds    segments with equal numbers have equal shapes, and so do those beside them
    classes  segments with equal numbers compute alike, in whatever shapes, and so do those beside them
    reads    [segments]: bytes that each reads of others
    makes    [segments]: bytes of the largest result in it
    holds    [segments]: bytes of its units"""

    space: Space
    nodes: tuple[tuple[Node, ...], ...]
    of: dict[str, int]
    units: tuple[tuple[int, ...], ...]
    scales: frozenset[int]
    before: Bools
    beside: tuple[tuple[int, ...], ...]
    kinds: tuple[int, ...]
    classes: tuple[int, ...]
    reads: Floats
    makes: Floats
    holds: Floats

    @classmethod
    def cut(cls, space: Space, graph: Graph) -> Segments:
        """A contraction or an attention starts a segment, where it needs those of the segment before: what could run in
        any order is in one. `graph` is the space's model as it is differentiated."""
        owner = _owners(graph)
        count = max(owner.values(), default=0) + 1
        nodes = tuple(tuple(node for node in graph.nodes if owner[node] == number) for number in range(count))
        of = _named(graph, owner)
        units = tuple(
            tuple(place for place, unit in enumerate(space.units) if of.get(unit.name, 0) == number)
            for number in range(count)
        )
        beside = _beside(graph, owner, count)
        shapes, forms = _looks(space, nodes, units)
        return cls(
            space,
            nodes,
            of,
            units,
            frozenset(space.index[name] for name in _scales(graph) if name in space.index),
            _before(space, graph, owner, count),
            beside,
            _with_beside(shapes, beside),
            _with_beside(forms, beside),
            _read_bytes(graph, owner, count),
            np.array([max(value.type.nbytes for node in own for value in node.outputs) for own in nodes], np.float64),
            np.array([sum(4.0 * math.prod(space.units[unit].shape) for unit in own) for own in units]),
        )

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def _options(self) -> Floats:
        """[2, units, options]: the share that each option trains, and its adapter's rank, of the unit's highest."""
        units = self.space.units
        table = np.zeros((2, len(units), max(unit.options for unit in units)))
        for place, unit in enumerate(units):
            for option in range(unit.options):
                table[:, place, option] = unit.share(option), unit.rank(option) / max(unit.ranks, default=1)
        return table

    @cached_property
    def _layout(self) -> tuple[Ints, Floats]:
        """[segments, features] places in what `features` knows, and what a difference there counts; 0 fills up rows."""
        rows = [[asked for part in self._asked(number) for asked in part] for number in range(len(self))]
        width = max(map(len, rows))
        full = [[*row, *[(0, 0.0)] * (width - len(row))] for row in rows]
        table = np.array(full, np.float64).reshape(len(self), width, 2)
        return table[..., 0].astype(np.int64), table[..., 1]

    @cached_property
    def parts(self) -> tuple[tuple[slice, ...], ...]:
        """Where in a segment's features those are that tell of itself, and of each beside it: as for all of its
        class."""
        found = []
        for number in range(len(self)):
            ends = np.cumsum([0, *map(len, self._asked(number))])
            found.append(tuple(slice(int(begin), int(end)) for begin, end in pairwise(ends)))
        return tuple(found)

    def _asked(self, number: int) -> list[list[tuple[int, float]]]:
        """What each part of a segment's features asks: places in what `features` knows, and what a difference counts.

        Each part asks of gradients here and there, and of what is trained there: the share, whether there is one, and
        whether it is all, since then nothing is selected; the rank of an adapter, and whether there is one."""
        units, count = self.space.units, len(self)
        asked = []
        for segment in (number, *self.beside[number]):
            part = [(place, 1.0) for place in (number, count + number, segment, count + segment)]
            for unit in self.units[segment]:
                places = [2 * count + step * len(units) + unit for step in range(3)]
                if len(units[unit].shares) > 2:
                    part += [(place, 1.0) for place in places]
                else:
                    offset = not units[unit].is_weight and unit not in self.scales
                    part.append((places[0], OFFSET if offset else 1.0))
                if units[unit].ranks:
                    part += [(2 * count + step * len(units) + unit, 1.0) for step in (3, 4)]
            asked.append(part)
        return asked

    def parts_of(self, choice: Sequence[int]) -> Floats:
        """[2, units]: the share of each that a choice trains, and the rank of its adapter, of the unit's highest."""
        found: Floats = self._options[:, np.arange(len(choice)), np.asarray(choice)]
        return found

    def passes(self, parts: Floats) -> Bools:
        """[segments]: whether a gradient passes through to what lies before."""
        return np.asarray(self.before @ parts.any(axis=0))

    def trains(self, parts: Floats) -> Bools:
        """[segments]: whether anything in it is trained."""
        return np.asarray(self._reading @ parts.any(axis=0))

    def gradients(self, parts: Floats) -> Bools:
        """[segments]: whether a gradient comes to it."""
        return self.passes(parts) | self.trains(parts)

    @cached_property
    def _reading(self) -> Bools:
        """[segments, units]: which segment computes with which unit."""
        table = np.zeros((len(self), len(self.space.units)), np.bool_)
        for number, units in enumerate(self.units):
            table[number, list(units)] = True
        return table

    def features(self, parts: Floats) -> Floats:
        """[segments, features]: what each segment sees of a choice, part by part."""
        places, weights = self._layout
        shares, ranks = parts
        of_units = (shares, shares > 0, shares == 1, ranks, ranks > 0)
        known = np.concatenate((self.passes(parts), self.gradients(parts), *of_units))
        found: Floats = known[places] * weights
        return found


def _owners(graph: Graph) -> dict[Node, int]:
    """Node -> its segment. What is computed of parameters alone belongs to its first reader."""
    owner: dict[Node, int] = {}
    given: dict[Value, int] = dict.fromkeys(graph.inputs, 0)
    number, inside, heavy = 0, 0, 0
    for node in graph.nodes:
        if given.keys().isdisjoint(node.inputs):
            continue
        before = reduce(or_, (given.get(value, 0) for value in node.inputs))
        if _is_heavy(node):
            if inside and before & inside == inside:
                number, inside = number + 1, 0
            inside |= 1 << heavy
            before |= 1 << heavy
            heavy += 1
        given |= dict.fromkeys(node.outputs, before)
        owner[node] = number
    users = graph.users()
    for node in reversed(graph.nodes):
        if node not in owner:
            reading = [owner[user] for value in node.outputs for user in users[value]]
            owner[node] = min(reading, default=number)
    return owner


def _is_heavy(node: Node) -> bool:
    return is_kind(node, "contraction") or node.op in WHOLE


def _named(graph: Graph, owner: dict[Node, int]) -> dict[str, int]:
    """Where nodes of several segments have one origin, it stands for the contraction among them."""
    params = {value: value.name for value in graph.params}
    of = {node.origin: owner[node] for node in reversed(graph.nodes) if _is_heavy(node)}
    for node in graph.nodes:
        of.setdefault(node.origin, owner[node])
        for value in node.inputs:
            if value in params:
                of.setdefault(params[value], owner[node])
    return of


def _scales(graph: Graph) -> set[str]:
    """Names of the parameters by which something is multiplied: those of norms, or of a product that is spelled out."""
    names = {value: value.name for value in graph.params}
    for node in graph.nodes:
        if is_view(node) and node.inputs[0] in names:
            names[node.output] = names[node.inputs[0]]
    return {
        names[value]
        for node in graph.nodes
        for index, value in enumerate(node.inputs)
        if value in names and (node.op == "mul" or (node.op.endswith("_norm") and index == 1))
    }


def _beside(graph: Graph, owner: dict[Node, int], count: int) -> tuple[tuple[int, ...], ...]:
    """Of each segment, those that it reads and then those that read it."""
    made = graph.producers()
    writers: list[dict[int, None]] = [{} for _ in range(count)]
    readers: list[dict[int, None]] = [{} for _ in range(count)]
    for node in graph.nodes:
        for value in node.inputs:
            if value in made and owner[made[value]] != owner[node]:
                readers[owner[made[value]]][owner[node]] = None
                writers[owner[node]][owner[made[value]]] = None
    return tuple(tuple(dict.fromkeys((*w, *r))) for w, r in zip(writers, readers, strict=True))


def _read_bytes(graph: Graph, owner: dict[Node, int], count: int) -> Floats:
    """[segments]: bytes that each segment reads of others, and of the inputs."""
    made, found = graph.producers(), np.zeros(count)
    given, known = set(graph.inputs), set[tuple[int, Value]]()
    for node in graph.nodes:
        for value in node.inputs:
            outside = value in given or (value in made and owner[made[value]] != owner[node])
            if outside and (owner[node], value) not in known:
                known.add((owner[node], value))
                found[owner[node]] += value.type.nbytes
    return found


def _before(space: Space, graph: Graph, owner: dict[Node, int], count: int) -> Bools:
    """Through which segments the gradient of each unit comes."""
    index = {value: 1 << space.index[value.name] for value in graph.params if value.name in space.index}
    reached: dict[Value, int] = dict(index)
    before = [0] * count
    made = graph.producers()
    for node in graph.nodes:
        mask = 0
        for value in node.inputs:
            mask |= reached.get(value, 0)
            if value in made and owner[made[value]] != owner[node]:
                before[owner[node]] |= reached.get(value, 0)
        reached |= dict.fromkeys(node.outputs, mask)
    bits = [[bool(mask >> unit & 1) for unit in range(len(space.units))] for mask in before]
    return np.array(bits, np.bool_).reshape(count, len(space.units))


def _looks(
    space: Space, nodes: Sequence[Sequence[Node]], units: Sequence[Sequence[int]]
) -> tuple[list[object], list[object]]:
    """What each segment computes: with its shapes, and without."""
    shapes: list[object] = []
    forms: list[object] = []
    for segment, own in zip(nodes, units, strict=True):
        chosen = [space.units[unit] for unit in own]
        types = [tuple(str(value.type) for value in (*node.inputs, *node.outputs)) for node in segment]
        form = (
            tuple((node.op, _splits(node)) for node in segment if not is_view(node)),
            tuple((len(unit.shape), len(unit.shares) > 2, bool(unit.ranks)) for unit in chosen),
        )
        forms.append(form)
        shapes.append((form, tuple(types), tuple((unit.shape, unit.shares, unit.ranks) for unit in chosen)))
    return shapes, forms


def _splits(node: Node) -> bool:
    """Whether a convolution is in groups: each channel of its own, say."""
    return bool(node.attrs.get("groups", 1) != 1)


def _with_beside(looks: Sequence[object], beside: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Numbers that are equal for segments which look alike, and those beside them too."""
    known: dict[object, int] = {}
    keys = [(look, *(looks[other] for other in beside[number])) for number, look in enumerate(looks)]
    return tuple(known.setdefault(key, len(known)) for key in keys)
