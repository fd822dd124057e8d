"""Where the axes of a result come from: what a record says in its field `axes`, by the shape of an operator.

Knows types and attributes of a node and no operator by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ..ir import Attrs, Node

Source = tuple[int | None, ...]
"""For one axis of the result and each operand: the operand's axis that runs along it; None where every element of the
result may read all of the operand's axes that are named for no other."""
Sources = tuple[Source | None, ...]
"""For each axis of the (first) result; None for an axis of which no part can be computed alone."""
AxesRule = Callable[[Node], Sources]
SizedRule = Callable[[Node, Sequence[int]], Attrs]
"""(node, shape) -> the attributes with which the operator, of operands cut likewise, makes a result of that shape."""


def broadcast(node: Node) -> Sources:
    """Operands that numpy's rule spreads over the result: of one that has a single element there, nothing is cut."""
    shapes = [value.type.shape for value in node.inputs]
    rank = node.output.type.rank

    def own(shape: Sequence[int], axis: int) -> int | None:
        place = axis - (rank - len(shape))
        return None if place < 0 or shape[place] == 1 else place

    return tuple(tuple(own(shape, axis) for shape in shapes) for axis in range(rank))


def of_attribute(key: str) -> AxesRule:
    """The first operand's axes are the result's, but for those that attribute `key` names, which have to be whole. No
    other operand is cut."""

    def rule(node: Node) -> Sources:
        named, rest = node.attrs[key], (None,) * (len(node.inputs) - 1)
        whole = named if isinstance(named, tuple) else (named,)
        return tuple(None if axis in whole else (axis, *rest) for axis in range(node.output.type.rank))

    return rule


def transposed(node: Node) -> Sources:
    """Axis i of the result is axis `perm[i]` of the operand."""
    perm = node.attrs["perm"]
    assert isinstance(perm, tuple)
    return tuple((int(axis),) for axis in perm)


def reshaped(node: Node) -> Sources:
    """The axes that both shapes have: those before and after hold equally many elements."""
    before, after = node.inputs[0].type.shape, node.output.type.shape
    found: list[Source | None] = [None] * len(after)
    for sources, results in shared_runs(before, after):
        long = [axis for axis in sources if before[axis] != 1], [axis for axis in results if after[axis] != 1]
        if len(long[0]) == len(long[1]) == 1:
            found[long[1][0]] = (long[0][0],)
    return tuple(found)


def shared_runs(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[range, range]]:
    """The shortest runs of axes of both shapes that hold equally many elements."""
    i = j = 0
    while i < len(before) or j < len(after):
        first, second = i, j
        i, j = min(i + 1, len(before)), min(j + 1, len(after))
        while (own := math.prod(before[first:i])) != (other := math.prod(after[second:j])):
            i, j = (i + 1, j) if own < other else (i, j + 1)
        yield range(first, i), range(second, j)


def of_shape(node: Node, shape: Sequence[int]) -> Attrs:
    """The attributes of an operator that is told nothing but the shape of its result."""
    return {"shape": tuple(shape)}
