"""Shape changes: reshape, transpose, slices, padding, concatenation, broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, numpy_helper

from ...errors import ModelError
from ...ir import Array, Value
from ...ops import Emitter
from .registry import NodeContext, Operand, converts, dtype_of

_MAX_CONCAT = 32


@converts("Reshape")
def reshape(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    wanted = list(c.ints(1, "the new shape"))
    if not c.attr("allowzero", 0):
        wanted = [x.type.shape[axis] if d == 0 and axis < x.type.rank else d for axis, d in enumerate(wanted)]
    if -1 in wanted:
        rest = math.prod(d for d in wanted if d != -1)
        if rest == 0 or x.type.size % rest:
            raise ModelError(f"{c.where} cannot reshape {list(x.type.shape)} to {wanted}")
        wanted[wanted.index(-1)] = x.type.size // rest
    if math.prod(wanted) != x.type.size:
        raise ModelError(f"{c.where} cannot reshape {list(x.type.shape)} to {wanted}")
    return [c.e.reshape(x, wanted)]


@converts("Flatten")
def flatten(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axis = c.attr("axis", 1)
    axis += x.type.rank if axis < 0 else 0
    return [c.e.reshape(x, (math.prod(x.type.shape[:axis]), math.prod(x.type.shape[axis:])))]


@converts("Transpose")
def transpose(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    return [c.e.transpose(x, c.attr("perm", tuple(reversed(range(x.type.rank)))))]


def _axes(c: NodeContext, rank: int) -> tuple[int, ...]:
    given = c.ints(1, "the axes") if c.has(1) else tuple(c.attr("axes", ()))
    return tuple(sorted(c.check_axis(axis, rank) for axis in given))


@converts("Squeeze")
def squeeze(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axes = _axes(c, x.type.rank) or tuple(axis for axis, d in enumerate(x.type.shape) if d == 1)
    return [c.e.reshape(x, [d for axis, d in enumerate(x.type.shape) if axis not in axes])]


@converts("Unsqueeze")
def unsqueeze(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    rank = x.type.rank + (len(c.ints(1, "the axes")) if c.has(1) else len(c.attr("axes", ())))
    axes, remaining = _axes(c, rank), iter(x.type.shape)
    return [c.e.reshape(x, [1 if axis in axes else next(remaining) for axis in range(rank)])]


@converts("Expand")
def expand(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    wanted = c.ints(1, "the new shape")
    try:
        return [c.e.broadcast_to(x, np.broadcast_shapes(x.type.shape, wanted))]
    except ValueError:
        raise ModelError(f"{c.where} cannot expand {list(x.type.shape)} to {list(wanted)}") from None


@converts("Tile")
def tile(c: NodeContext) -> Sequence[Operand]:
    x, repeats = c.value(0), c.ints(1, "the repeats")
    paired = [size for d in x.type.shape for size in (1, d)]
    wide = [size for d, times in zip(x.type.shape, repeats, strict=True) for size in (times, d)]
    result = [d * times for d, times in zip(x.type.shape, repeats, strict=True)]
    return [c.e.reshape(c.e.broadcast_to(c.e.reshape(x, paired), wide), result)]


@converts("Concat")
def concat(c: NodeContext) -> Sequence[Operand]:
    """Empty parts are dropped, long lists are joined in chunks."""
    values = [c.value(index) for index in range(len(c.operands))]
    axis = c.axis("axis", 0, values[0].type.rank)
    values = [value for value in values if value.type.size] or values[:1]
    while len(values) > 1:
        chunks = [values[start : start + _MAX_CONCAT] for start in range(0, len(values), _MAX_CONCAT)]
        values = [c.e.op("concat", *chunk, axis=axis) if len(chunk) > 1 else chunk[0] for chunk in chunks]
    return values


@converts("Split")
def split(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axis = c.axis("axis", 0, x.type.rank)
    size, count = x.type.shape[axis], c.attr("num_outputs", len(c.node.output))
    if c.has(1):
        sizes = c.ints(1, "the sizes")
    else:
        chunk = -(-size // count)
        sizes = tuple(max(0, min(chunk, size - chunk * index)) for index in range(count))
    if sum(sizes) != size:
        raise ModelError(f"{c.where} splits an axis of size {size} into {list(sizes)}")
    starts = np.cumsum((0, *sizes))
    return [narrow(c.e, x, axis, int(start), int(start) + n) for start, n in zip(starts, sizes, strict=False)]


def narrow(e: Emitter, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    """`x[..., start:stop:step, ...]` along one axis; `x` itself when that is all of it."""
    if (start, stop, step) == (0, x.type.shape[axis], 1):
        return x
    starts, stops, steps = [0] * x.type.rank, list(x.type.shape), [1] * x.type.rank
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return e.op("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


@converts("Slice")
def slice_(c: NodeContext) -> Sequence[Operand]:
    """Forward steps become one slice; a negative step gathers along its axis."""
    x = c.value(0)
    starts, ends = c.ints(1, "the starts"), c.ints(2, "the ends")
    axes = c.ints(3, "the axes") if c.has(3) else tuple(range(len(starts)))
    steps = c.ints(4, "the steps") if c.has(4) else (1,) * len(starts)
    for start, end, raw_axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = c.check_axis(raw_axis, x.type.rank)
        indices = range(x.type.shape[axis])[start:end:step]
        if step > 0:
            x = narrow(c.e, x, axis, indices.start, max(indices.start, indices.stop), step)
        else:
            x = c.e.op("gather", x, c.e.const(np.array(indices, np.int64)), axis=axis)
    return [x]


@converts("Pad")
def pad(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    amounts = c.ints(1, "the padding")
    axes = c.ints(3, "the axes") if c.has(3) else tuple(range(x.type.rank))
    low, high = [0] * x.type.rank, [0] * x.type.rank
    for index, axis in enumerate(axes):
        low[c.check_axis(axis, x.type.rank)] = amounts[index]
        high[c.check_axis(axis, x.type.rank)] = amounts[len(axes) + index]
    mode = c.attr("mode", "constant")
    if mode != "constant":
        return [_pad_by_copy(c, x, low, high, mode)]
    for axis in range(x.type.rank):
        start, stop = max(0, -low[axis]), x.type.shape[axis] - max(0, -high[axis])
        x = narrow(c.e, x, axis, start, stop)
    low, high = [max(0, d) for d in low], [max(0, d) for d in high]
    if not any((*low, *high)):
        return [x]
    fill = c.constant(2)
    attrs = {"low": tuple(low), "high": tuple(high), "interior": (0,) * x.type.rank}
    padded = c.e.op("pad", x, **attrs, value=0 if fill is None else fill.reshape(()).item())
    if not c.has(2) or fill is not None:
        return [padded]
    inside = c.e.const(np.pad(np.ones(x.type.shape, bool), list(zip(low, high, strict=True))))
    return [c.e.where(inside, padded, c.e.reshape(c.value(2), ()))]


def _pad_by_copy(c: NodeContext, x: Value, low: list[int], high: list[int], mode: str) -> Value:
    """Reflected, repeated or wrapped edges: a gather along each padded axis."""
    modes = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
    if mode not in modes or min(*low, *high) < 0:
        raise c.unsupported(f"padding mode '{mode}' with amounts {low} and {high}")
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before or after:
            indices = np.pad(np.arange(x.type.shape[axis]), (before, after), mode=modes[mode])  # type: ignore[call-overload]
            x = c.e.op("gather", x, c.e.const(indices.astype(np.int64)), axis=axis)
    return x


@converts("Shape")
def shape(c: NodeContext) -> Sequence[Operand]:
    dims = np.array(c.shape(0), np.int64)
    return [dims[slice(c.attr("start", 0), c.attr("end", len(dims)))]]


@converts("Size")
def size(c: NodeContext) -> Sequence[Operand]:
    return [np.array(math.prod(c.shape(0)), np.int64)]


@converts("Constant")
def constant(c: NodeContext) -> Sequence[Operand]:
    value = c.attr("value", None)
    if isinstance(value, TensorProto):
        return [np.asarray(numpy_helper.to_array(value))]
    for name, dtype in (("value_int", np.int64), ("value_float", np.float32)):
        for given in (c.attr(name, None), c.attr(f"{name}s", None)):
            if given is not None:
                return [np.asarray(given, dtype)]
    raise c.unsupported("such a constant")


@converts("ConstantOfShape")
def constant_of_shape(c: NodeContext) -> Sequence[Operand]:
    """Reached only for large results: a broadcast scalar instead of a stored tensor."""
    value = c.attr("value", None)
    fill = np.zeros((), np.float32) if value is None else np.asarray(numpy_helper.to_array(value)).reshape(())
    return [c.e.broadcast_to(c.e.const(fill), c.ints(0, "the shape"))]


@converts("Trilu")
def triangle(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    offset = int(c.static(1, "the diagonal").reshape(())) if c.has(1) else 0
    ones = np.ones(x.type.shape[-2:], bool)
    kept = np.triu(ones, offset) if c.attr("upper", 1) else np.tril(ones, offset)
    return [c.e.where(c.e.const(kept), x, 0.0)]


@converts("DepthToSpace")
def depth_to_space(c: NodeContext) -> Sequence[Operand]:
    x, block = c.value(0), int(c.attr("blocksize", 1))
    n, channels, h, w = x.type.shape
    depth = channels // block**2
    if c.attr("mode", "DCR") == "DCR":
        split_up, order = (n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split_up, order = (n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3)
    moved = c.e.transpose(c.e.reshape(x, split_up), order)
    return [c.e.reshape(moved, (n, depth, h * block, w * block))]


@converts("SpaceToDepth")
def space_to_depth(c: NodeContext) -> Sequence[Operand]:
    x, block = c.value(0), int(c.attr("blocksize", 1))
    n, channels, h, w = x.type.shape
    order = (0, 3, 5, 1, 2, 4) if c.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = c.e.transpose(c.e.reshape(x, (n, channels, h // block, block, w // block, block)), order)
    return [c.e.reshape(moved, (n, channels * block**2, h // block, w // block))]


@converts("EyeLike")
def eye_like(c: NodeContext) -> Sequence[Operand]:
    rows, columns = c.shape(0)
    given = c.attr("dtype", 0)
    dtype = dtype_of(given, c.where) if given else c.value(0).type.dtype
    eye: Array = np.eye(rows, columns, k=c.attr("k", 0)).astype(dtype.numpy)
    return [eye]
