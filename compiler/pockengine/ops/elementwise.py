"""Elementwise primitives. Binary ops broadcast as numpy does; comparisons give bool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, DType, Node, TensorType, Value
from .emitter import Emitter
from .registry import LINEAR, Carried, Kind, Op, Sample, Vjp, register

UnaryVjp = Callable[[Emitter, Node, Value], Value]


def _same(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (inputs[0],)


def _erf(x: Array) -> Array:
    from scipy import special  # a tenth of the start-up time of a program that evaluates nothing

    return np.asarray(special.erf(x))


def _sigmoid(x: Array) -> Array:
    from scipy import special

    return np.asarray(special.expit(x))


def _sign(x: Array) -> Array:
    """0 of NaN, as in PyTorch."""
    return np.where(x == x, np.sign(x), 0)


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


def compare_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (broadcast_type(inputs).with_dtype(DType.BOOL),)


def _to(function: Callable[[Array], Array]) -> Callable[[Sequence[Array], Attrs], Sequence[Array]]:
    def reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            return [np.asarray(function(inputs[0])).astype(inputs[0].dtype, copy=False)]

    return reference


@dataclass(frozen=True)
class Drawn:
    """How the operands of an elementwise function's samples are drawn: `low <= x < high`, of each of these types."""

    low: float = -2.0
    high: float = 2.0
    dtypes: tuple[str, ...] = ("f32",)


FLOATS = Drawn()
"""What functions of one operand are tried with."""


def unary(
    name: str,
    function: Callable[[Array], Array],
    vjp: UnaryVjp | None,
    drawn: Drawn = FLOATS,
    flops: int = 1,
    singular: Sequence[float] | str = (),
    selectable: bool = False,
) -> None:
    """Register a function of one operand; `vjp(e, node, dy)` gives its gradient, None where it has none. `singular` are
    the points where value and gradient have to be PyTorch's, besides the infinities and NaN; or why there are none."""
    vjps: tuple[Vjp | None, ...] = ((lambda e, node, dys: vjp(e, node, dys[0])),) if vjp else ()
    register(
        Op(
            name,
            Kind.ELEMENTWISE,
            _same,
            _to(function),
            vjps=vjps,
            samples=tuple(
                Sample((f"{dtype}[{shape}]",), low=drawn.low, high=drawn.high)
                for dtype in drawn.dtypes
                for shape in ("3,5", "2,3,17", "")
            ),
            cost=lambda i, o, a: flops * o[0].size,
            singular=singular if isinstance(singular, str) else _points(singular) if vjp else (),
            selectable=selectable,
        )
    )


def _points(points: Sequence[float]) -> tuple[Sample, ...]:
    contents = (*points, 0.0, math.inf, -math.inf, math.nan)
    return (Sample((f"f32[{len(contents)}]",), fixed=((0, contents),)),)


_HALVES = (-0.0, 0.5, -0.5, 1.5, 2.0, -2.0)
unary(
    "neg",
    np.negative,
    lambda e, n, dy: e.op("neg", dy),
    drawn=Drawn(dtypes=("f32", "i32", "i64")),
    singular=LINEAR,
    selectable=True,
)
unary(
    "abs",
    np.abs,
    lambda e, n, dy: e.mul(dy, e.op("sign", n.inputs[0])),
    drawn=Drawn(dtypes=("f32", "i32")),
    singular=(-0.0,),
)
unary(
    "sign",
    _sign,
    lambda e, n, dy: e.zeros(dy),
    drawn=Drawn(low=0.1),
    singular=(-0.0,),
)
unary(
    "exp",
    np.exp,
    lambda e, n, dy: e.mul(dy, n.output),
    flops=8,
    singular=(88.5, 89.5, -110.0),
)
unary(
    "log",
    np.log,
    lambda e, n, dy: e.div(dy, n.inputs[0]),
    drawn=Drawn(low=0.2),
    flops=8,
    singular=(-0.0, -1.0, 1e-37),
)
unary(
    "sqrt",
    np.sqrt,
    lambda e, n, dy: e.mul(dy, e.div(0.5, n.output)),
    drawn=Drawn(low=0.2),
    singular=(-0.0, -1.0, 1e-37),
)
unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    lambda e, n, dy: e.mul(dy, e.mul(e.mul(-0.5, n.output), e.mul(n.output, n.output))),
    drawn=Drawn(low=0.2),
    singular=(-0.0, -1.0),
)
unary(
    "reciprocal",
    np.reciprocal,
    lambda e, n, dy: e.op("neg", e.mul(dy, e.mul(n.output, n.output))),
    drawn=Drawn(low=0.3),
    singular=(-0.0, 1e-18),
)
unary(
    "sin",
    np.sin,
    lambda e, n, dy: e.mul(dy, e.op("cos", n.inputs[0])),
    flops=8,
    singular=(-0.0,),
)
unary(
    "cos",
    np.cos,
    lambda e, n, dy: e.op("neg", e.mul(dy, e.op("sin", n.inputs[0]))),
    flops=8,
    singular=(-0.0,),
)
unary(
    "tanh",
    np.tanh,
    lambda e, n, dy: e.mul(dy, e.sub(1.0, e.mul(n.output, n.output))),
    flops=10,
    singular=(20.0, -20.0),
)
unary(
    "erf",
    _erf,
    lambda e, n, dy: e.mul(dy, e.mul(2 / np.sqrt(np.pi), e.op("exp", e.op("neg", e.mul(n.inputs[0], n.inputs[0]))))),
    flops=12,
    singular=(10.0, -10.0, 1e20),
)
unary(
    "sigmoid",
    _sigmoid,
    lambda e, n, dy: e.mul(dy, e.mul(n.output, e.sub(1.0, n.output))),
    flops=10,
    singular=(20.0, -20.0, 100.0, -100.0),
)
unary(
    "floor",
    np.floor,
    lambda e, n, dy: e.zeros(dy),
    drawn=Drawn(low=0.1, high=0.9),
    singular=_HALVES,
)
unary(
    "ceil",
    np.ceil,
    lambda e, n, dy: e.zeros(dy),
    drawn=Drawn(low=0.1, high=0.9),
    singular=_HALVES,
)
unary(
    "round",
    np.round,
    lambda e, n, dy: e.zeros(dy),
    drawn=Drawn(low=0.1, high=0.4),
    singular=_HALVES,
)
unary(
    "logical_not",
    np.logical_not,
    None,
    drawn=Drawn(dtypes=("bool",)),
)


