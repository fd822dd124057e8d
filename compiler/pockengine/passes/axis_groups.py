"""Which values can lie in memory with channels first or last, and into which groups their axes divide."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..ir import Graph, Node, Value
from ..ops import Kind, Role, record_of
from ..ops.movement import ints
from ..ops.registry import roles_of


@dataclass(frozen=True)
class AxisGroups:
    """Axes [0, start) stay; [start, middle) and those from `middle` on can change places. One of these two groups is
    the channels: the later one where `last`."""

    start: int
    middle: int
    last: bool

    def perm(self, rank: int) -> tuple[int, ...]:
        """exchanged = transpose(value, perm)."""
        return (*range(self.start), *range(self.middle, rank), *range(self.start, self.middle))

    def exchanged(self, rank: int) -> AxisGroups:
        """How the exchanged value divides."""
        return AxisGroups(self.start, self.start + rank - self.middle, not self.last)

    def sizes(self, shape: Sequence[int]) -> tuple[int, int]:
        """Elements of the axes that stay and of the first group."""
        return math.prod(shape[: self.start]), math.prod(shape[self.start : self.middle])

    def in_shape(self, shape: Sequence[int], target: Sequence[int]) -> AxisGroups | None:
        """The same division of the same elements in another shape; axes of size 1 go where they were, or left."""
        stay, first = self.sizes(shape)
        start = _reach(target, 0, stay, self.start)
        middle = None if start is None else _reach(target, start, first, self.middle)
        return None if start is None or middle is None else AxisGroups(start, middle, self.last)


IMAGE = AxisGroups(1, 2, False)
"""Of [batch, channels, height, width]."""


def _reach(shape: Sequence[int], start: int, size: int, wish: int) -> int | None:
    """The end of the axes from `start` on that have `size` elements: `wish` if that will do."""
    ends = [end for end in range(start, len(shape) + 1) if math.prod(shape[start:end]) == size]
    return wish if wish in ends else next(iter(ends), None)


def moves(perm: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a transpose changes the order of elements in memory."""
    long = [axis for axis in perm if shape[axis] != 1]
    return math.prod(shape) > 1 and long != sorted(long)


def reads_images(node: Node) -> bool:
    """Whether the node's operator is computed with channels last: it has images among its operands or results."""
    return Role.IMAGE in record_of(node).roles


def images(node: Node) -> tuple[Value, ...]:
    """What an image operator reads and makes, but for filters and their gradients."""
    return tuple(value for value, role in roles_of(node) if role is Role.IMAGE)


def alike(node: Node) -> tuple[Value, ...]:
    """The operands and results whose axes correspond one to one, so that the operator can be computed with all of them
    transposed; none where it cannot. Other operands are broadcast to these, or are indices."""
    record, operands = record_of(node), node.inputs
    if not record.axis_attrs and record.kind is not Kind.ELEMENTWISE:
        return ()
    if record.indices is not None:
        place = record.indices.operand
        if operands[place].type.rank != 1:
            return ()
        operands = (*operands[:place], *operands[place + 1 :])
    rank = len(node.outputs[0].type.shape)
    return (*(value for value in operands if len(value.type.shape) == rank), *node.outputs)


def spread(node: Node) -> list[Value]:
    """The operands of lower rank that are broadcast to the results of an operator of `alike` values."""
    rank = len(node.outputs[0].type.shape)
    return [] if record_of(node).indices else [value for value in node.inputs if len(value.type.shape) < rank]


def groups_of_axes(graph: Graph, corresponding: Mapping[Node, tuple[Value, ...]]) -> dict[Value, AxisGroups]:
    """The values that hang together with images, through operators that can be computed in either layout.

    corresponding  `alike` of every node"""
    found: dict[Value, AxisGroups] = {}
    waiting: deque[Value] = deque()

    def note(value: Value, groups: AxisGroups) -> None:
        if value not in found and value.type.rank > 2 and value.type.size:
            found[value] = groups
            waiting.append(value)

    for node in graph.nodes:
        if reads_images(node):
            for value in images(node):
                note(value, IMAGE)
    users, made = graph.users(), graph.producers()
    done: set[Node] = set()
    while waiting:
        value = waiting.popleft()
        groups = found[value]
        for node in (*users[value], *((made[value],) if value in made else ())):
            if node in done:
                continue
            if node.op in ("reshape", "transpose"):
                for target in _following(node, value, groups):
                    note(node.inputs[0] if value is node.output else node.output, target)
            elif value in corresponding[node]:
                done.add(node)
                for other in corresponding[node]:
                    note(other, groups)
    return found


def _following(node: Node, value: Value, groups: AxisGroups) -> Iterator[AxisGroups]:
    """How the other value of a reshape or transpose has to divide if it is to be computed in either layout; the first
    that fits."""
    forth = value is node.inputs[0]
    if node.op == "transpose":
        for target in (groups.exchanged(value.type.rank), groups):
            x, y = (groups, target) if forth else (target, groups)
            if same_order(node, x, y) or (target is groups and _within(node, groups)):
                yield target
                return
    elif not node.attrs.get("kept"):
        shape = (node.output if forth else node.inputs[0]).type.shape
        if (found := groups.in_shape(value.type.shape, shape)) is not None:
            yield found


def same_order(node: Node, x: AxisGroups, y: AxisGroups) -> bool:
    """Whether what a transpose makes lies in memory as what it reads, in either layout."""
    perm, shape, made = ints(node.attrs, "perm"), node.inputs[0].type.shape, node.output.type.shape
    if x.last == y.last:
        return not moves(perm, shape) and x.sizes(shape) == y.sizes(made)
    back = y.perm(len(shape))
    sizes = y.exchanged(len(shape)).sizes([made[axis] for axis in back])
    return not moves([perm[axis] for axis in back], shape) and x.sizes(shape) == sizes


def _within(node: Node, groups: AxisGroups) -> bool:
    """Whether a transpose leaves each axis in its group."""
    perm = ints(node.attrs, "perm")
    bounds = (0, groups.start, groups.middle, len(perm))
    return all(set(perm[a:b]) == set(range(a, b)) for a, b in pairwise(bounds))
