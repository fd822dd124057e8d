"""Random elementwise nodes and reductions."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from pockengine.ir import DType, TensorType, Value

from .sketch import Draw, Sketch, fits

ANYWHERE = (
    *("neg", "abs", "sin", "cos", "atan", "tanh", "erf", "sigmoid", "floor", "ceil", "round", "sign", "silu"),
    *("softplus_by_parts", "gelu", "clip", "cast", "dropout"),
)
DOMAINS = {
    "exp": (-8.0, 4.0),
    "expm1": (-8.0, 4.0),
    "log": (0.1, 1e3),
    "log1p": (-0.8, 1e3),
    "sqrt": (0.05, 1e3),
    "rsqrt": (0.05, 1e3),
    "reciprocal": (0.2, 1e3),
}
"""Where a function is as smooth as f32 needs."""


def unary(draw: Draw, s: Sketch, x: Value) -> Value:
    name = draw(st.sampled_from((*ANYWHERE, *DOMAINS)))
    e = s.e
    if name in DOMAINS:
        low, high = DOMAINS[name]
        if not s.within(x, low, high):
            x = e.add(e.op("abs", x), 0.5) if low > 0 else e.op("clip", x, lo=max(low, -0.5), hi=min(high, 3.0))
        return e.op(name, x)
    if name == "softplus_by_parts":
        tail = e.op("log", e.add(e.op("exp", e.op("neg", e.op("abs", x))), 1.0))
        return e.add(e.op("clip", x, lo=0.0, hi=math.inf), tail)
    if name == "gelu":
        return e.op("gelu", x, approximate=draw(st.sampled_from(("none", "tanh"))))
    if name == "clip":
        low, high = draw(st.sampled_from(((0.0, math.inf), (0.0, 6.0), (-0.5, 0.75), (-math.inf, 0.25))))
        return e.op("clip", x, lo=low, hi=high)
    if name == "cast":
        other = draw(st.sampled_from((DType.F64, DType.F16, DType.BF16, DType.I32, DType.BOOL)))
        return e.cast(e.cast(x, other), DType.F32)
    if name == "dropout":
        return e.op("dropout", x, p=draw(st.sampled_from((0.0, 0.1, 0.5))))
    return e.op(name, x)


def partner(draw: Draw, s: Sketch, x: Value) -> Value:
    """Another value, a parameter or a constant that broadcasts against x."""
    kind = draw(st.sampled_from(("value", "value", "parameter", "parameter", "constant")))
    if kind == "constant":
        return s.e.scalar(draw(st.sampled_from((-2.0, -1.0, 0.0, 0.5, 1.0, 1.5, 3.0))), x)
    if kind == "value":
        alike = [v for v in s.numbers if _broadcasts(v.type.shape, x.type.shape)]
        if alike:
            return draw(st.sampled_from(alike))
    shape = [d if draw(st.booleans()) else 1 for d in x.type.shape]
    return s.param(draw(st.sampled_from(("scale", "bias"))), *shape[draw(st.integers(0, len(shape))) :])


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    joined = [max(m, n) for m, n in zip(_led(a, b), _led(b, a), strict=True)]
    return fits(joined) and all(m == n or 1 in (m, n) for m, n in zip(_led(a, b), _led(b, a), strict=True))


def _led(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (len(b) - len(a)) + a


def binary(draw: Draw, s: Sketch, x: Value) -> Value:
    e = s.e
    names = ("add", "add", "sub", "mul", "mul", "div", "maximum", "minimum", "pow", "mod", "squared_error")
    name, other = draw(st.sampled_from(names)), partner(draw, s, x)
    if name in ("div", "mod"):
        safe = s.within(other, 0.3, 1e3)
        return e.op(name, x, other if safe else e.add(e.op("abs", other), 0.5))
    if name == "pow":
        base = x if s.within(x, 0.3, 6.0) else e.add(e.op("clip", e.op("abs", x), lo=0.0, hi=3.0), 0.5)
        return e.op("pow", base, other if s.within(other, -2.5, 2.5) else e.op("tanh", other))
    if draw(st.booleans()) and name != "squared_error":
        x, other = other, x
    return e.op(name, x, other)


def compare(draw: Draw, s: Sketch, x: Value) -> Value:
    """A flag, perhaps of several, that then chooses."""
    e = s.e
    flag = e.op(draw(st.sampled_from(("less", "less_equal", "equal"))), x, partner(draw, s, x))
    if s.flags and draw(st.booleans()):
        other = draw(st.sampled_from(s.flags))
        if _broadcasts(other.type.shape, flag.type.shape):
            flag = e.op(draw(st.sampled_from(("logical_and", "logical_or"))), flag, other)
    if draw(st.booleans()):
        flag = e.op("logical_not", flag)
    s.add(flag)
    other = partner(draw, s, x)
    if not _broadcasts(other.type.shape, flag.type.shape):
        other = e.scalar(0.25, x)
    return e.op("where", flag, *((x, other) if draw(st.booleans()) else (other, x)))


def reduction(draw: Draw, s: Sketch, x: Value) -> Value:
    e = s.e
    if not x.type.rank:
        return e.op("neg", x)
    axes = draw(st.lists(st.integers(0, x.type.rank - 1), min_size=1, unique=True))
    name = draw(st.sampled_from(("reduce_sum", "reduce_max", "reduce_min", "mean", "norm", "argmax", "reduce_prod")))
    if name == "mean":
        return e.mean(x, axes, keepdims=draw(st.booleans()))
    if name == "norm":
        return e.op("sqrt", e.add(e.sum(e.mul(x, x), axes), 0.1))
    if name == "argmax":
        found = e.op("argmax", x, axis=axes[0])
        s.add(found)
        return e.cast(found, DType.F32)
    if name == "reduce_prod" and not s.within(x, -3.0, 3.0):
        x = e.op("tanh", x)
    reduced = e.op(name, x, axes=tuple(sorted(axes)))
    if draw(st.booleans()):
        return reduced
    return e.reshape(reduced, [d for axis, d in enumerate(x.type.shape) if axis not in axes])


def softmax(draw: Draw, s: Sketch, x: Value) -> Value:
    if not x.type.rank:
        return s.e.op("tanh", x)
    name = draw(st.sampled_from(("softmax", "softmax", "log_softmax", "masked_softmax")))
    return s.e.op(name, x, axis=draw(st.integers(0, x.type.rank - 1)))


def integers(draw: Draw, s: Sketch, x: Value) -> Value:
    """Arithmetic of integers, brought back to numbers."""
    e = s.e
    dtype = draw(st.sampled_from((DType.I8, DType.U8, DType.I16, DType.I32, DType.I64)))
    whole = e.cast(s.input(f"whole{len(s.builder.inputs)}", TensorType(dtype, (s.batch, 3))), dtype)
    names = ("add", "mul", "maximum", "minimum", "div", "mod", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left")
    name = draw(st.sampled_from(names))
    other = e.const(draw(st.integers(1, 3)), dtype)
    result = e.cast(e.op(name, whole, other), DType.F32)
    return e.add(e.mean(x, range(x.type.rank)) if x.type.rank else x, e.mean(result, (1,)))