def _clip(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    x, low, high = inputs[0], float(attrs["lo"]), float(attrs["hi"])
    if x.dtype.kind in "iu":  # in the integers themselves: beyond 2^53 they are not floats
        bounds = np.iinfo(x.dtype)
        least = int(bounds.min) if low <= bounds.min else math.ceil(low)
        greatest = int(bounds.max) if high >= bounds.max else math.floor(high)
        return [np.clip(x, least, greatest)]
    return [np.clip(x, low, high).astype(x.dtype)]


def _clip_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """The mask comes from the output, so that the input need not be kept; zero at the bounds, as in PyTorch's relu and
    hardtanh, where NaN passes a gradient, too."""
    y, low, high = node.output, float(node.attrs["lo"]), float(node.attrs["hi"])
    mask = e.op("less_equal", y, e.scalar(low, y)) if np.isfinite(low) else None
    if np.isfinite(high):
        above = e.op("less_equal", e.scalar(high, y), y)
        mask = above if mask is None else e.op("logical_or", mask, above)
    return dys[0] if mask is None else e.where(mask, 0.0, dys[0])


register(
    Op(
        "clip",
        Kind.ELEMENTWISE,
        _same,
        _clip,
        vjps=(_clip_vjp,),
        samples=(
            Sample(("f32[3,5]",), {"lo": 0.0, "hi": float("inf")}),
            Sample(("f32[2,3,17]",), {"lo": 0.0, "hi": 1.5}),
            Sample(("f32[7]",), {"lo": float("-inf"), "hi": 0.5}),
        ),
        singular=tuple(
            Sample(
                ("f32[7]",), {"lo": lo, "hi": hi}, fixed=((0, (0.0, -0.0, 6.0, 1.0, math.inf, -math.inf, math.nan)),)
            )
            for lo, hi in ((0.0, math.inf), (0.0, 6.0), (-1.0, 1.0), (-math.inf, 1.0))
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
        Kind.ELEMENTWISE,
        lambda inputs, attrs: (inputs[0].with_dtype(DType(attrs["to"])),),
        _cast_reference,
        vjps=(_cast_vjp,),
        carries=Carried.ALL,
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
        singular=LINEAR,
    )
)


def _side(vjp: Callable[[Emitter, Node, Value], Value], index: int) -> Vjp:
    """A binary op's gradient for one side, summed down to that side's shape."""
    return lambda e, node, dys: e.unbroadcast(vjp(e, node, dys[0]), node.inputs[index].type.shape)


_PAIRS = (("3,5", "3,5"), ("2,3,4", "4"), ("4,1,5", "3,1"), ("", "6"), ("2,3,4", "2,1,1"))


NUMBERS = Drawn(dtypes=("f32", "i64"))
"""What functions of two operands are tried with."""


def binary(
    name: str,
    function: Callable[[Array, Array], Array],
    vjps: tuple[UnaryVjp, UnaryVjp] | None = None,
    drawn: Drawn = NUMBERS,
    flops: int = 1,
    singular: Sequence[tuple[float, float]] | str = (),
    selectable: bool = False,
) -> None:
    """Register a function of two operands that broadcast; a gradient a side, or none. `singular` are the points where
    values and gradients have to be PyTorch's, or why there are none."""

    def reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            return [np.asarray(function(inputs[0], inputs[1])).astype(np.result_type(*inputs), copy=False)]

    register(
        Op(
            name,
            Kind.ELEMENTWISE,
            _binary_type,
            reference,
            vjps=tuple(_side(vjp, side) for side, vjp in enumerate(vjps or ())),
            samples=_samples_of_pairs(drawn),
            cost=lambda i, o, a: flops * o[0].size,
            singular=singular if isinstance(singular, str) else _pairs(singular) if vjps else (),
            selectable=selectable,
        )
    )


def comparison(name: str, function: Callable[[Array, Array], Array]) -> None:
    """Register a relation of two numbers, which broadcast; it gives bool and has no gradient."""

    def reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            return [np.asarray(function(inputs[0], inputs[1]))]

    register(Op(name, Kind.ELEMENTWISE, compare_type, reference, samples=_samples_of_pairs(NUMBERS)))


def _samples_of_pairs(drawn: Drawn) -> tuple[Sample, ...]:
    return tuple(
        Sample((f"{dtype}[{a}]", f"{dtype}[{b}]"), low=drawn.low, high=drawn.high, ints=4)
        for dtype in drawn.dtypes
        for a, b in _PAIRS
    )


def _pairs(points: Sequence[tuple[float, float]]) -> tuple[Sample, ...]:
    a, b = zip(*points, strict=True)
    return (Sample((f"f32[{len(points)}]",) * 2, fixed=((0, a), (1, b))),)
