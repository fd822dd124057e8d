"""Arithmetic, comparison, logic, activation functions, casts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...errors import ModelError
from ...ir import DType, Value
from ...ops import Emitter
from .registry import NodeContext, Operand, converts, dtype_of

_UNARY = {
    "Neg": "neg",
    "Abs": "abs",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Reciprocal": "reciprocal",
    "Sin": "sin",
    "Cos": "cos",
    "Tanh": "tanh",
    "Erf": "erf",
    "Sigmoid": "sigmoid",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round",
    "Sign": "sign",
    "Not": "logical_not",
}
_BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Equal": "equal",
    "And": "logical_and",
    "Or": "logical_or",
}


@converts(*_UNARY)
def unary(c: NodeContext) -> Sequence[Operand]:
    return [c.e.op(_UNARY[c.node.op_type], c.value(0))]


@converts(*_BINARY)
def binary(c: NodeContext) -> Sequence[Operand]:
    return [c.e.op(_BINARY[c.node.op_type], c.value(0), c.value(1))]


@converts("Greater", "GreaterOrEqual")
def greater(c: NodeContext) -> Sequence[Operand]:
    op = "less" if c.node.op_type == "Greater" else "less_equal"
    return [c.e.op(op, c.value(1), c.value(0))]


@converts("Xor")
def exclusive_or(c: NodeContext) -> Sequence[Operand]:
    either = c.e.op("logical_or", c.value(0), c.value(1))
    both = c.e.op("logical_and", c.value(0), c.value(1))
    return [c.e.op("logical_and", either, c.e.op("logical_not", both))]


@converts("Min", "Max", "Sum", "Mean")
def variadic(c: NodeContext) -> Sequence[Operand]:
    op = {"Min": "minimum", "Max": "maximum"}.get(c.node.op_type, "add")
    result = c.value(0)
    for index in range(1, len(c.operands)):
        result = c.e.op(op, result, c.value(index))
    return [c.e.mul(result, 1.0 / len(c.operands)) if c.node.op_type == "Mean" else result]


@converts("Where")
def where(c: NodeContext) -> Sequence[Operand]:
    return [c.e.where(c.value(0), c.value(1), c.value(2))]


@converts("Pow")
def power(c: NodeContext) -> Sequence[Operand]:
    """Small constant exponents become products and roots: cheaper, and their gradients are defined everywhere."""
    x, exponent = c.value(0), c.constant(1)
    if exponent is not None and exponent.size == 1 and exponent.ndim <= x.type.rank and x.type.dtype.is_float:
        number = float(exponent.reshape(()))
        if number == 0.5:
            return [c.e.op("sqrt", x)]
        if number == -0.5:
            return [c.e.op("rsqrt", x)]
        if number in (-2, -1, 1, 2, 3, 4):
            factor = c.e.op("reciprocal", x) if number < 0 else x
            result = factor
            for _ in range(int(abs(number)) - 1):
                result = c.e.mul(result, factor)
            return [result]
    y = c.e.cast(c.value(1), x.type.dtype)
    return [c.e.op("pow", x, y)]


@converts("Mod")
def modulo(c: NodeContext) -> Sequence[Operand]:
    a, b = c.value(0), c.value(1)
    if not c.attr("fmod", 0):
        return [c.e.op("mod", a, b)]
    # The sign of C's fmod is that of the dividend, and the quotient is truncated.
    magnitude = c.e.op("mod", c.e.op("abs", a), c.e.op("abs", b))
    return [c.e.mul(magnitude, c.e.op("sign", a))]


@converts("Relu")
def relu(c: NodeContext) -> Sequence[Operand]:
    return [c.e.op("clip", c.value(0), lo=0.0, hi=math.inf)]


@converts("Clip")
def clip(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    low, high = c.constant(1), c.constant(2)
    if (c.has(1) and low is None) or (c.has(2) and high is None):
        x = c.e.op("maximum", x, c.value(1)) if c.has(1) else x
        return [c.e.op("minimum", x, c.value(2)) if c.has(2) else x]
    return [_clip(c.e, x, -math.inf if low is None else _scalar(low), math.inf if high is None else _scalar(high))]


def _clip(e: Emitter, x: Value, low: float, high: float) -> Value:
    return e.op("clip", x, lo=low, hi=high)


def _scalar(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> float:
    return float(np.asarray(array, np.float64).reshape(()))


def _leaky_relu(c: NodeContext, x: Value) -> Value:
    return c.e.where(_positive(c.e, x), x, c.e.mul(x, c.attr("alpha", 0.01)))


def _positive(e: Emitter, x: Value) -> Value:
    """At 0 a function of two pieces has the slope of the left one, as in PyTorch."""
    return e.less(e.scalar(0.0, x), x)


def _hard_sigmoid(c: NodeContext, x: Value) -> Value:
    return _clip(c.e, c.e.add(c.e.mul(x, c.attr("alpha", 0.2)), c.attr("beta", 0.5)), 0.0, 1.0)


def _hard_swish(c: NodeContext, x: Value) -> Value:
    return c.e.mul(x, _clip(c.e, c.e.add(c.e.mul(x, 1.0 / 6.0), 0.5), 0.0, 1.0))


def _below(e: Emitter, x: Value, negative: Value) -> Value:
    """`negative` up to 0, x above; NaN is x."""
    return e.where(e.op("less_equal", x, e.scalar(0.0, x)), negative, x)


def _decay(e: Emitter, x: Value) -> Value:
    """exp(x) - 1 of min(x, 0): its gradient stays finite where it is not used."""
    return e.sub(e.op("exp", e.op("clamp", x, lo=-math.inf, hi=0.0)), 1.0)


def _elu(c: NodeContext, x: Value) -> Value:
    return _below(c.e, x, c.e.mul(_decay(c.e, x), c.attr("alpha", 1.0)))


def _selu(c: NodeContext, x: Value) -> Value:
    alpha, gamma = c.attr("alpha", 1.6732632), c.attr("gamma", 1.0507010)
    return c.e.mul(_below(c.e, x, c.e.mul(_decay(c.e, x), alpha)), gamma)


def _mish(c: NodeContext, x: Value) -> Value:
    return c.e.mul(x, c.e.op("tanh", c.e.op("softplus", x)))


def _softsign(c: NodeContext, x: Value) -> Value:
    return c.e.op("div", x, c.e.add(c.e.op("abs", x), 1.0))


def _thresholded_relu(c: NodeContext, x: Value) -> Value:
    return c.e.where(c.e.less(c.attr("alpha", 1.0), x), x, 0.0)


def _gelu(c: NodeContext, x: Value) -> Value:
    return c.e.op("gelu", x, approximate=c.attr("approximate", "none"))


def _swish(c: NodeContext, x: Value) -> Value:
    alpha = c.attr("alpha", 1.0)
    if alpha == 1.0:
        return c.e.op("silu", x)
    return c.e.mul(x, c.e.op("sigmoid", c.e.mul(x, alpha)))


_ACTIVATIONS: dict[str, Callable[[NodeContext, Value], Value]] = {
    "LeakyRelu": _leaky_relu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Elu": _elu,
    "Selu": _selu,
    "Softplus": lambda c, x: c.e.op("softplus", x),
    "Mish": _mish,
    "Softsign": _softsign,
    "ThresholdedRelu": _thresholded_relu,
    "Gelu": _gelu,
    "Swish": _swish,
}


@converts(*_ACTIVATIONS)
def activation(c: NodeContext) -> Sequence[Operand]:
    return [_ACTIVATIONS[c.node.op_type](c, c.value(0))]


@converts("PRelu")
def prelu(c: NodeContext) -> Sequence[Operand]:
    x, slope = c.value(0), c.value(1)
    return [c.e.where(_positive(c.e, x), x, c.e.mul(x, slope))]


@converts("IsNaN")
def is_nan(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    return [c.e.op("logical_not", c.e.op("equal", x, x))]


@converts("IsInf")
def is_infinite(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    if c.attr("detect_negative", 1) and c.attr("detect_positive", 1):
        x = c.e.op("abs", x)
    elif c.attr("detect_negative", 1):
        x = c.e.op("neg", x)
    return [c.e.op("equal", x, c.e.scalar(math.inf, x))]


@converts("Cast")
def cast(c: NodeContext) -> Sequence[Operand]:
    return [c.e.cast(c.value(0), dtype_of(c.attr("to", 0), c.where))]


@converts("CastLike")
def cast_like(c: NodeContext) -> Sequence[Operand]:
    like = c.operands[1]
    dtype = like.type.dtype if isinstance(like, Value) else DType.of(np.asarray(like).dtype)
    constant = c.constant(0)
    return [c.e.cast(c.value(0), dtype) if constant is None else constant.astype(dtype.numpy)]


@converts("Identity", "OptionalGetElement")
def identity(c: NodeContext) -> Sequence[Operand]:
    operand = c.operands[0]
    assert operand is not None
    return [operand]


@converts("StopGradient")
def stop_gradient(c: NodeContext) -> Sequence[Operand]:
    """Of our own domain: what the user's framework has detached. Only floating-point values have gradients to stop."""
    operand = c.operands[0]
    if not isinstance(operand, Value) or not operand.type.dtype.is_float:
        assert operand is not None
        return [operand]
    return [c.e.op("stop_gradient", operand)]


