"""Inverse circular and hyperbolic functions, written so that small arguments keep their digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import Value
from ...ops import Emitter
from .registry import NodeContext, Operand, converts


def _tan(e: Emitter, x: Value) -> Value:
    return e.op("div", e.op("sin", x), e.op("cos", x))


def _asin(e: Emitter, x: Value) -> Value:
    """2 atan(x / (1 + sqrt(1 - x^2)))"""
    return e.mul(e.op("atan", e.div(x, e.add(_cosine_of_asin(e, x), 1.0))), 2.0)


def _cosine_of_asin(e: Emitter, x: Value) -> Value:
    """sqrt((1 - x)(1 + x))"""
    return e.op("sqrt", e.mul(e.sub(1.0, x), e.add(x, 1.0)))


def _acos(e: Emitter, x: Value) -> Value:
    """2 atan(sqrt(1 - x) / sqrt(1 + x)), by two roots so that -1 gives pi."""
    return e.mul(e.op("atan", e.div(e.op("sqrt", e.sub(1.0, x)), e.op("sqrt", e.add(x, 1.0)))), 2.0)


def _sinh(e: Emitter, x: Value) -> Value:
    return e.mul(e.sub(e.op("expm1", x), e.op("expm1", e.op("neg", x))), 0.5)


def _cosh(e: Emitter, x: Value) -> Value:
    return e.mul(e.add(e.op("exp", x), e.op("exp", e.op("neg", x))), 0.5)


def _asinh(e: Emitter, x: Value) -> Value:
    """s log1p(m + m^2 / (1 + sqrt(1 + m^2))) with s = 1 or -1 and m = s x; s is not 0 at 0, where the slope is 1."""
    side = e.where(e.less(x, 0.0), e.scalar(-1.0, x), e.scalar(1.0, x))
    m = e.mul(x, side)
    tail = e.mul(m, e.div(m, e.add(e.op("sqrt", e.add(e.mul(m, m), 1.0)), 1.0)))
    return e.mul(e.op("log1p", e.add(m, tail)), side)


def _acosh(e: Emitter, x: Value) -> Value:
    """log1p(t + sqrt(2 t + t^2)) with t = x - 1"""
    t = e.sub(x, 1.0)
    return e.op("log1p", e.add(t, e.op("sqrt", e.mul(t, e.add(t, 2.0)))))


def _atanh(e: Emitter, x: Value) -> Value:
    """log1p(2 x / (1 - x)) / 2"""
    return e.mul(e.op("log1p", e.div(e.mul(x, 2.0), e.sub(1.0, x))), 0.5)


_FUNCTIONS: dict[str, Callable[[Emitter, Value], Value]] = {
    "Atan": lambda e, x: e.op("atan", x),
    "Tan": _tan,
    "Asin": _asin,
    "Acos": _acos,
    "Sinh": _sinh,
    "Cosh": _cosh,
    "Asinh": _asinh,
    "Acosh": _acosh,
    "Atanh": _atanh,
}


@converts(*_FUNCTIONS)
def function(c: NodeContext) -> Sequence[Operand]:
    return [_FUNCTIONS[c.node.op_type](c.e, c.value(0))]
