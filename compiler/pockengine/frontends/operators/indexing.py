"""Gathers, scatters and one-hot: what reads or writes at computed places."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...errors import ModelError
from ...ir import Array, DType, Value
from ...ops import Emitter
from .movement import narrow
from .registry import NodeContext, Operand, converts


def _indices(c: NodeContext, index: int, size: int) -> Value:
    """Indices into an axis of `size`, negative ones counted from the end.

    Indices that the caller feeds directly (token ids) are left alone: a negative one is an error in the data."""
    if c.constant(index) is None and c.value(index) in c.e.builder.inputs:
        return c.value(index)
    return _wrapped(c, index, size)


def _wrapped(c: NodeContext, index: int, size: int | Array) -> Value:
    """The same, for indices from which positions are computed. `size` may be one for each entry of the last axis."""
    array = c.constant(index)
    if array is not None:
        if ((array < -size) | (array >= size)).any():
            raise ModelError(f"an index of {c.where} is outside the axis, which has {size} elements")
        return c.e.const(np.where(array < 0, array + size, array).astype(np.int64))
    value = c.e.cast(c.value(index), DType.I64)
    return c.e.where(c.e.less(value, 0), c.e.add(value, c.e.const(np.asarray(size, np.int64))), value)


@converts("Gather")
def gather(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axis = c.axis("axis", 0, x.type.rank)
    array = c.constant(1)
    padding = c.attr("padding", -1)  # only found on embeddings from `from_torch`
    padded = padding >= 0 and (array is None or bool((array == padding).any()))
    if not padded and array is not None and array.ndim == 0 and -x.type.shape[axis] <= array < x.type.shape[axis]:
        # One fixed position is a slice: its gradient is a pad, not a scatter.
        position = int(array) % x.type.shape[axis]
        starts, stops = [0] * x.type.rank, list(x.type.shape)
        starts[axis], stops[axis] = position, position + 1
        taken = c.e.op("slice", x, starts=tuple(starts), stops=tuple(stops), steps=(1,) * x.type.rank)
        return [c.e.reshape(taken, [d for index, d in enumerate(x.type.shape) if index != axis])]
    given = {"padding": padding} if padded else {}
    return [c.e.op("gather", x, _indices(c, 1, x.type.shape[axis]), axis=axis, **given)]


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def positions_along(e: Emitter, indices: Value, shape: Sequence[int], axis: int) -> Value:
    """Where, in a flattened tensor of `shape`, `indices` along one axis point: the other axes keep their place."""
    strides = _strides(shape)
    known = e.builder.consts.get(indices)
    if known is not None:
        grid = np.indices(known.shape, np.int64)
        grid[axis] = known
        return e.const(np.tensordot(np.array(strides, np.int64), grid, 1))
    positions = e.mul(indices, strides[axis])
    for other, size in enumerate(indices.type.shape):
        if other != axis and size > 1:
            along = [size if index == other else 1 for index in range(len(shape))]
            positions = e.add(positions, e.const((np.arange(size) * strides[other]).reshape(along)))
    return positions


def take_along(e: Emitter, x: Value, indices: Value, axis: int) -> Value:
    """numpy's take_along_axis: `y[i][j] = x[index[i][j]][j]`, as one gather from the flattened tensor."""
    return e.op("gather", e.reshape(x, (x.type.size,)), positions_along(e, indices, x.type.shape, axis), axis=0)