@converts("StraightThrough")
def straight_through(c: NodeContext) -> Sequence[Operand]:
    """Of our own domain: a value, and another whose gradient is the value's."""
    if c.value(0).type != c.value(1).type:
        raise ModelError(f"{c.where} reads {c.value(0).type} and {c.value(1).type}, which have to be alike")
    return [c.e.op("straight_through", c.value(0), c.value(1))]


@converts("Dropout")
def dropout(c: NodeContext) -> Sequence[Operand]:
    """As evaluation does it, nothing; a recipe may turn it on. A training mode set by the model is refused."""
    operand = c.operands[0]
    assert operand is not None
    training, ratio = c.constant(2), c.constant(1)
    given = 0.5 if not c.has(1) else 0.0 if ratio is None else float(str(ratio.reshape(())))
    # These attributes are found on dropout from `from_torch` only.
    share, mask = c.attr("ratio", given), c.attr("mask", ())
    if c.has(2) and (training is None or bool(training.reshape(()))) and (share or ratio is None):
        raise c.unsupported("dropout in training mode (export the model in evaluation mode)")
    shape = c.shape(0)
    if mask and (len(mask) != len(shape) or any(size not in (1, d) for size, d in zip(mask, shape, strict=True))):
        raise ModelError(f"the mask of {c.where} is {list(mask)}, which does not spread over {list(shape)}")
    drops = {"p": share, "mask": mask} if mask else {"p": share}
    kept = c.e.op("dropout", c.value(0), **drops) if share and isinstance(operand, Value) else operand
    return [kept, np.ones(c.shape(0), bool)] if len(c.node.output) > 1 and c.node.output[1] else [kept]
