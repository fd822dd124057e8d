"""Gathers, one-hot, cumulative sums: what reads or writes at computed places."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir import DType, Value
from .movement import narrow
from .registry import NodeContext, Operand, converts


def _indices(c: NodeContext, index: int, size: int) -> Value:
    """Indices into an axis of `size`, negative ones counted from the end.

    Indices that the caller feeds directly (token ids) are left alone: a negative one is an error in the data."""
    array = c.constant(index)
    if array is not None:
        return c.e.const(np.where(array < 0, array + size, array).astype(np.int64))
    value = c.value(index)
    if value in c.e.builder.inputs:
        return value
    return c.e.where(c.e.less(value, 0), c.e.add(value, size), value)


@converts("Gather")
def gather(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axis = c.axis("axis", 0, x.type.rank)
    array = c.constant(1)
    if array is not None and array.ndim == 0:
        # One fixed position is a slice: its gradient is a pad, not a scatter.
        position = int(array) % x.type.shape[axis]
        starts, stops = [0] * x.type.rank, list(x.type.shape)
        starts[axis], stops[axis] = position, position + 1
        taken = c.e.op("slice", x, starts=tuple(starts), stops=tuple(stops), steps=(1,) * x.type.rank)
        return [c.e.reshape(taken, [d for index, d in enumerate(x.type.shape) if index != axis])]
    return [c.e.op("gather", x, _indices(c, 1, x.type.shape[axis]), axis=axis)]


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


@converts("GatherElements")
def gather_elements(c: NodeContext) -> Sequence[Operand]:
    """`y[i][j] = x[index[i][j]][j]`: one gather from the flattened tensor at computed positions."""
    x = c.value(0)
    axis = c.axis("axis", 0, x.type.rank)
    indices = c.e.cast(_indices(c, 1, x.type.shape[axis]), DType.I64)
    strides = _strides(x.type.shape)
    grid = np.indices(indices.type.shape, np.int64)
    fixed = sum((grid[other] * strides[other] for other in range(x.type.rank) if other != axis), np.zeros((), np.int64))
    known = c.constant(1)
    if known is not None:
        wrapped = np.where(known < 0, known + x.type.shape[axis], known)
        positions = c.e.const((fixed + wrapped * strides[axis]).astype(np.int64))
    else:
        positions = c.e.add(c.e.mul(indices, strides[axis]), c.e.const(np.asarray(fixed, np.int64)))
    return [c.e.op("gather", c.e.reshape(x, (x.type.size,)), positions, axis=0)]


@converts("GatherND")
def gather_nd(c: NodeContext) -> Sequence[Operand]:
    """Tuples of indices into the leading axes, as one gather from the tensor with those axes merged."""
    x = c.value(0)
    if c.attr("batch_dims", 0):
        raise c.unsupported("batch_dims")
    depth = c.shape(1)[-1]
    lead, rest = x.type.shape[:depth], x.type.shape[depth:]
    strides = np.array(_strides(lead), np.int64)
    known = c.constant(1)
    if known is not None:
        wrapped = np.where(known < 0, known + np.array(lead), known)
        positions = c.e.const((wrapped * strides).sum(axis=-1).astype(np.int64))
    else:
        indices = c.e.cast(c.value(1), DType.I64)
        wrapped_value = c.e.where(c.e.less(indices, 0), c.e.add(indices, c.e.const(np.array(lead, np.int64))), indices)
        positions = c.e.sum(c.e.mul(wrapped_value, c.e.const(strides)), [-1], keepdims=False)
    return [c.e.op("gather", c.e.reshape(x, (math.prod(lead), *rest)), positions, axis=0)]


@converts("OneHot")
def one_hot(c: NodeContext) -> Sequence[Operand]:
    depth = int(c.static(1, "the depth").reshape(()))
    off, on = (c.e.reshape(narrow(c.e, c.value(2), 0, part, part + 1), ()) for part in range(2))
    indices = _indices(c, 0, depth)
    axis = c.axis("axis", -1, indices.type.rank + 1)
    shape = [*indices.type.shape[:axis], 1, *indices.type.shape[axis:]]
    classes = np.arange(depth).astype(indices.type.dtype.numpy).reshape([depth] + [1] * (len(shape) - axis - 1))
    return [c.e.where(c.e.op("equal", c.e.reshape(indices, shape), c.e.const(classes)), on, off)]


@converts("CumSum")
def cumulative_sum(c: NodeContext) -> Sequence[Operand]:
    """A sum over a masked square: quadratic in the axis, which is short where models use it (token positions)."""
    x = c.value(0)
    axis = c.check_axis(int(c.static(1, "the axis").reshape(())), x.type.rank)
    size = x.type.shape[axis]
    target, source = np.arange(size)[:, None], np.arange(size)[None, :]
    if c.attr("reverse", 0):
        target, source = -target, -source
    counted = source < target if c.attr("exclusive", 0) else source <= target
    square = c.e.reshape(x, [*x.type.shape[:axis], 1, *x.type.shape[axis:]])
    mask = c.e.const(counted.reshape(size, size, *[1] * (x.type.rank - axis - 1)))
    return [c.e.sum(c.e.where(mask, square, 0.0), [axis + 1], keepdims=False)]


@converts("Range")
def range_(c: NodeContext) -> Sequence[Operand]:
    start, limit, delta = (c.static(index, "the bounds") for index in range(3))
    return [np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)]
