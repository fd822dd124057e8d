"""Circular and hyperbolic functions and their inverses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import Value
from ...ops import Emitter
from .registry import NodeContext, Operand, converts


def _tan(e: Emitter, x: Value) -> Value:
    return e.op("div", e.op("sin", x), e.op("cos", x))


def _sinh(e: Emitter, x: Value) -> Value:
    return e.mul(e.sub(e.op("expm1", x), e.op("expm1", e.op("neg", x))), 0.5)


def _cosh(e: Emitter, x: Value) -> Value:
    return e.mul(e.add(e.op("exp", x), e.op("exp", e.op("neg", x))), 0.5)


_FUNCTIONS: dict[str, Callable[[Emitter, Value], Value]] = {"Tan": _tan, "Sinh": _sinh, "Cosh": _cosh}
_OPERATORS = ("Atan", "Asin", "Acos", "Asinh", "Acosh", "Atanh")


@converts(*_FUNCTIONS)
def function(c: NodeContext) -> Sequence[Operand]:
    return [_FUNCTIONS[c.node.op_type](c.e, c.value(0))]


@converts(*_OPERATORS)
def inverse(c: NodeContext) -> Sequence[Operand]:
    return [c.e.op(c.node.op_type.lower(), c.value(0))]
