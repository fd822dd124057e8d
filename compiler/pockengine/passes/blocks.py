"""Which values can lie in memory with channels first or last, and how their axes divide."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..ir import Attr, Attrs, Graph, Node, Value
from ..ops import is_kind
from ..ops.movement import ints

IMAGE_OPS = ("conv2d", "conv2d_dx", "conv2d_dw", "max_pool", "max_pool_dx", "avg_pool", "avg_pool_dx")
"""Operators that are computed with channels last."""


@dataclass(frozen=True)
class Blocks:
    """Axes [0, start) stay; [start, middle) and those from `middle` on can change places. One of these two blocks is
    the channels: the later one where `last`."""

    start: int
    middle: int
    last: bool

    def perm(self, rank: int) -> tuple[int, ...]:
        """exchanged = transpose(value, perm)."""
        return (*range(self.start), *range(self.middle, rank), *range(self.start, self.middle))

    def exchanged(self, rank: int) -> Blocks:
        """How the exchanged value divides."""
        return Blocks(self.start, self.start + rank - self.middle, not self.last)

    def sizes(self, shape: Sequence[int]) -> tuple[int, int]:
        """Elements of the axes that stay and of the first block."""
        return math.prod(shape[: self.start]), math.prod(shape[self.start : self.middle])

    def in_shape(self, shape: Sequence[int], target: Sequence[int]) -> Blocks | None:
        """The same division of the same elements in another shape; axes of size 1 go where they were, or left."""
        stay, first = self.sizes(shape)
        start = _reach(target, 0, stay, self.start)
        middle = None if start is None else _reach(target, start, first, self.middle)
        return None if start is None or middle is None else Blocks(start, middle, self.last)


IMAGE = Blocks(1, 2, False)
"""Of [batch, channels, height, width]."""


def _reach(shape: Sequence[int], start: int, size: int, wish: int) -> int | None:
    """The end of the axes from `start` on that have `size` elements: `wish` if that will do."""
    ends = [end for end in range(start, len(shape) + 1) if math.prod(shape[start:end]) == size]
    return wish if wish in ends else next(iter(ends), None)


def moves(perm: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a transpose changes the order of elements in memory."""
    long = [axis for axis in perm if shape[axis] != 1]
    return math.prod(shape) > 1 and long != sorted(long)


def _no_axes(attrs: Attrs, perm: Sequence[int]) -> dict[str, Attr]:
    return {}


def _one_axis(attrs: Attrs, perm: Sequence[int]) -> dict[str, Attr]:
    return {"axis": perm.index(int(attrs["axis"]))}


def _some_axes(attrs: Attrs, perm: Sequence[int]) -> dict[str, Attr]:
    return {"axes": tuple(sorted(perm.index(axis) for axis in ints(attrs, "axes")))}


def _all_axes(attrs: Attrs, perm: Sequence[int]) -> dict[str, Attr]:
    keys = ("starts", "stops", "steps", "low", "high", "interior", "shape")
    return {key: tuple(ints(attrs, key)[axis] for axis in perm) for key in keys if key in attrs}


_INDEXED = ("gather", "scatter_add")

_ATTRS = {
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min", "reduce_prod"), _some_axes),
    **dict.fromkeys(("slice", "pad", "broadcast_to"), _all_axes),
    **dict.fromkeys(("concat", "split", "resample", "cumsum", "cumprod", *_INDEXED), _one_axis),
}
"""What operators with one division of axes for all their operands say of axes."""


def permuted(node: Node, perm: Sequence[int]) -> dict[str, Attr]:
    """The attributes of an operator of `alike` values when these are all transposed."""
    return {**node.attrs, **_ATTRS.get(node.op, _no_axes)(node.attrs, perm)}


def alike(node: Node) -> tuple[Value, ...]:
    """The operands and results whose axes correspond one to one, so that the operator can be computed with all of them
    transposed; none where it cannot. Other operands are broadcast to these, or are indices."""
    if node.op not in _ATTRS and not is_kind(node, "elementwise"):
        return ()
    operands = node.inputs
    if node.op in _INDEXED:
        if operands[1].type.rank != 1:
            return ()
        operands = operands[:1]
    rank = len(node.outputs[0].type.shape)
    return (*(value for value in operands if len(value.type.shape) == rank), *node.outputs)


def spread(node: Node) -> list[Value]:
    """The operands of lower rank that are broadcast to the results of an operator of `alike` values."""
    rank = len(node.outputs[0].type.shape)
    return [] if node.op in _INDEXED else [value for value in node.inputs if len(value.type.shape) < rank]


NO_IMAGE = {"conv2d": 1, "conv2d_dx": 1, "conv2d_dw": 2}
"""Which of an image operator's operands and results are weights."""


def images(node: Node) -> tuple[Value, ...]:
    """What an image operator reads and makes, but for weights and their gradients."""
    weights = NO_IMAGE.get(node.op)
    return tuple(value for i, value in enumerate((*node.inputs, *node.outputs)) if i != weights)


def divisions(graph: Graph, corresponding: Mapping[Node, tuple[Value, ...]]) -> dict[Value, Blocks]:
    """The values that hang together with images, through operators that can be computed in either layout.

    corresponding  `alike` of every node"""
    found: dict[Value, Blocks] = {}
    waiting: deque[Value] = deque()

    def note(value: Value, blocks: Blocks) -> None:
        if value not in found and value.type.rank > 2 and value.type.size:
            found[value] = blocks
            waiting.append(value)

    for node in graph.nodes:
        if node.op in IMAGE_OPS:
            for value in images(node):
                note(value, IMAGE)
    users, made = graph.users(), graph.producers()
    done: set[Node] = set()
    while waiting:
        value = waiting.popleft()
        blocks = found[value]
        for node in (*users[value], *((made[value],) if value in made else ())):
            if node in done:
                continue
            if node.op in ("reshape", "transpose"):
                for target in _following(node, value, blocks):
                    note(node.inputs[0] if value is node.output else node.output, target)
            elif value in corresponding[node]:
                done.add(node)
                for other in corresponding[node]:
                    note(other, blocks)
    return found


def _following(node: Node, value: Value, blocks: Blocks) -> Iterator[Blocks]:
    """How the other value of a reshape or transpose has to divide if it is to be computed in either layout; the first
    that fits."""
    forth = value is node.inputs[0]
    if node.op == "transpose":
        for target in (blocks.exchanged(value.type.rank), blocks):
            x, y = (blocks, target) if forth else (target, blocks)
            if same_order(node, x, y) or (target is blocks and _within(node, blocks)):
                yield target
                return
    elif not node.attrs.get("kept"):
        shape = (node.output if forth else node.inputs[0]).type.shape
        if (found := blocks.in_shape(value.type.shape, shape)) is not None:
            yield found


def same_order(node: Node, x: Blocks, y: Blocks) -> bool:
    """Whether what a transpose makes lies in memory as what it reads, in either layout."""
    perm, shape, made = ints(node.attrs, "perm"), node.inputs[0].type.shape, node.output.type.shape
    if x.last == y.last:
        return not moves(perm, shape) and x.sizes(shape) == y.sizes(made)
    back = y.perm(len(shape))
    sizes = y.exchanged(len(shape)).sizes([made[axis] for axis in back])
    return not moves([perm[axis] for axis in back], shape) and x.sizes(shape) == sizes


def _within(node: Node, blocks: Blocks) -> bool:
    """Whether a transpose leaves each axis in its block."""
    perm = ints(node.attrs, "perm")
    bounds = (0, blocks.start, blocks.middle, len(perm))
    return all(set(perm[a:b]) == set(range(a, b)) for a, b in pairwise(bounds))
