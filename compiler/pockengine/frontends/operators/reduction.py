"""Reductions along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir import Value
from .registry import NodeContext, Operand, converts

_REDUCE = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")


def _axes(c: NodeContext, rank: int) -> tuple[int, ...] | None:
    """Axes from the attribute (older opsets) or the second input; None when there is nothing to do."""
    given = c.ints(1, "the axes") if c.has(1) else tuple(c.attr("axes", ()))
    if not given and c.attr("noop_with_empty_axes", 0):
        return None
    return tuple(sorted({c.check_axis(axis, rank) for axis in given})) if given else tuple(range(rank))


@converts(*(f"Reduce{kind}" for kind in _REDUCE))
def reduce(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axes = _axes(c, x.type.rank)
    kind = c.node.op_type.removeprefix("Reduce")
    if axes is None or x.type.rank == 0:
        return [_reduce(c, kind, x, ())]
    reduced = _reduce(c, kind, x, axes)
    if c.attr("keepdims", 1) == 1:
        return [reduced]
    return [c.e.reshape(reduced, [d for axis, d in enumerate(x.type.shape) if axis not in axes])]


def _reduce(c: NodeContext, kind: str, x: Value, axes: tuple[int, ...]) -> Value:
    e = c.e
    if kind == "L1":
        return e.sum(e.op("abs", x), axes)
    if kind == "L2":
        return e.op("l2_norm", x, axes=axes) if axes else e.op("abs", x)
    if kind == "SumSquare":
        return e.sum(e.mul(x, x), axes)
    if kind == "LogSum":
        return e.op("log", e.sum(x, axes))
    if kind == "LogSumExp" and axes:
        return e.op("log_sum_exp", x, axes=axes)
    if kind == "Mean":
        count = math.prod(x.type.shape[axis] for axis in axes)
        total = e.sum(x, axes)
        return e.mean(x, axes) if x.type.dtype.is_float else e.op("div", total, e.scalar(count, total))
    if not axes:  # the logarithm of one exponential included
        return x
    return e.op(f"reduce_{kind.lower()}", x, axes=axes)


@converts("ArgMax", "ArgMin")
def arg_extremum(c: NodeContext) -> Sequence[Operand]:
    x, last = c.value(0), c.attr("select_last_index", 0)
    axis = c.axis("axis", 0, x.type.rank)
    if c.node.op_type == "ArgMin":
        x = c.e.op("neg" if x.type.dtype.is_float else "bitwise_not", x)  # the least integer has no negative
    if last:  # the first of the reversed axis
        backwards = np.arange(x.type.shape[axis], dtype=np.int64)[::-1]
        x = c.e.op("gather", x, c.e.const(backwards), axis=axis)
    found = c.e.op("argmax", x, axis=axis)
    if last:
        found = c.e.sub(x.type.shape[axis] - 1, found)
    if c.attr("keepdims", 1) == 1:
        return [found]
    return [c.e.reshape(found, [d for index, d in enumerate(found.type.shape) if index != axis])]


@converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axes = tuple(range(2, x.type.rank))
    if c.node.op_type == "GlobalAveragePool":
        return [c.e.mean(x, axes)]
    return [c.e.op("first_maximum", x, axes=axes) if axes else x]
