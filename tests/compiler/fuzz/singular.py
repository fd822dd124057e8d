"""Random nodes anywhere, also where functions have no derivative or an infinite one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from pockengine.ir import Value

from .elementwise import partner
from .sketch import Draw, Sketch

_T = TypeVar("_T")

UNARY = (
    *("abs", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "erf", "sigmoid"),
    *("atan", "asin", "acos", "asinh", "acosh", "atanh", "sign", "floor", "round", "softplus", "silu", "entropy"),
    *("logit", "sinc", "neg"),
)
BINARY = (
    *("add", "sub", "mul", "div", "maximum", "minimum", "pow", "atan2", "xlogy", "log_add_exp"),
    *("squared_error", "absolute_error"),
)
BOUNDS = ((0.0, math.inf), (0.0, 6.0), (-1.0, 1.0), (-math.inf, 0.0), (0.5, 0.5))


def one_of(s: Sketch, choices: Sequence[_T]) -> _T:
    """One of them, each as likely: hypothesis would nearly always take the first."""
    return choices[int(s.rng.integers(len(choices)))]


def _either(s: Sketch) -> bool:
    return one_of(s, (False, True))


def _axis(s: Sketch, x: Value) -> int:
    return int(s.rng.integers(x.type.rank))


def unary(draw: Draw, s: Sketch, x: Value) -> Value:
    return s.e.op(one_of(s, UNARY), x)


def bounded(draw: Draw, s: Sketch, x: Value) -> Value:
    low, high = one_of(s, BOUNDS)
    kind = one_of(s, ("clip", "clamp", "clamp", "tensors"))
    if kind != "tensors":
        return s.e.op(kind, x, lo=low, hi=high)
    bounds = [s.param("bound", *x.type.shape) for _ in range(2)]
    return s.e.op("clamp", x, *bounds)


def binary(draw: Draw, s: Sketch, x: Value) -> Value:
    other = partner(draw, s, x)
    name = one_of(s, BINARY)
    return s.e.op(name, *((x, other) if _either(s) else (other, x)))


def reduction(draw: Draw, s: Sketch, x: Value) -> Value:
    e = s.e
    if not x.type.rank:
        return e.op("sqrt", x)
    last = _axis(s, x)
    axes = tuple(axis for axis in range(x.type.rank) if axis == last or _either(s))
    plain = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "first_maximum", "first_minimum", "l2_norm")
    name = one_of(s, (*plain, "log_sum_exp", "power_norm", "standard_deviation"))
    if name == "power_norm":
        return e.op(name, x, axes=axes, p=one_of(s, (0.5, 1.5, 3.0)))
    if name == "standard_deviation":
        return e.op(name, x, axes=axes, correction=int(_either(s)))
    return e.op(name, x, axes=axes)


def rows(draw: Draw, s: Sketch, x: Value) -> Value:
    if not x.type.rank:
        return s.e.op("tanh", x)
    axis = _axis(s, x)
    hidden = s.e.where(s.e.less(x, 0.5), -math.inf, x) if _either(s) else x
    return s.e.op(one_of(s, ("softmax", "log_softmax", "masked_softmax")), hidden, axis=axis)


def over_norm(draw: Draw, s: Sketch, x: Value) -> Value:
    """As PyTorch's `normalize`."""
    if not x.type.rank:
        return s.e.op("abs", x)
    size = s.e.op("l2_norm", x, axes=(_axis(s, x),))
    return s.e.div(x, s.e.op("clamp", size, lo=one_of(s, (0.25, 1.0)), hi=math.inf))


def product(draw: Draw, s: Sketch, x: Value) -> Value:
    if not x.type.rank:
        return s.e.mul(x, x)
    axis, exclusive, reverse = _axis(s, x), _either(s), _either(s)
    return s.e.op("cumprod", x, axis=axis, exclusive=exclusive, reverse=reverse)


NODES = (*(unary,) * 6, bounded, binary, binary, reduction, reduction, rows, over_norm, product)
