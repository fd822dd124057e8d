"""Norms and the standard deviation. Where they are zero their gradient is zero, as PyTorch has it: that of the square
root of a sum, of which they are made, is not a number there."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir import Attrs, Node, Value
from .composites import composite
from .emitter import Emitter
from .movement import ints
from .registry import Sample


def _over(e: Emitter, dy: Value, divisor: Value) -> Value:
    """dy / divisor, 0 where the divisor is."""
    return e.where(e.op("equal", divisor, e.scalar(0.0, divisor)), 0.0, e.div(dy, divisor))


def _l2_norm(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """The root of the sum of squares; the reduced axes stay as size 1."""
    (x,) = inputs
    return [e.op("sqrt", e.sum(e.mul(x, x), ints(attrs, "axes")))]


def _l2_norm_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """x / norm, 0 where the norm is."""
    return e.mul(node.inputs[0], e.mul(dys[0], _over(e, e.scalar(1.0, node.output), node.output)))


_ROWS = (0.0, 0.0, 0.0, 3.0, -4.0, 0.0, math.inf, 1.0, 0.0)
"""A row of zeros, one with a zero, and one with an infinity."""
composite(
    "l2_norm",
    _l2_norm,
    (Sample(("f32[3,5]",), {"axes": (1,)}), Sample(("f32[2,3,4]",), {"axes": (0, 2)})),
    [_l2_norm_vjp],
    singular=(
        Sample(("f32[3,3]",), {"axes": (1,)}, fixed=((0, _ROWS),)),
        Sample(("f32[2,0]",), {"axes": (1,)}),
    ),
)


def _power_norm(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """The sum of |x|^p, to the power of 1 / p; the reduced axes stay as size 1."""
    (x,), p = inputs, float(attrs["p"])
    total = e.sum(e.op("pow", e.op("abs", x), e.scalar(p, x)), ints(attrs, "axes"))
    return [e.op("pow", total, e.scalar(1.0 / p, x))]


def _power_norm_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """sign(x) (|x| / norm)^(p - 1), 0 where x or the norm is zero."""
    x, norm, p = node.inputs[0], node.output, float(node.attrs["p"])
    slope = e.mul(e.op("sign", x), e.op("pow", e.op("abs", x), e.scalar(p - 1.0, x)))
    if p < 1.0:
        slope = e.where(e.op("equal", x, e.scalar(0.0, x)), 0.0, slope)
    share = e.mul(dys[0], e.op("pow", norm, e.scalar(1.0 - p, x)))
    return e.mul(slope, e.where(e.op("equal", norm, e.scalar(0.0, norm)), 0.0, share))


composite(
    "power_norm",
    _power_norm,
    tuple(Sample(("f32[3,5]",), {"axes": (1,), "p": p}, low=0.3) for p in (0.5, 1.5, 3.0)),
    [_power_norm_vjp],
    singular=tuple(
        Sample(("f32[2,3]",), {"axes": (1,), "p": p}, fixed=((0, _ROWS[:6]),)) for p in (0.5, 1.5, 3.0, -1.0)
    ),
)


def _count(x: Value, attrs: Attrs) -> int:
    """By what the sum of squares is divided; 0 where there are too few elements."""
    return max(0, math.prod(x.type.shape[axis] for axis in ints(attrs, "axes")) - int(attrs["correction"]))


def _deviation(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """The root of the sum of squared distances from the mean over (elements - correction), as `torch.std`; NaN where
    there are too few elements. The reduced axes stay as size 1."""
    (x,), axes = inputs, ints(attrs, "axes")
    centred = e.sub(x, e.mean(x, axes))
    return [e.op("sqrt", e.div(e.sum(e.mul(centred, centred), axes), float(_count(x, attrs))))]


def _deviation_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    x = node.inputs[0]
    share = e.div(_over(e, dys[0], node.output), float(_count(x, node.attrs)))
    return e.mul(e.sub(x, e.mean(x, ints(node.attrs, "axes"))), share)


composite(
    "standard_deviation",
    _deviation,
    (
        Sample(("f32[3,5]",), {"axes": (1,), "correction": 1}),
        Sample(("f32[2,3,4]",), {"axes": (0, 2), "correction": 0}),
    ),
    [_deviation_vjp],
    singular=(
        Sample(("f32[3,2]",), {"axes": (1,), "correction": 1}, fixed=((0, (0.0, 0.0, 2.0, 2.0, 1.0, 3.0)),)),
        Sample(("f32[3,1]",), {"axes": (1,), "correction": 0}),
        Sample(("f32[3,1]",), {"axes": (1,), "correction": 1}),
    ),
)
