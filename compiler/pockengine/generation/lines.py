"""Lines: where along the axes of a tensor its samples or its positions in time lie, and which parts of an operator's
operands a part of its result is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..ir import Attrs, Node
from ..ops import record_of
from ..ops.registry import axes_of


@dataclass(frozen=True)
class Line:
    """`size` steps along an axis of `outer * size * inner` elements: each step is `inner` of them, `outer` times.

    A tensor [batch, time, …] has time along axis 1; one of [batch * time, …] has it along axis 0, `outer` times."""

    axis: int
    inner: int = 1


Cut = tuple[Line | None, ...]
"""For each operand the line along which it is cut as the result is; None where all of it is read."""


def cut(node: Node, line: Line, size: int) -> Cut | None:
    """What one step of the (first) result along `line` is made of; None where that is not known."""
    if node.op == "reshape":
        found = _reshaped(node.outputs[0].type.shape, node.inputs[0].type.shape, line, size)
        return None if found is None else (found,)
    rule = _RULES.get(node.op)
    sources = rule(node) if rule else axes_of(node)
    source = sources[line.axis] if sources is not None else None
    if source is None:
        return None
    return tuple(None if axis is None else Line(axis, line.inner) for axis in source)


def carried(node: Node, operand: int, line: Line, size: int) -> Iterator[Line]:
    """The lines of the (first) result along which a line of an operand may run; `cut` says whether one does."""
    if node.op == "reshape":
        found = _reshaped(node.inputs[0].type.shape, node.outputs[0].type.shape, line, size)
        if found is not None:
            yield found
        return
    for axis, extent in enumerate(node.outputs[0].type.shape):
        result = Line(axis, line.inner)
        if extent % (size * line.inner) == 0:
            found_cut = cut(node, result, size)
            if found_cut is not None and found_cut[operand] == line:
                yield result


def cut_attrs(node: Node, line: Line, size: int) -> Attrs:
    """The attributes with which the operator makes one step of its result."""
    shape = list(node.outputs[0].type.shape)
    shape[line.axis] //= size
    if node.op == "slice":
        stops = node.attrs["stops"]
        assert isinstance(stops, tuple)
        return {**node.attrs, "stops": (*stops[: line.axis], shape[line.axis], *stops[line.axis + 1 :])}
    return record_of(node).sized(node, shape)


def _reshaped(known: Sequence[int], wanted: Sequence[int], line: Line, size: int) -> Line | None:
    """The line of `known`, in a shape of the same elements in the same order."""
    stride = line.inner * math.prod(known[line.axis + 1 :])
    for axis, extent in enumerate(wanted):
        behind = math.prod(wanted[axis + 1 :])
        if behind and stride % behind == 0 and extent % (size * (stride // behind)) == 0:
            return Line(axis, stride // behind)
    return None


def _gathered(node: Node) -> Sequence[Sequence[int | None] | None]:
    """The table's axes before, the indices' in the place of the one that they choose from, the table's behind."""
    axis, (table, indices) = int(node.attrs["axis"]), (value.type.rank for value in node.inputs)
    before = [(one, None) for one in range(axis)]
    return [
        *before,
        *((None, one) for one in range(indices)),
        *((one, None) for one in range(axis + 1, table)),
    ]


def _but_for_its_axis(node: Node) -> Sequence[Sequence[int | None] | None]:
    axis, rank = int(node.attrs["axis"]), node.outputs[0].type.rank
    return [None if one == axis else (one,) * len(node.inputs) for one in range(rank)]


def _where_whole(node: Node) -> Sequence[Sequence[int | None] | None]:
    """A slice or a padding: the axes that it leaves as they are."""
    if node.op == "slice":
        starts, steps = (_numbers(node, key) for key in ("starts", "steps"))
        touched = [start != 0 or step != 1 for start, step in zip(starts, steps, strict=True)]
    else:
        edges = (_numbers(node, key) for key in ("low", "high", "interior"))
        touched = [any(one) for one in zip(*edges, strict=True)]
    before, after = node.inputs[0].type.shape, node.output.type.shape
    return [
        None if other or before[axis] != after[axis] else (axis, *(None,) * (len(node.inputs) - 1))
        for axis, other in enumerate(touched)
    ]


def _numbers(node: Node, key: str) -> tuple[int, ...]:
    found = node.attrs[key]
    assert isinstance(found, tuple)
    return found


_RULES: Mapping[str, Callable[[Node], Sequence[Sequence[int | None] | None]]] = {
    "gather": _gathered,
    "concat": _but_for_its_axis,
    "split": _but_for_its_axis,
    "slice": _where_whole,
    "pad": _where_whole,
}
"""Operators whose records do not say where the axes of their results come from."""
