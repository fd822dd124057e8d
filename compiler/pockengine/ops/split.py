"""Splitting a tensor along one axis: one node with many results, so that all their gradients meet in one concat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, Node, TensorType, Value
from .emitter import Emitter
from .movement import MAX_CONCAT, ints
from .registry import MOVES, AxisAttr, Kind, Op, Sample, register


def _split_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), axis, sizes = inputs, int(attrs["axis"]), ints(attrs, "sizes")
    if sum(sizes) != x.shape[axis]:
        raise ModelError(f"cannot split {x} along axis {axis} into {list(sizes)}")
    return tuple(x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes)


def _split(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    return np.split(inputs[0], np.cumsum(ints(attrs, "sizes"))[:-1], axis=int(attrs["axis"]))


def _split_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return joined(e, dys, int(node.attrs["axis"]))


def joined(e: Emitter, parts: Sequence[Value], axis: int) -> Value:
    """Any number of tensors concatenated, as a tree of concats that each take no more than they may."""
    while len(parts) > 1:
        groups = [parts[start : start + MAX_CONCAT] for start in range(0, len(parts), MAX_CONCAT)]
        parts = [e.op("concat", *group, axis=axis) if len(group) > 1 else group[0] for group in groups]
    return parts[0]


register(
    Op(
        "split",
        Kind.MOVEMENT,
        _split_type,
        _split,
        vjps=(_split_vjp,),
        cost=lambda i, o, a: 0,
        singular=MOVES,
        axis_attrs={"axis": AxisAttr.ONE},
        samples=(
            Sample(("f32[2,8]",), {"axis": 1, "sizes": (3, 1, 4)}),
            Sample(("f32[3,2,5]",), {"axis": 0, "sizes": (1, 1, 1)}),
            Sample(("f32[2,6,3]",), {"axis": 1, "sizes": (2, 4)}),
            Sample(("i64[4]",), {"axis": 0, "sizes": (3, 1)}),
        ),
    )
)