@converts("GatherElements")
def gather_elements(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axis = c.axis("axis", 0, x.type.rank)
    return [take_along(c.e, x, _wrapped(c, 1, x.type.shape[axis]), axis)]


def _tuple_positions(c: NodeContext, shape: Sequence[int], batch: int) -> tuple[Value, int]:
    """Positions in a tensor whose leading axes are merged, for tuples of indices (input 1) into the axes after the
    first `batch`; and how many axes are merged."""
    depth = c.shape(1)[-1]
    lead, merged = np.array(shape[batch : batch + depth], np.int64), batch + depth
    strides = np.array(_strides(shape[:merged]), np.int64)
    weighted = c.e.mul(_wrapped(c, 1, lead), c.e.const(strides[batch:]))
    positions = c.e.sum(weighted, [-1], keepdims=False) if depth else c.e.const(np.zeros(c.shape(1)[:-1], np.int64))
    for axis in range(batch):
        along = [shape[axis] if index == axis else 1 for index in range(positions.type.rank)]
        positions = c.e.add(positions, c.e.const((np.arange(shape[axis]) * strides[axis]).reshape(along)))
    return positions, merged


@converts("GatherND")
def gather_nd(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    positions, merged = _tuple_positions(c, x.type.shape, int(c.attr("batch_dims", 0)))
    rows = c.e.reshape(x, (math.prod(x.type.shape[:merged]), *x.type.shape[merged:]))
    return [c.e.op("gather", rows, positions, axis=0)]


def _scatter(c: NodeContext, x: Value, positions: Value, updates: Value) -> Value:
    """Write into axis 0 by the node's `reduction`."""
    reduction = str(c.attr("reduction", "none"))
    if reduction == "none":
        return c.e.op("scatter_set", x, positions, updates, axis=0)
    if reduction == "add":
        return c.e.add(x, c.e.op("scatter_add", updates, positions, axis=0, size=x.type.shape[0]))
    if reduction not in ("mul", "max", "min"):
        raise c.unsupported(f"the reduction '{reduction}'")
    return c.e.op("scatter_reduce", x, positions, updates, axis=0, reduction=reduction)


@converts("ScatterElements", "Scatter")
def scatter_elements(c: NodeContext) -> Sequence[Operand]:
    x, updates = c.value(0), c.value(2)
    axis = c.axis("axis", 0, x.type.rank)
    positions = positions_along(c.e, _wrapped(c, 1, x.type.shape[axis]), x.type.shape, axis)
    count = updates.type.size
    flat = _scatter(c, c.e.reshape(x, (x.type.size,)), c.e.reshape(positions, (count,)), c.e.reshape(updates, (count,)))
    return [c.e.reshape(flat, x.type.shape)]


@converts("ScatterND")
def scatter_nd(c: NodeContext) -> Sequence[Operand]:
    x, updates = c.value(0), c.value(2)
    positions, merged = _tuple_positions(c, x.type.shape, 0)
    rows = c.e.reshape(x, (math.prod(x.type.shape[:merged]), *x.type.shape[merged:]))
    return [c.e.reshape(_scatter(c, rows, positions, updates), x.type.shape)]


@converts("TensorScatter")
def tensor_scatter(c: NodeContext) -> Sequence[Operand]:
    """A cache with a part of one axis overwritten, from another place on in each batch element."""
    cache, updates = c.value(0), c.value(1)
    rank, batch = cache.type.rank, cache.type.shape[0]
    axis = c.axis("axis", -2, rank)
    size, count = cache.type.shape[axis], updates.type.shape[axis]
    steps = c.e.const(np.arange(count)[None, :])
    if c.has(2):
        steps = c.e.add(c.e.reshape(c.e.cast(c.value(2), DType.I64), (batch, 1)), steps)
    if c.attr("mode", "linear") == "circular":
        steps = c.e.op("mod", steps, c.e.scalar(size, steps))
    positions = c.e.add(steps, c.e.const(np.arange(batch)[:, None] * size))
    order = [0, axis, *(other for other in range(1, rank) if other != axis)]
    rest = [cache.type.shape[other] for other in order[2:]]
    rows = c.e.reshape(c.e.transpose(cache, order), (batch * size, *rest))
    new = c.e.reshape(c.e.transpose(updates, order), (batch * count, *rest))
    written = c.e.op("scatter_set", rows, c.e.reshape(positions, (batch * count,)), new, axis=0)
    return [c.e.transpose(c.e.reshape(written, (batch, size, *rest)), [int(i) for i in np.argsort(order)])]


MOST_CLASSES = 1 << 24
"""Of a one-hot encoding: the number of each is known when compiling."""


@converts("OneHot")
def one_hot(c: NodeContext) -> Sequence[Operand]:
    depth = int(c.static(1, "the depth").reshape(()))
    if depth > MOST_CLASSES:
        raise ModelError(f"a depth of {depth} is too much: at most {MOST_CLASSES} classes can be told apart")
    off, on = (c.e.reshape(narrow(c.e, c.value(2), 0, part, part + 1), ()) for part in range(2))
    given = c.e.cast(c.value(0), DType.I64)
    indices = c.e.where(c.e.less(given, 0), c.e.add(given, depth), given)
    axis = c.axis("axis", -1, indices.type.rank + 1)
    shape = [*indices.type.shape[:axis], 1, *indices.type.shape[axis:]]
    classes = np.arange(depth).reshape([depth] + [1] * (len(shape) - axis - 1))
    return [c.e.where(c.e.op("equal", c.e.reshape(indices, shape), c.e.const(classes)), on, off)]
