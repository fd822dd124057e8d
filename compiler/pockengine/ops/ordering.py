"""Ops that go through an axis in order: the indices of its greatest elements, and cumulative sums and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, DType, Node, TensorType, Value
from .axes import of_attribute
from .emitter import Emitter
from .registry import LINEAR, AxisAttr, Kind, Op, Sample, Vjp, register


def _top_k_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    axis, k, shape = int(attrs["axis"]), int(attrs["k"]), inputs[0].shape
    if not 0 <= k <= shape[axis]:
        raise ModelError(f"there are no {k} elements along axis {axis} of {inputs[0]}")
    return (TensorType(DType.I64, (*shape[:axis], k, *shape[axis + 1 :])),)


def _top_k(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    """Equal elements by position; NaN counts as greatest."""
    x, axis = inputs[0], int(attrs["axis"])
    if attrs["largest"]:
        # A stable ascending order of the flipped axis, flipped, is descending with the first of equals first.
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    return [np.take(order, range(int(attrs["k"])), axis=axis).astype(np.int64)]


register(
    Op(
        "top_k",
        Kind.MOVEMENT,
        _top_k_type,
        _top_k,
        cost=lambda i, o, a: i[0].size * max(1, o[0].size.bit_length()),
        axes=of_attribute("axis"),
        axis_attrs={"axis": AxisAttr.ONE},
        samples=(
            Sample(("f32[3,17]",), {"axis": 1, "k": 5, "largest": True}),
            Sample(("f32[4,7,3]",), {"axis": 1, "k": 7, "largest": False}),
            Sample(("i64[2,30]",), {"axis": 1, "k": 11, "largest": True}, ints=6),
            Sample(("i64[30,2]",), {"axis": 0, "k": 30, "largest": False}, ints=6),
            Sample(("f32[9]",), {"axis": 0, "k": 1, "largest": True}),
        ),
    )
)


def _cumulative(function: Callable[..., Array], identity: int) -> Callable[[Sequence[Array], Attrs], Sequence[Array]]:
    def reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
        x, axis = inputs[0], int(attrs["axis"])
        ordered = np.flip(x, axis) if attrs["reverse"] else x
        if attrs["exclusive"]:
            start = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), identity, x.dtype)
            ordered = np.concatenate([start, ordered], axis).take(range(x.shape[axis]), axis)
        total = function(ordered, axis=axis, dtype=x.dtype)
        return [np.asarray(np.flip(total, axis), order="C") if attrs["reverse"] else total]

    return reference


def _later(e: Emitter, node: Node, dy: Value) -> Value:
    """What each element contributes to: the cumulative sum the other way."""
    return e.op("cumsum", dy, **{**node.attrs, "reverse": not node.attrs["reverse"]})


def _cumsum_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return _later(e, node, dys[0])


def _cumprod_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """The later products over the element. The first zero along the axis gets those in which it is left out; beyond it,
    all are zero."""
    (x,), dy = node.inputs, dys[0]
    zero = e.op("equal", x, e.scalar(0.0, x))
    number = e.op("cumsum", e.cast(zero, x.type.dtype), **{**node.attrs, "exclusive": False})
    first = e.op("logical_and", zero, e.op("equal", number, e.scalar(1.0, x)))
    without = e.op("cumprod", e.where(first, 1.0, x), **node.attrs)

    def shares(products: Value) -> Value:
        """Products of zero have no share, of an infinite gradient either."""
        nothing = e.op("equal", products, e.scalar(0.0, x))
        return _later(e, node, e.where(nothing, 0.0, e.mul(dy, products)))

    usual = e.div(shares(node.output), e.where(zero, 1.0, x))
    return e.where(first, shares(without), usual)


def _register(
    name: str, function: Callable[..., Array], identity: int, vjp: Vjp, singular: tuple[Sample, ...] | str
) -> None:
    register(
        Op(
            name,
            Kind.MOVEMENT,
            lambda inputs, attrs: (inputs[0],),
            _cumulative(function, identity),
            vjps=(vjp,),
            axes=of_attribute("axis"),
            axis_attrs={"axis": AxisAttr.ONE},
            samples=tuple(
                Sample((shape,), {"axis": axis, "exclusive": exclusive, "reverse": reverse}, low=0.5)
                for shape, axis in (("f32[3,7]", 1), ("f32[4,3,70]", 1), ("i64[5]", 0))
                for exclusive in (False, True)
                for reverse in (False, True)
            ),
            singular=singular,
        )
    )


_WITH_ZEROS = (0.0, 2.0, 3.0, 2.0, 0.0, 3.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0)
_register("cumsum", np.cumsum, 0, _cumsum_vjp, LINEAR)
_register(
    "cumprod",
    np.cumprod,
    1,
    _cumprod_vjp,
    tuple(
        Sample(("f32[5,3]",), {"axis": 1, "exclusive": exclusive, "reverse": reverse}, fixed=((0, _WITH_ZEROS),))
        for exclusive in (False, True)
        for reverse in (False, True)
    ),
)
