"""Inverse circular and hyperbolic functions, written so that small and large arguments keep their digits. Their
gradients are PyTorch's, infinite at the ends of their domains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..ir import Attrs, Node, Value
from .composites import composite
from .emitter import Emitter
from .registry import Sample, Vjp

Function = Callable[[Emitter, Value], Value]

_LARGE = 1e9
"""From here on 1 + x^2 is x^2, in single precision by far."""


def _asin(e: Emitter, x: Value) -> Value:
    """2 atan(x / (1 + sqrt(1 - x^2)))"""
    cosine = e.op("sqrt", e.mul(e.sub(1.0, x), e.add(x, 1.0)))
    return e.mul(e.op("atan", e.div(x, e.add(cosine, 1.0))), 2.0)


def _acos(e: Emitter, x: Value) -> Value:
    """2 atan(sqrt(1 - x) / sqrt(1 + x)), by two roots so that -1 gives pi."""
    return e.mul(e.op("atan", e.div(e.op("sqrt", e.sub(1.0, x)), e.op("sqrt", e.add(x, 1.0)))), 2.0)


def _asinh(e: Emitter, x: Value) -> Value:
    """s log1p(m + m^2 / (1 + sqrt(1 + m^2))) with s = 1 or -1 and m = s x; s log(2 m) for large m."""
    side = e.where(e.less(x, 0.0), e.scalar(-1.0, x), e.scalar(1.0, x))
    m = e.mul(x, side)
    near = e.op("clip", m, lo=-math.inf, hi=_LARGE)
    tail = e.mul(near, e.div(near, e.add(e.op("sqrt", e.add(e.mul(near, near), 1.0)), 1.0)))
    far = e.add(e.op("log", m), math.log(2.0))
    return e.mul(e.where(e.less(_LARGE, m), far, e.op("log1p", e.add(near, tail))), side)


def _acosh(e: Emitter, x: Value) -> Value:
    """log1p(t + sqrt(t) sqrt(t + 2)) with t = x - 1; log(2 x) for large x."""
    t = e.op("clip", e.sub(x, 1.0), lo=-math.inf, hi=_LARGE)
    near = e.op("log1p", e.add(t, e.mul(e.op("sqrt", t), e.op("sqrt", e.add(t, 2.0)))))
    return e.where(e.less(_LARGE, x), e.add(e.op("log", x), math.log(2.0)), near)


def _atanh(e: Emitter, x: Value) -> Value:
    """log1p(2 x / (1 - x)) / 2"""
    return e.mul(e.op("log1p", e.div(e.mul(x, 2.0), e.sub(1.0, x))), 0.5)


def _slope_of_asin(e: Emitter, x: Value) -> Value:
    return e.op("rsqrt", e.mul(e.sub(1.0, x), e.add(x, 1.0)))


def _slope_of_atanh(e: Emitter, x: Value) -> Value:
    return e.op("reciprocal", e.mul(e.sub(1.0, x), e.add(x, 1.0)))


_FUNCTIONS: dict[str, tuple[Function, Function, tuple[float, float], tuple[float, ...]]] = {
    "asin": (_asin, _slope_of_asin, (-0.9, 0.9), (0.0, 1.0, -1.0, 2.0, 0.5)),
    "acos": (
        _acos,
        lambda e, x: e.op("neg", _slope_of_asin(e, x)),
        (-0.9, 0.9),
        (0.0, 1.0, -1.0, -2.0, 0.5),
    ),
    "asinh": (
        _asinh,
        lambda e, x: e.op("rsqrt", e.add(e.mul(x, x), 1.0)),
        (-2.0, 2.0),
        (0.0, -0.0, 1e10, -1e10, 1e25, math.inf, -math.inf),
    ),
    "acosh": (
        _acosh,
        lambda e, x: e.op("rsqrt", e.sub(e.mul(x, x), 1.0)),
        (1.1, 9.0),
        (1.0, 0.5, 2.0, 1e10, 1e25, math.inf),
    ),
    "atanh": (
        _atanh,
        _slope_of_atanh,
        (-0.9, 0.9),
        (0.0, 1.0, -1.0, 2.0, 0.5),
    ),
}
"""name -> (the function, its derivative, where it is tried, its singular points)."""


def _register(name: str) -> None:
    function, slope, (low, high), points = _FUNCTIONS[name]

    def expand(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
        return [function(e, inputs[0])]

    def vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
        return e.mul(dys[0], slope(e, node.inputs[0]))

    sample = Sample(("f32[3,5]",), low=low, high=high)
    composite(name, expand, (sample,), [vjp], singular=(Sample((f"f32[{len(points)}]",), fixed=((0, points),)),))


for _name in _FUNCTIONS:
    _register(_name)


def _negative(e: Emitter, x: Value) -> Value:
    """Whether x is below zero, or -0."""
    return e.op("logical_or", e.less(x, 0.0), e.less(e.op("reciprocal", x), 0.0))


def _atan2(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """The angle of the point (x, y), from -pi to pi: y comes first, as everywhere. -0 is a direction of its own."""
    y, x = inputs
    across, up = e.op("abs", x), e.op("abs", y)
    steep = e.less(across, up)
    # On the diagonals the quotient may be 0 / 0 or inf / inf.
    diagonal = e.mul(e.op("sign", x), e.op("sign", y))
    quotient = e.where(e.op("equal", across, up), diagonal, e.where(steep, e.div(x, y), e.div(y, x)))
    angle = e.op("atan", quotient)
    side = e.where(_negative(e, y), e.scalar(-1.0, y), e.scalar(1.0, y))
    behind = e.where(_negative(e, x), e.add(angle, e.mul(side, math.pi)), angle)
    return [e.where(steep, e.sub(e.mul(side, math.pi / 2), angle), behind)]


def _atan2_vjp(index: int) -> Vjp:
    def vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
        y, x = node.inputs
        square = e.add(e.mul(y, y), e.mul(x, x))
        share = e.where(e.op("equal", square, e.scalar(0.0, square)), 0.0, e.div(dys[0], square))
        slope = e.mul(share, x) if index == 0 else e.op("neg", e.mul(share, y))
        return e.unbroadcast(slope, node.inputs[index].type.shape)

    return vjp


composite(
    "atan2",
    _atan2,
    (Sample(("f32[3,5]", "f32[3,5]")), Sample(("f32[2,3,4]", "f32[3,1]"), low=0.2)),
    [_atan2_vjp(0), _atan2_vjp(1)],
    singular=(
        Sample(
            ("f32[10]", "f32[10]"),
            fixed=(
                (0, (0.0, 0.0, 0.0, -0.0, 0.0, 1.0, -1.0, -1.0, math.inf, 2.0)),
                (1, (0.0, 1.0, -1.0, -1.0, -0.0, 0.0, 0.0, -1.0, -math.inf, math.inf)),
            ),
        ),
    ),
)
