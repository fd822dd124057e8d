"""Elementwise primitives. Binary ops broadcast as numpy does; comparisons give bool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, DType, Node, TensorType, Value
from .emitter import Emitter
from .registry import Op, Sample, Vjp, register

UnaryVjp = Callable[[Emitter, Node, Value], Value]


def _same(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (inputs[0],)


def _erf(x: Array) -> Array:
    from scipy import special  # a tenth of the start-up time of a program that evaluates nothing

    return np.asarray(special.erf(x))


def _sigmoid(x: Array) -> Array:
    from scipy import special

    return np.asarray(special.expit(x))


def broadcast_type(inputs: Sequence[TensorType]) -> TensorType:
    """The common dtype and the broadcast shape; ModelError when they do not fit."""
    dtypes = {t.dtype for t in inputs}
    if len(dtypes) != 1:
        raise ModelError(f"operands have different element types: {', '.join(str(t) for t in inputs)}")
    if all(t.shape == inputs[0].shape for t in inputs):
        return inputs[0]
    try:
        return TensorType(inputs[0].dtype, broadcast_shape(*(t.shape for t in inputs)))
    except ValueError:
        raise ModelError(f"shapes do not broadcast: {', '.join(str(t) for t in inputs)}") from None


@lru_cache(maxsize=1 << 14)
def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """numpy's rule, which takes long for what is asked so often. ValueError when the shapes do not fit."""
    return tuple(int(size) for size in np.broadcast_shapes(*shapes))


def _binary_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (broadcast_type(inputs),)


def _compare_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (broadcast_type(inputs).with_dtype(DType.BOOL),)


def _where_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    value = broadcast_type(inputs[1:])
    return (value.with_shape(broadcast_shape(inputs[0].shape, value.shape)),)


def _to(function: Callable[[Array], Array]) -> Callable[[Sequence[Array], Attrs], Sequence[Array]]:
    def reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            return [np.asarray(function(inputs[0])).astype(inputs[0].dtype, copy=False)]

    return reference


def unary(
    name: str,
    function: Callable[[Array], Array],
    vjp: UnaryVjp | None,
    low: float = -2.0,
    high: float = 2.0,
    dtypes: Sequence[str] = ("f32",),
    flops: int = 1,
) -> None:
    """Register a function of one operand; `vjp(e, node, dy)` gives its gradient, None where it has none."""
    vjps: tuple[Vjp | None, ...] = ((lambda e, node, dys: vjp(e, node, dys[0])),) if vjp else ()
    samples = tuple(Sample((f"{d}[{s}]",), low=low, high=high) for d in dtypes for s in ("3,5", "2,3,17", ""))
    register(
        Op(
            name,
            "elementwise",
            _same,
            _to(function),
            vjps=vjps,
            samples=samples,
            cost=lambda i, o, a: flops * o[0].size,
        )
    )


unary("neg", np.negative, lambda e, n, dy: e.op("neg", dy), dtypes=("f32", "i32", "i64"))
unary("abs", np.abs, lambda e, n, dy: e.mul(dy, e.op("sign", n.inputs[0])), dtypes=("f32", "i32"))
unary("sign", np.sign, lambda e, n, dy: e.zeros(dy), low=0.1)
unary("exp", np.exp, lambda e, n, dy: e.mul(dy, n.output), flops=8)
unary("log", np.log, lambda e, n, dy: e.div(dy, n.inputs[0]), low=0.2, flops=8)
unary("sqrt", np.sqrt, lambda e, n, dy: e.mul(dy, e.div(0.5, n.output)), low=0.2)
unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    lambda e, n, dy: e.mul(dy, e.mul(e.mul(-0.5, n.output), e.mul(n.output, n.output))),
    low=0.2,
)
unary("reciprocal", np.reciprocal, lambda e, n, dy: e.op("neg", e.mul(dy, e.mul(n.output, n.output))), low=0.3)
unary("sin", np.sin, lambda e, n, dy: e.mul(dy, e.op("cos", n.inputs[0])), flops=8)
unary("cos", np.cos, lambda e, n, dy: e.op("neg", e.mul(dy, e.op("sin", n.inputs[0]))), flops=8)
unary("tanh", np.tanh, lambda e, n, dy: e.mul(dy, e.sub(1.0, e.mul(n.output, n.output))), flops=10)
unary(
    "erf",
    _erf,
    lambda e, n, dy: e.mul(dy, e.mul(2 / np.sqrt(np.pi), e.op("exp", e.op("neg", e.mul(n.inputs[0], n.inputs[0]))))),
    flops=12,
)
unary("sigmoid", _sigmoid, lambda e, n, dy: e.mul(dy, e.mul(n.output, e.sub(1.0, n.output))), flops=10)
unary("floor", np.floor, lambda e, n, dy: e.zeros(dy), low=0.1, high=0.9)
unary("ceil", np.ceil, lambda e, n, dy: e.zeros(dy), low=0.1, high=0.9)
unary("round", np.round, lambda e, n, dy: e.zeros(dy), low=0.1, high=0.4)
unary("logical_not", np.logical_not, None, dtypes=("bool",))


