"""Extrema whose ties PyTorch gives to one element, bounds that pass gradients, and sums of exponentials."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir import Attrs, Node, Value
from .attention import LEAST
from .composites import composite
from .emitter import Emitter
from .movement import ints
from .registry import Expand, Sample, Vjp

_TIES = (1.0, 1.0, 0.0, 2.0, 2.0, 2.0, 0.0, -1.0, 0.0, -math.inf, -math.inf, -math.inf, 1.0, math.nan, math.nan)


def _first_extremum(greatest: bool) -> tuple[Expand, Vjp]:
    def expand(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
        """Along one or more axes, which stay as size 1."""
        return [e.op("reduce_max" if greatest else "reduce_min", inputs[0], axes=ints(attrs, "axes"))]

    def vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
        """All to the first of equals, as PyTorch's `max(dim)`; `reduce_max` shares it, as `amax`."""
        x, axes = node.inputs[0], ints(node.attrs, "axes")
        order = [*(axis for axis in range(x.type.rank) if axis not in axes), *axes]
        moved = e.transpose(x, order)
        kept = moved.type.shape[: len(order) - len(axes)]
        count = math.prod(moved.type.shape[len(kept) :])
        rows = e.reshape(moved, (*kept, count))
        place = e.op("argmax", rows if greatest else e.op("neg", rows), axis=len(kept))
        hit = e.op("equal", place, e.const(np.arange(count, dtype=np.int64)))
        dy = e.reshape(e.transpose(dys[0], order), (*kept, 1))
        taken = e.reshape(e.where(hit, dy, 0.0), moved.type.shape)
        return e.transpose(taken, [int(axis) for axis in np.argsort(order)])

    return expand, vjp


for _name, _greatest in (("first_maximum", True), ("first_minimum", False)):
    _expand, _vjp = _first_extremum(_greatest)
    composite(
        _name,
        _expand,
        (Sample(("f32[3,5]",), {"axes": (1,)}), Sample(("f32[2,3,4]",), {"axes": (0, 2)})),
        [_vjp],
        singular=(
            Sample(("f32[5,3]",), {"axes": (1,)}, fixed=((0, _TIES),)),
            Sample(("f32[3,2]",), {"axes": (0, 1)}, fixed=((0, _TIES[3:9]),)),
        ),
    )


def _clamp(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """x within [lo, hi]: numbers among the attributes, or tensors that broadcast to x."""
    if len(inputs) == 1:
        return [e.op("clip", inputs[0], **attrs)]
    x, low, high = inputs
    return [e.op("minimum", e.maximum(x, low), high)]


def _clamp_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """A bound itself passes the gradient, as in `torch.clamp`; `clip` stops it, as `torch.relu` and `hardtanh` do."""
    x = node.inputs[0]
    if len(node.inputs) == 3:
        low, high = node.inputs[1:]
        inside = e.op("logical_and", e.op("less_equal", low, x), e.op("less_equal", x, high))
        return e.unbroadcast(e.where(inside, dys[0], 0.0), x.type.shape)
    low, high = (e.scalar(float(node.attrs[name]), x) for name in ("lo", "hi"))
    masks = [e.op("less_equal", low, x)] if math.isfinite(node.attrs["lo"]) else []
    masks += [e.op("less_equal", x, high)] if math.isfinite(node.attrs["hi"]) else []
    if not masks:
        return dys[0]
    return e.where(masks[0] if len(masks) == 1 else e.op("logical_and", *masks), dys[0], 0.0)


def _bound_vjp(upper: bool) -> Vjp:
    """Where the bound is the result and x is not. Where the lower bound is above the upper one, the upper one is."""

    def vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
        x, low, high = node.inputs
        if upper:
            wins = e.op("logical_or", e.less(high, x), e.less(high, low))
        else:
            wins = e.op("logical_and", e.less(x, low), e.less(low, high))
        return e.unbroadcast(e.where(wins, dys[0], 0.0), (high if upper else low).type.shape)

    return vjp


_AT_BOUNDS = (-1.0, 0.5, 1.0, 2.0, -3.0, math.inf, -math.inf)
composite(
    "clamp",
    _clamp,
    (
        Sample(("f32[3,5]",), {"lo": -1.0, "hi": 0.5}),
        Sample(("f32[3,5]",), {"lo": 0.0, "hi": math.inf}),
        Sample(("f32[2,3,4]", "f32[4]", "f32[3,1]")),
        Sample(("i64[5]",), {"lo": 0.0, "hi": 1.0}),
    ),
    [_clamp_vjp, _bound_vjp(upper=False), _bound_vjp(upper=True)],
    singular=(
        *(
            Sample(("f32[7]",), {"lo": lo, "hi": hi}, fixed=((0, _AT_BOUNDS),))
            for lo, hi in ((-1.0, 1.0), (-1.0, math.inf), (-math.inf, 0.5), (1.0, 1.0))
        ),
        Sample(
            ("f32[7]",) * 3,
            fixed=(
                (0, _AT_BOUNDS),
                (1, (-1.0, 0.5, 0.0, 3.0, -1.0, 0.0, 0.0)),
                (2, (1.0, 0.5, 1.0, 1.0, 1.0, math.inf, 1.0)),
            ),
        ),
    ),
)


def _finite(e: Emitter, x: Value) -> Value:
    least = LEAST[x.type.dtype]
    return e.op("clip", x, lo=least, hi=-least)


def _log_sum_exp(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """log of the sum of exp(x), which does not overflow; -inf where all are. The reduced axes stay as size 1."""
    (x,), axes = inputs, ints(attrs, "axes")
    peak = _finite(e, e.max(x, axes))
    return [e.add(e.op("log", e.sum(e.op("exp", e.sub(x, peak)), axes)), peak)]


def _log_sum_exp_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return e.mul(dys[0], e.op("exp", e.sub(node.inputs[0], node.output)))


_INFINITE = (-math.inf, -math.inf, 0.0, 0.0, math.inf, 0.0, 1000.0, -1000.0, -math.inf, 0.0)
composite(
    "log_sum_exp",
    _log_sum_exp,
    (Sample(("f32[3,5]",), {"axes": (1,)}), Sample(("f32[2,3,4]",), {"axes": (0, 2)})),
    [_log_sum_exp_vjp],
    singular=(Sample(("f32[5,2]",), {"axes": (1,)}, fixed=((0, _INFINITE),)),),
)


def _log_add_exp(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """log(exp(a) + exp(b)), which does not overflow."""
    a, b = inputs
    distance = e.op("abs", e.sub(a, b))
    tail = e.op("log1p", e.op("exp", e.op("neg", distance)))
    # Equal infinities have no distance: their sum is what both are.
    same = e.op("equal", a, b)
    return [e.add(e.maximum(a, b), e.where(same, math.log(2.0), tail))]


def _log_add_exp_vjp(index: int) -> Vjp:
    def vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
        own, other = node.inputs[index], node.inputs[1 - index]
        return e.unbroadcast(e.mul(dys[0], e.op("sigmoid", e.sub(own, other))), own.type.shape)

    return vjp


composite(
    "log_add_exp",
    _log_add_exp,
    (Sample(("f32[3,5]", "f32[3,5]")), Sample(("f32[2,3,4]", "f32[3,1]"))),
    [_log_add_exp_vjp(0), _log_add_exp_vjp(1)],
    singular=(
        Sample(
            ("f32[6]", "f32[6]"),
            fixed=(
                (0, (0.0, -math.inf, math.inf, 1000.0, -math.inf, 200.0)),
                (1, (0.0, -math.inf, math.inf, -1000.0, 0.0, 200.0)),
            ),
        ),
    ),
)
