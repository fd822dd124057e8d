"""Functions made of logarithms, with PyTorch's values and gradients where a logarithm alone has none."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir import Attrs, Node, Value
from .composites import composite
from .emitter import Emitter
from .registry import Sample


def _zero(e: Emitter, x: Value) -> Value:
    return e.op("equal", x, e.scalar(0.0, x))


def _xlogy(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """x log(y), 0 where x is zero and y a number (`torch.xlogy`)."""
    x, y = inputs
    product = e.mul(x, e.op("log", y))
    known = e.op("logical_and", _zero(e, x), e.op("equal", y, y))
    return [e.where(known, 0.0, product)]


def _xlogy_vjp_x(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    x, y = node.inputs
    flat = e.op("logical_and", _zero(e, x), e.op("less_equal", y, e.scalar(0.0, y)))
    return e.unbroadcast(e.where(flat, 0.0, e.mul(dys[0], e.op("log", y))), x.type.shape)


def _xlogy_vjp_y(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    x, y = node.inputs
    return e.unbroadcast(e.div(e.mul(dys[0], x), y), y.type.shape)


composite(
    "xlogy",
    _xlogy,
    (Sample(("f32[3,5]", "f32[3,5]"), low=0.3), Sample(("f32[2,3,4]", "f32[3,1]"), low=0.3)),
    [_xlogy_vjp_x, _xlogy_vjp_y],
    singular=(
        Sample(
            ("f32[7]", "f32[7]"),
            fixed=((0, (0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 1.0)), (1, (0.0, 1.0, 0.0, 2.0, math.inf, -1.0, math.inf))),
        ),
    ),
)


def _entropy(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """-x log(x), 0 at 0 and -inf below (`torch.special.entr`)."""
    (x,) = inputs
    inside = e.where(_zero(e, x), 0.0, e.op("neg", e.mul(x, e.op("log", x))))
    return [e.where(e.less(x, 0.0), -math.inf, inside)]


def _entropy_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return e.mul(dys[0], e.sub(-1.0, e.op("log", node.inputs[0])))


composite(
    "entropy",
    _entropy,
    (Sample(("f32[3,5]",), low=0.2),),
    [_entropy_vjp],
    singular=(Sample(("f32[4]",), fixed=((0, (0.0, 1.0, 0.5, -1.0)),)),),
)


def _logit(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """log(x / (1 - x)); of x within [eps, 1 - eps] where there is `eps` (`torch.logit`)."""
    (x,) = inputs
    if "eps" in attrs:
        x = e.op("clip", x, lo=float(attrs["eps"]), hi=1.0 - float(attrs["eps"]))
    return [e.op("log", e.div(x, e.sub(1.0, x)))]


def _logit_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """Outside of [eps, 1 - eps] it is 0; without `eps` it is NaN outside of [0, 1]."""
    x, eps = node.inputs[0], float(node.attrs.get("eps", 0.0))
    outside = e.op("logical_or", e.less(x, eps), e.less(e.scalar(1.0 - eps, x), x))
    inside = e.div(dys[0], e.mul(x, e.sub(1.0, x)))
    return e.where(outside, 0.0 if "eps" in node.attrs else math.nan, inside)


composite(
    "logit",
    _logit,
    (Sample(("f32[3,5]",), low=0.1, high=0.9), Sample(("f32[3,5]",), {"eps": 0.3}, low=0.1, high=0.9)),
    [_logit_vjp],
    singular=tuple(
        Sample(("f32[6]",), attrs, fixed=((0, (0.0, 1.0, 0.25, 0.75, -1.0, 2.0)),)) for attrs in ({}, {"eps": 0.25})
    ),
)


def _sinc(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """sin(pi x) / (pi x), 1 at 0 (`torch.sinc`)."""
    (x,) = inputs
    angle = e.mul(x, math.pi)
    return [e.where(_zero(e, x), 1.0, e.div(e.op("sin", angle), angle))]


def _sinc_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """(cos(pi x) - sinc(x)) / x, 0 where the square of x is."""
    x = node.inputs[0]
    slope = e.div(e.sub(e.op("cos", e.mul(x, math.pi)), node.output), x)
    return e.where(_zero(e, e.mul(x, x)), 0.0, e.mul(dys[0], slope))


composite(
    "sinc",
    _sinc,
    (Sample(("f32[3,5]",)),),
    [_sinc_vjp],
    singular=(Sample(("f32[4]",), fixed=((0, (0.0, 1.0, -1.0, 0.5)),)),),
)