def _clip(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    x, low, high = inputs[0], float(attrs["lo"]), float(attrs["hi"])
    if x.dtype.kind in "iu":  # in the integers themselves: beyond 2^53 they are not floats
        bounds = np.iinfo(x.dtype)
        least = int(bounds.min) if low <= bounds.min else math.ceil(low)
        greatest = int(bounds.max) if high >= bounds.max else math.floor(high)
        return [np.clip(x, least, greatest)]
    return [np.clip(x, low, high).astype(x.dtype)]


def _clip_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """The mask comes from the output, so that the input need not be kept; zero at the bounds, as in PyTorch's relu."""
    y, low, high = node.output, float(node.attrs["lo"]), float(node.attrs["hi"])
    mask = e.less(low, y) if np.isfinite(low) else None
    if np.isfinite(high):
        below = e.less(y, high)
        mask = below if mask is None else e.op("logical_and", mask, below)
    return dys[0] if mask is None else e.where(mask, dys[0], 0.0)


register(
    Op(
        "clip",
        "elementwise",
        _same,
        _clip,
        vjps=(_clip_vjp,),
        samples=(
            Sample(("f32[3,5]",), {"lo": 0.0, "hi": float("inf")}),
            Sample(("f32[2,3,17]",), {"lo": 0.0, "hi": 1.5}),
            Sample(("f32[7]",), {"lo": float("-inf"), "hi": 0.5}),
        ),
    )
)


def _cast_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return e.cast(dys[0], node.inputs[0].type.dtype)


def _cast_reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    with np.errstate(invalid="ignore"):  # an infinity has no integer; T5's buckets replace it afterwards
        return [inputs[0].astype(DType(attrs["to"]).numpy)]


register(
    Op(
        "cast",
        "elementwise",
        lambda inputs, attrs: (inputs[0].with_dtype(DType(attrs["to"])),),
        _cast_reference,
        vjps=(_cast_vjp,),
        samples=tuple(
            Sample((f"{a}[3,5]",), {"to": b})
            for a, b in [
                ("i64", "f32"),
                ("i32", "f32"),
                ("bool", "f32"),
                ("f32", "i64"),
                ("f32", "i32"),
                ("i64", "i32"),
                ("f32", "bool"),
                ("bool", "i64"),
                ("f32", "f32"),
            ]
        ),
    )
)


def _side(vjp: Callable[[Emitter, Node, Value], Value], index: int) -> Vjp:
    """A binary op's gradient for one side, summed down to that side's shape."""
    return lambda e, node, dys: e.unbroadcast(vjp(e, node, dys[0]), node.inputs[index].type.shape)


_PAIRS = (("3,5", "3,5"), ("2,3,4", "4"), ("4,1,5", "3,1"), ("", "6"), ("2,3,4", "2,1,1"))


def binary(
    name: str,
    function: Callable[[Array, Array], Array],
    vjp_a: UnaryVjp | None = None,
    vjp_b: UnaryVjp | None = None,
    infer: Callable[[Sequence[TensorType], Attrs], tuple[TensorType, ...]] = _binary_type,
    dtypes: Sequence[str] = ("f32", "i64"),
    low: float = -2.0,
    flops: int = 1,
) -> None:
    """Register a function of two operands that broadcast; a gradient a side, or none."""

    def reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            result = np.asarray(function(inputs[0], inputs[1]))
        return [result if infer is _compare_type else result.astype(np.result_type(*inputs), copy=False)]

    vjps = (_side(vjp_a, 0), _side(vjp_b, 1)) if vjp_a and vjp_b else ()
    samples = tuple(Sample((f"{d}[{a}]", f"{d}[{b}]"), low=low, ints=4) for d in dtypes for a, b in _PAIRS)
    register(
        Op(
            name,
            "elementwise",
            infer,
            reference,
            vjps=vjps,
            samples=samples,
            cost=lambda i, o, a: flops * o[0].size,
        )
    )


def _divide(a: Array, b: Array) -> Array:
    """True division of floats; integers truncate towards zero as in C and ONNX."""
    if a.dtype.kind == "f" or a.dtype.kind == "V":
        return np.asarray(a / b)
    divisor = np.where(b == 0, 1, b).astype(b.dtype)
    quotient = a // divisor
    return np.asarray(quotient + ((quotient < 0) & (quotient * divisor != a)))


binary("add", np.add, lambda e, n, dy: dy, lambda e, n, dy: dy)
binary("sub", np.subtract, lambda e, n, dy: dy, lambda e, n, dy: e.op("neg", dy))
binary("mul", np.multiply, lambda e, n, dy: e.mul(dy, n.inputs[1]), lambda e, n, dy: e.mul(dy, n.inputs[0]))
binary(
    "div",
    _divide,
    lambda e, n, dy: e.div(dy, n.inputs[1]),
    lambda e, n, dy: e.op("neg", e.div(e.mul(dy, n.output), n.inputs[1])),
    low=0.3,
)


def _pick(e: Emitter, n: Node, dy: Value, first: bool) -> Value:
    """Gradient of max or min: half to each side at a tie, as in PyTorch."""
    a, b = n.inputs
    mine, other = (a, b) if first else (b, a)
    wins = e.less(other, mine) if n.op == "maximum" else e.less(mine, other)
    tie = e.op("equal", a, b)
    return e.where(wins, dy, e.where(tie, e.mul(dy, 0.5), 0.0))


binary("maximum", np.maximum, lambda e, n, dy: _pick(e, n, dy, True), lambda e, n, dy: _pick(e, n, dy, False))
binary("minimum", np.minimum, lambda e, n, dy: _pick(e, n, dy, True), lambda e, n, dy: _pick(e, n, dy, False))
binary(
    "pow",
    np.power,
    lambda e, n, dy: e.mul(dy, e.mul(n.inputs[1], e.op("pow", n.inputs[0], e.sub(n.inputs[1], 1.0)))),
    lambda e, n, dy: e.mul(dy, e.mul(n.output, e.op("log", n.inputs[0]))),
    low=0.3,
    dtypes=("f32",),
    flops=20,
)
binary(
    "mod",
    np.mod,
    lambda e, n, dy: dy,
    lambda e, n, dy: e.op("neg", e.mul(dy, e.op("floor", e.div(*n.inputs)))),
    low=0.3,
)
binary("less", np.less, infer=_compare_type)
binary("less_equal", np.less_equal, infer=_compare_type)
binary("equal", np.equal, infer=_compare_type)
binary("logical_and", np.logical_and, dtypes=("bool",))
binary("logical_or", np.logical_or, dtypes=("bool",))


def _where_side(index: int) -> Vjp:
    def vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
        condition, dy = node.inputs[0], dys[0]
        kept = e.where(condition, dy, 0.0) if index == 1 else e.where(condition, 0.0, dy)
        return e.unbroadcast(kept, node.inputs[index].type.shape)

    return vjp


register(
    Op(
        "where",
        "elementwise",
        _where_type,
        lambda inputs, attrs: [np.where(inputs[0], inputs[1], inputs[2])],
        vjps=(None, _where_side(1), _where_side(2)),
        samples=(
            Sample(("bool[3,5]", "f32[3,5]", "f32[3,5]")),
            Sample(("bool[3,1]", "f32[3,5]", "f32[]")),
            Sample(("bool[4]", "i64[4]", "i64[1]")),
        ),
    )
)
