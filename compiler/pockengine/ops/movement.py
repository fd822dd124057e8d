"""Ops that only move data: shape changes, slices, concatenation, gather and scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, DType, Node, TensorType, Value
from .axes import broadcast, of_shape, reshaped, transposed
from .emitter import Emitter
from .registry import LINEAR, MOVES, AxisAttr, Carried, Indices, Kind, Op, Sample, Vjp, register


def ints(attrs: Attrs, key: str) -> tuple[int, ...]:
    """A tuple-of-int attribute."""
    value = attrs[key]
    assert isinstance(value, tuple)
    return tuple(int(v) for v in value)


def exchanged(rank: int) -> tuple[int, ...]:
    """The permutation of so many axes that exchanges the last two."""
    return (*range(rank - 2), rank - 1, rank - 2)


def _free(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Attrs) -> int:
    return 0


def _reshape_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    shape = ints(attrs, "shape")
    if math.prod(shape) != inputs[0].size:
        raise ModelError(f"cannot reshape {inputs[0]} to {list(shape)}")
    return (inputs[0].with_shape(shape),)


register(
    Op(
        "reshape",
        Kind.MOVEMENT,
        _reshape_type,
        lambda inputs, attrs: [inputs[0].reshape(ints(attrs, "shape"))],
        vjps=(lambda e, n, dys: e.reshape(dys[0], n.inputs[0].type.shape),),
        cost=_free,
        singular=MOVES,
        axes=reshaped,
        sized=of_shape,
        view=True,
        carries=Carried.ALL,
        selectable=True,
        samples=(Sample(("f32[3,4]",), {"shape": (2, 6)}), Sample(("f32[1,5]",), {"shape": (5,)})),
    )
)

register(
    Op(
        "transpose",
        Kind.MOVEMENT,
        lambda inputs, attrs: (inputs[0].with_shape(tuple(inputs[0].shape[p] for p in ints(attrs, "perm"))),),
        lambda inputs, attrs: [np.transpose(inputs[0], ints(attrs, "perm"))],
        vjps=(lambda e, n, dys: e.transpose(dys[0], [int(i) for i in np.argsort(ints(n.attrs, "perm"))]),),
        cost=_free,
        singular=MOVES,
        axes=transposed,
        carries=Carried.ALL,
        selectable=True,
        samples=(
            Sample(("f32[3,4]",), {"perm": (1, 0)}),
            Sample(("f32[2,3,4,5]",), {"perm": (0, 2, 3, 1)}),
            Sample(("f32[2,3,4,5]",), {"perm": (0, 3, 1, 2)}),
            Sample(("i64[2,3,4]",), {"perm": (2, 1, 0)}),
            Sample(("f32[33,4,65]",), {"perm": (1, 0, 2)}),
        ),
    )
)


def _broadcast_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    shape = ints(attrs, "shape")
    if tuple(np.broadcast_shapes(inputs[0].shape, shape)) != shape:
        raise ModelError(f"cannot broadcast {inputs[0]} to {list(shape)}")
    return (inputs[0].with_shape(shape),)


register(
    Op(
        "broadcast_to",
        Kind.MOVEMENT,
        _broadcast_type,
        lambda inputs, attrs: [np.broadcast_to(inputs[0], ints(attrs, "shape"))],
        vjps=(lambda e, n, dys: e.unbroadcast(dys[0], n.inputs[0].type.shape),),
        cost=_free,
        singular=MOVES,
        axes=broadcast,
        sized=of_shape,
        carries=Carried.ALL,
        axis_attrs={"shape": AxisAttr.EACH},
        samples=(
            Sample(("f32[4]",), {"shape": (3, 4)}),
            Sample(("f32[3,1]",), {"shape": (2, 3, 5)}),
            Sample(("i64[]",), {"shape": (3,)}),
        ),
    )
)


def _slice_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    triples = tuple(zip(ints(attrs, "starts"), ints(attrs, "stops"), ints(attrs, "steps"), strict=True))
    shape = tuple(max(0, -(-(stop - start) // step)) for start, stop, step in triples)
    for size, (start, _, step), count in zip(inputs[0].shape, triples, shape, strict=True):
        last = start + (count - 1) * step
        if count and not (0 <= start < size and 0 <= last < size):
            raise ModelError(f"a slice reads the elements {start} to {last} of an axis of {inputs[0]} that has {size}")
    return (inputs[0].with_shape(shape),)


def _slice(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    triples = zip(ints(attrs, "starts"), ints(attrs, "stops"), ints(attrs, "steps"), strict=True)
    return [inputs[0][tuple(slice(*triple) for triple in triples)]]


def _slice_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """Zeros everywhere else: pad, with `step - 1` zeros between the elements."""
    starts, steps = ints(node.attrs, "starts"), ints(node.attrs, "steps")
    taken, full = node.output.type.shape, node.inputs[0].type.shape
    spans = [(n - 1) * step + 1 for n, step in zip(taken, steps, strict=True)]
    high = tuple(size - start - span for size, start, span in zip(full, starts, spans, strict=True))
    return e.op("pad", dys[0], low=starts, high=high, interior=tuple(s - 1 for s in steps), value=0.0)


register(
    Op(
        "slice",
        Kind.MOVEMENT,
        _slice_type,
        _slice,
        vjps=(_slice_vjp,),
        cost=_free,
        singular=MOVES,
        carries=Carried.SOME,
        axis_attrs={"starts": AxisAttr.EACH, "stops": AxisAttr.EACH, "steps": AxisAttr.EACH},
        samples=(
            Sample(("f32[5,6]",), {"starts": (1, 0), "stops": (4, 6), "steps": (1, 1)}),
            Sample(("f32[5,7,3]",), {"starts": (0, 1, 1), "stops": (5, 7, 3), "steps": (2, 3, 1)}),
            Sample(("i64[4]",), {"starts": (1,), "stops": (3,), "steps": (1,)}),
        ),
    )
)


def _pad_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    parts = zip(inputs[0].shape, ints(attrs, "low"), ints(attrs, "high"), ints(attrs, "interior"), strict=True)
    return (inputs[0].with_shape(tuple(low + high + n + max(0, n - 1) * gap for n, low, high, gap in parts)),)


def _pad(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    x = inputs[0]
    (result_type,) = _pad_type([TensorType(DType.of(x.dtype), tuple(x.shape))], attrs)
    result = np.full(result_type.shape, attrs["value"], x.dtype)
    parts = zip(x.shape, ints(attrs, "low"), ints(attrs, "interior"), strict=True)
    result[tuple(slice(low, low + max(0, n - 1) * (gap + 1) + min(n, 1), gap + 1) for n, low, gap in parts)] = x
    return [result]


def _pad_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    low, gaps = ints(node.attrs, "low"), ints(node.attrs, "interior")
    shape = node.inputs[0].type.shape
    stops = tuple(start + (n - 1) * (gap + 1) + 1 for start, n, gap in zip(low, shape, gaps, strict=True))
    return e.op("slice", dys[0], starts=low, stops=stops, steps=tuple(gap + 1 for gap in gaps))


register(
    Op(
        "pad",
        Kind.MOVEMENT,
        _pad_type,
        _pad,
        vjps=(_pad_vjp,),
        cost=_free,
        singular=MOVES,
        axis_attrs={"low": AxisAttr.EACH, "high": AxisAttr.EACH, "interior": AxisAttr.EACH},
        samples=(
            Sample(("f32[3,4]",), {"low": (1, 0), "high": (2, 3), "interior": (0, 0), "value": 0.5}),
            Sample(("f32[3,2,4]",), {"low": (0, 1, 0), "high": (0, 0, 1), "interior": (1, 2, 0), "value": 0.0}),
            Sample(("i64[3]",), {"low": (1,), "high": (1,), "interior": (0,), "value": 7}),
        ),
    )
)


def _concat_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    axis = int(attrs["axis"])
    for t in inputs[1:]:
        if t.shape[:axis] + t.shape[axis + 1 :] != inputs[0].shape[:axis] + inputs[0].shape[axis + 1 :]:
            raise ModelError(f"cannot concatenate {inputs[0]} and {t} along axis {axis}")
    total = sum(t.shape[axis] for t in inputs)
    return (inputs[0].with_shape((*inputs[0].shape[:axis], total, *inputs[0].shape[axis + 1 :])),)


def _concat_vjp(index: int) -> Vjp:
    def vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
        axis = int(node.attrs["axis"])
        if len(node.inputs) > FEW_PARTS:
            sizes = tuple(value.type.shape[axis] for value in node.inputs)
            return e.multi("split", [dys[0]], axis=axis, sizes=sizes)[index]
        starts, stops = [0] * node.output.type.rank, list(node.output.type.shape)
        starts[axis] = sum(value.type.shape[axis] for value in node.inputs[:index])
        stops[axis] = starts[axis] + node.inputs[index].type.shape[axis]
        return e.op("slice", dys[0], starts=tuple(starts), stops=tuple(stops), steps=(1,) * len(starts))

    return vjp


FEW_PARTS = 4
"""Up to so many inputs, the gradient of a concat is a slice for each; a longer one is split by one kernel (equal nodes
become one later)."""
MAX_CONCAT = 64
"""The most inputs one concat takes; the importer chains longer ones."""

register(
    Op(
        "concat",
        Kind.MOVEMENT,
        _concat_type,
        lambda inputs, attrs: [np.concatenate(inputs, axis=int(attrs["axis"]))],
        vjps=tuple(_concat_vjp(i) for i in range(MAX_CONCAT)),
        cost=_free,
        singular=MOVES,
        axis_attrs={"axis": AxisAttr.ONE},
        samples=(
            Sample(("f32[2,3]", "f32[2,5]"), {"axis": 1}),
            Sample(("f32[2,3,4]", "f32[1,3,4]", "f32[3,3,4]"), {"axis": 0}),
            Sample(("i64[2]", "i64[1]"), {"axis": 0}),
            Sample(("f32[2,1,3]", "f32[2,2,3]", *["f32[2,1,3]"] * 3), {"axis": 1}),
        ),
    )
)


def _gather_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    axis, shape = int(attrs["axis"]), inputs[0].shape
    return (inputs[0].with_shape((*shape[:axis], *inputs[1].shape, *shape[axis + 1 :])),)


def _gather_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """What was read at the index `padding` (PyTorch's `padding_idx`) gives no gradient back."""
    (dy,), (x, indices), axis = dys, node.inputs, int(node.attrs["axis"])
    if "padding" in node.attrs:
        is_padding = e.op("equal", indices, e.const(int(node.attrs["padding"]), indices.type.dtype))
        dy = e.where(e.reshape(is_padding, indices.type.shape + (1,) * (x.type.rank - axis - 1)), 0.0, dy)
    return e.op("scatter_add", dy, indices, axis=axis, size=x.type.shape[axis])


register(
    Op(
        "gather",
        Kind.MOVEMENT,
        _gather_type,
        lambda inputs, attrs: [np.take(inputs[0], inputs[1], axis=int(attrs["axis"]))],
        vjps=(_gather_vjp, None),
        cost=_free,
        singular=MOVES,
        axis_attrs={"axis": AxisAttr.ONE},
        indices=Indices(1, lambda n: n.inputs[0].type.shape[int(n.attrs["axis"])], reads=True),
        samples=(
            Sample(("f32[3,5]", "i64[2,4]"), {"axis": 0}),
            Sample(("f32[2,3,5]", "i64[4]"), {"axis": 1}),
            Sample(("f32[4,3]", "i64[2]"), {"axis": 1}),
            Sample(("f32[3,5]", "i32[]"), {"axis": 0}),
        ),
    )
)


def _scatter_add_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    axis, rank = int(attrs["axis"]), inputs[1].rank
    shape = inputs[0].shape
    return (inputs[0].with_shape((*shape[:axis], int(attrs["size"]), *shape[axis + rank :])),)


def _scatter_add(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    updates, indices = inputs
    axis, rank = int(attrs["axis"]), indices.ndim
    result = np.zeros((*updates.shape[:axis], int(attrs["size"]), *updates.shape[axis + rank :]), updates.dtype)
    flat = updates.reshape(*updates.shape[:axis], indices.size, *updates.shape[axis + rank :])
    np.add.at(np.moveaxis(result, axis, 0), indices.reshape(-1), np.moveaxis(flat, axis, 0))
    return [result]


register(
    Op(
        "scatter_add",
        Kind.MOVEMENT,
        _scatter_add_type,
        _scatter_add,
        vjps=(lambda e, n, dys: e.op("gather", dys[0], n.inputs[1], axis=int(n.attrs["axis"])), None),
        cost=lambda i, o, a: i[0].size,
        singular=LINEAR,
        axis_attrs={"axis": AxisAttr.ONE},
        indices=Indices(1, lambda n: int(n.attrs["size"])),
        samples=(
            Sample(("f32[2,4,5]", "i64[2,4]"), {"axis": 0, "size": 3}),
            Sample(("f32[2,4,5]", "i64[4]"), {"axis": 1, "size": 3}),
            Sample(("f32[3,4]", "i64[4]"), {"axis": 1, "size": 6}),
            Sample(("f32[3,5]", "i64[3]"), {"axis": 0, "size": 19}),
            Sample(("f32[3,2,5]", "i64[2]"), {"axis": 1, "size": 9}),
        ),
    )
)


def _scatter_set(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    result = inputs[0].copy()
    result[(slice(None),) * int(attrs["axis"]) + (inputs[1],)] = inputs[2]
    return [result]


def _scatter_set_vjp_x(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return e.op("scatter_set", dys[0], node.inputs[1], e.zeros(node.inputs[2]), **node.attrs)


register(
    Op(
        "scatter_set",
        Kind.MOVEMENT,
        lambda inputs, attrs: (inputs[0],),
        _scatter_set,
        # Which of several updates of one place wins is not defined, so neither is their gradient.
        vjps=(_scatter_set_vjp_x, None, lambda e, n, dys: e.op("gather", dys[0], n.inputs[1], **n.attrs)),
        cost=_free,
        singular=MOVES,
        axis_attrs={"axis": AxisAttr.ONE},
        indices=Indices(1, lambda n: n.inputs[0].type.shape[int(n.attrs["axis"])]),
        samples=(
            Sample(("f32[5,4]", "i64[2]", "f32[2,4]"), {"axis": 0}, fixed=((1, (3, 1)),)),
            Sample(("f32[3,6,2,2]", "i64[3]", "f32[3,3,2,2]"), {"axis": 1}, fixed=((1, (0, 2, 5)),)),
        ),
    )
)
