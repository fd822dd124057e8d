"""Scattering with a reduction: what is written meets what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, Node, TensorType, Value
from .emitter import Emitter
from .registry import AxisAttr, Indices, Kind, Op, Sample, register

REDUCTIONS = {"mul": np.multiply, "max": np.maximum, "min": np.minimum}
"""Addition is `add(x, scatter_add(...))`."""


def _type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, indices, updates = inputs
    axis = int(attrs["axis"])
    if updates.shape != (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]):
        raise ModelError(f"updates {updates} at indices {indices} do not fit {x} along axis {axis}")
    return (x,)


def _scatter_reduce(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    result = inputs[0].copy()
    function = REDUCTIONS[str(attrs["reduction"])]
    place: Any = (slice(None),) * int(attrs["axis"]) + (inputs[1],)
    function.at(result, place, inputs[2])
    return [result]


def _gather(e: Emitter, node: Node, x: Value) -> Value:
    return e.op("gather", x, node.inputs[1], axis=int(node.attrs["axis"]))


def _shared(e: Emitter, node: Node, dy: Value) -> tuple[Value, Value, Value]:
    """For max and min: which elements of x and of the updates attain the result, and the gradient divided among
    them."""
    x, indices, updates = node.inputs
    axis = int(node.attrs["axis"])
    kept = e.cast(e.op("equal", x, node.output), x.type.dtype)
    taken = e.cast(e.op("equal", updates, _gather(e, node, node.output)), x.type.dtype)
    count = e.add(kept, e.op("scatter_add", taken, indices, axis=axis, size=x.type.shape[axis]))
    return kept, taken, e.div(dy, count)


def _of_x(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    if node.attrs["reduction"] == "mul":
        updates = node.inputs[2]
        one = e.broadcast_to(e.scalar(1.0, node.inputs[0]), node.inputs[0].type.shape)
        return e.mul(dys[0], e.op("scatter_reduce", one, node.inputs[1], updates, **node.attrs))
    kept, _, share = _shared(e, node, dys[0])
    return e.mul(kept, share)


def _of_updates(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    if node.attrs["reduction"] == "mul":
        return _of_factors(e, node, dys[0])
    _, taken, share = _shared(e, node, dys[0])
    return e.mul(taken, _gather(e, node, share))


def _of_factors(e: Emitter, node: Node, dy: Value) -> Value:
    """The product over the factor; for the only zero of a place, the product without it."""
    x, indices, updates = node.inputs
    zero = e.op("equal", updates, e.scalar(0.0, updates))
    count = e.op(
        "scatter_add",
        e.cast(zero, x.type.dtype),
        indices,
        axis=int(node.attrs["axis"]),
        size=x.type.shape[int(node.attrs["axis"])],
    )
    alone = e.op("logical_and", zero, e.op("equal", _gather(e, node, count), e.scalar(1.0, x)))
    without = e.op("scatter_reduce", x, indices, e.where(alone, 1.0, updates), **node.attrs)
    usual = e.div(_gather(e, node, e.mul(dy, node.output)), e.where(zero, 1.0, updates))
    return e.where(alone, _gather(e, node, e.mul(dy, without)), usual)


_AT_ZEROS = (
    (0, (1.0, 0.0, 3.0, -1.0)),
    (1, (0, 0, 1, 1, 2, 2)),
    (2, (0.0, 1.0, 0.0, 0.0, 3.0, 3.0)),
)
register(
    Op(
        "scatter_reduce",
        Kind.MOVEMENT,
        _type,
        _scatter_reduce,
        vjps=(_of_x, None, _of_updates),
        cost=lambda i, o, a: i[2].size,
        axis_attrs={"axis": AxisAttr.ONE},
        indices=Indices(1, lambda n: n.inputs[0].type.shape[int(n.attrs["axis"])]),
        samples=tuple(
            Sample(
                (f"{t}[{x}]", "i64[4]", f"{t}[{u}]"),
                {"axis": axis, "reduction": r},
                low=0.5,
                fixed=((1, (1, 2, 1, 0)),),
            )
            for r in REDUCTIONS
            for t, x, u, axis in (("f32", "5,3", "4,3", 0), ("f32", "2,5", "2,4", 1), ("i64", "6", "4", 0))
        ),
        singular=tuple(
            Sample(("f32[4]", "i64[6]", "f32[6]"), {"axis": 0, "reduction": r}, fixed=_AT_ZEROS) for r in REDUCTIONS
        ),
    )
)
