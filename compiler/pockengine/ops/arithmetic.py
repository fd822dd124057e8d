"""Elementwise arithmetic, comparison and choice of two and three operands, which broadcast as numpy has it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir import Array, Attrs, Node, TensorType, Value
from .elementwise import Drawn, binary, broadcast_shape, broadcast_type, comparison
from .emitter import Emitter
from .registry import LINEAR, Kind, Op, Sample, Vjp, register


def _divide(a: Array, b: Array) -> Array:
    """True division of floats; integers truncate towards zero as in C and ONNX."""
    if a.dtype.kind == "f" or a.dtype.kind == "V":
        return np.asarray(a / b)
    divisor = np.where(b == 0, 1, b).astype(b.dtype)
    quotient = a // divisor
    return np.asarray(quotient + ((quotient < 0) & (quotient * divisor != a)))


_ZEROS = ((0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (1.0, -0.0), (0.0, 2.0), (math.inf, 1.0), (1.0, math.inf))
_EXTREMES = (*_ZEROS, (0.0, math.inf), (math.inf, math.inf), (math.inf, -math.inf), (math.nan, 1.0), (1.0, math.nan))
binary(
    "add",
    np.add,
    (lambda e, n, dy: dy, lambda e, n, dy: dy),
    singular=LINEAR,
    selectable=True,
)
binary(
    "sub",
    np.subtract,
    (lambda e, n, dy: dy, lambda e, n, dy: e.op("neg", dy)),
    singular=LINEAR,
)
binary(
    "mul",
    np.multiply,
    (lambda e, n, dy: e.mul(dy, n.inputs[1]), lambda e, n, dy: e.mul(dy, n.inputs[0])),
    singular=_EXTREMES,
    selectable=True,
)
binary(
    "div",
    _divide,
    (lambda e, n, dy: e.div(dy, n.inputs[1]), lambda e, n, dy: e.op("neg", e.div(e.mul(dy, n.output), n.inputs[1]))),
    drawn=Drawn(low=0.3, dtypes=("f32", "i64")),
    singular=_EXTREMES,
)


def _pick(e: Emitter, n: Node, dy: Value, first: bool) -> Value:
    """All where the own side wins, half where both are equal, all where one is NaN, as in PyTorch."""
    mine, other = n.inputs if first else n.inputs[::-1]
    loses = e.less(mine, other) if n.op == "maximum" else e.less(other, mine)
    return e.where(loses, 0.0, e.where(e.op("equal", mine, other), e.mul(dy, 0.5), dy))


for _name, _function in (("maximum", np.maximum), ("minimum", np.minimum)):
    binary(
        _name,
        _function,
        (lambda e, n, dy: _pick(e, n, dy, True), lambda e, n, dy: _pick(e, n, dy, False)),
        singular=_EXTREMES,
    )


def _power_of_base(e: Emitter, n: Node, dy: Value) -> Value:
    """y x^(y - 1); 0 for an exponent of 0, at infinities and NaN, too."""
    x, y = n.inputs
    slope = e.mul(dy, e.mul(y, e.op("pow", x, e.sub(y, 1.0))))
    known = e.builder.consts.get(y)
    if known is not None and (known != 0).all():
        return slope
    return e.where(e.op("equal", y, e.scalar(0.0, y)), 0.0, slope)


def _power_of_exponent(e: Emitter, n: Node, dy: Value) -> Value:
    """x^y log(x); 0 at x = 0 for exponents that are not negative, where the power is flat."""
    x, y = n.inputs
    flat = e.op("logical_and", e.op("equal", x, e.scalar(0.0, x)), e.op("less_equal", e.scalar(0.0, y), y))
    return e.where(flat, 0.0, e.mul(dy, e.mul(n.output, e.op("log", x))))


binary(
    "pow",
    np.power,
    (_power_of_base, _power_of_exponent),
    drawn=Drawn(low=0.3, dtypes=("f32",)),
    flops=20,
    singular=(
        *((0.0, y) for y in (0.0, 1.0, 2.0, 0.5, -1.0, math.inf)),
        *((-2.0, y) for y in (0.0, 3.0, -1.0, 0.5)),
        *((x, y) for x in (math.inf, 1.0) for y in (0.0, 1.0, -1.0, math.inf)),
        (1e20, 2.0),
        (math.nan, 0.0),
    ),
)
binary(
    "mod",
    np.mod,
    (lambda e, n, dy: dy, lambda e, n, dy: e.op("neg", e.mul(dy, e.op("floor", e.div(*n.inputs))))),
    drawn=Drawn(low=0.3, dtypes=("f32", "i64")),
    singular=((0.0, 1.0), (2.0, 1.0), (-2.0, 1.0), (-0.5, 1.0), (0.5, -1.0), (1.0, 0.0)),
)
comparison("less", np.less)
comparison("less_equal", np.less_equal)
comparison("equal", np.equal)
binary("logical_and", np.logical_and, drawn=Drawn(dtypes=("bool",)))
binary("logical_or", np.logical_or, drawn=Drawn(dtypes=("bool",)))


def _where_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    value = broadcast_type(inputs[1:])
    return (value.with_shape(broadcast_shape(inputs[0].shape, value.shape)),)


def _where_side(index: int) -> Vjp:
    def vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
        condition, dy = node.inputs[0], dys[0]
        kept = e.where(condition, dy, 0.0) if index == 1 else e.where(condition, 0.0, dy)
        return e.unbroadcast(kept, node.inputs[index].type.shape)

    return vjp


register(
    Op(
        "where",
        Kind.ELEMENTWISE,
        _where_type,
        lambda inputs, attrs: [np.where(inputs[0], inputs[1], inputs[2])],
        vjps=(None, _where_side(1), _where_side(2)),
        samples=(
            Sample(("bool[3,5]", "f32[3,5]", "f32[3,5]")),
            Sample(("bool[3,1]", "f32[3,5]", "f32[]")),
            Sample(("bool[4]", "i64[4]", "i64[1]")),
        ),
        singular=(
            Sample(
                ("bool[4]", "f32[4]", "f32[4]"),
                fixed=((0, (1, 0, 1, 0)), (1, (0.0, math.nan, 1.0, math.inf)), (2, (math.nan, 1.0, math.inf, -1.0))),
            ),
        ),
    )
)
