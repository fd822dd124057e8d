"""Operators that go through an axis in order: greatest elements, cumulative sums, reversed sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import DType
from .indexing import take_along
from .registry import NodeContext, Operand, converts


@converts("TopK")
def top_k(c: NodeContext) -> Sequence[Operand]:
    """Always sorted, which ONNX allows where `sorted` is 0. The values are gathered, so that gradients reach them."""
    x = c.value(0)
    axis = c.axis("axis", -1, x.type.rank)
    c.attr("sorted", 1)
    k = int(c.static(1, "the number of elements").reshape(()))
    indices = c.e.op("top_k", x, axis=axis, k=k, largest=bool(c.attr("largest", 1)))
    return [take_along(c.e, x, indices, axis), indices]


@converts("CumSum", "CumProd")
def cumulative(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axis = c.check_axis(int(c.static(1, "the axis").reshape(())), x.type.rank)
    exclusive, reverse = bool(c.attr("exclusive", 0)), bool(c.attr("reverse", 0))
    return [c.e.op(c.node.op_type.lower(), x, axis=axis, exclusive=exclusive, reverse=reverse)]


@converts("Hardmax")
def hardmax(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axis = c.axis("axis", -1, x.type.rank)
    places = np.arange(x.type.shape[axis]).reshape([-1] + [1] * (x.type.rank - axis - 1))
    hit = c.e.op("equal", c.e.op("argmax", x, axis=axis), c.e.const(places.astype(np.int64)))
    return [c.e.cast(hit, x.type.dtype)]


@converts("ReverseSequence")
def reverse_sequence(c: NodeContext) -> Sequence[Operand]:
    """The first `length` steps of each sequence are turned around: a gather of whole steps."""
    x, time, batch = c.value(0), int(c.attr("time_axis", 0)), int(c.attr("batch_axis", 1))
    order = [batch, time, *range(2, x.type.rank)]
    steps, count = x.type.shape[time], x.type.shape[batch]
    lengths = c.e.reshape(c.e.cast(c.value(1), DType.I64), (count, 1))
    step = c.e.const(np.arange(steps)[None, :])
    source = c.e.where(c.e.less(step, lengths), c.e.sub(c.e.sub(lengths, 1), step), step)
    positions = c.e.add(source, c.e.const(np.arange(count)[:, None] * steps))
    moved = c.e.transpose(x, order)
    rows = c.e.reshape(moved, (count * steps, *moved.type.shape[2:]))
    return [c.e.transpose(c.e.op("gather", rows, positions, axis=0), [int(i) for i in np.argsort(order)])]
