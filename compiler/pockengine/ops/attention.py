"""Softmax over positions of which all may be hidden, and scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir import Attrs, DType, Node, Value, parse_type
from .composites import HIDDEN, composite
from .emitter import Emitter
from .registry import Sample, Vjp

LEAST = {
    DType.F16: float(np.finfo(np.float16).min),
    DType.BF16: -(2.0**127) * (2 - 2.0**-7),
    DType.F32: float(np.finfo(np.float32).min),
    DType.F64: float(np.finfo(np.float64).min),
}
"""The finite number of each type that is furthest below zero."""


def _masked_softmax(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """Softmax where -inf hides a position; a row in which all are hidden gives zeros."""
    (x,), axis = inputs, int(attrs["axis"])
    peak = e.op("clip", e.max(x, [axis]), lo=LEAST[x.type.dtype], hi=float("inf"))
    shifted = e.op("exp", e.sub(x, peak))
    # The greatest visible element adds 1 to the sum, so the bound is met by rows without one only.
    total = e.op("clip", e.sum(shifted, [axis]), lo=0.5, hi=float("inf"))
    return [e.div(shifted, total)]


def _masked_softmax_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    y, dy = node.output, dys[0]
    return e.mul(y, e.sub(dy, e.sum(e.mul(y, dy), [int(node.attrs["axis"])])))


composite(
    "masked_softmax",
    _masked_softmax,
    (Sample(("f32[3,5]",), {"axis": 1}), Sample(("f32[2,3,19]",), {"axis": -1})),
    [_masked_softmax_vjp],
    singular=HIDDEN,
)


def _attention(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """q [batch, heads, m, depth], k and v [batch, key heads, n, depth], where each key head serves as many consecutive
    heads; any number of masks that broadcast to the scores. A mask of numbers is added, and -inf hides a position; a
    boolean one hides where it is false. A query that sees nothing gives zeros.

    causal   query i of m sees the keys 0 … n - m + i of n
    softcap  bound of the scores before the masks, where there is one
    dropout  share of the weights that are set to zero in training, where there is one
    heads_inside  q, k, v and the result are [batch, time, heads, depth] instead
    stores   where it is there: all is computed in f32, and the results are stored in these types, one for each that has
             heads

    The second output [batch, heads, m, 2] is each row's largest score, and the logarithm of its sum of exponentials
    over that one's: with them, the gradient finds the weights again. They stay apart, since beside the largest score
    of a row that masks of -3.4e38 hide whole, the logarithm would be lost. No gradient flows through it."""
    q, k, v = (_heads_outside(e, _widened(e, x, attrs), attrs) for x in inputs[:3])
    masks = inputs[3:]
    k, v = (repeat_heads(e, x, q.type.shape[1]) for x in (k, v))
    *_, masked, weights = stages(e, q, k, masks, float(attrs["scale"]), _softcap(attrs), bool(attrs["causal"]))
    if attrs.get("dropout"):
        weights = e.op("dropout", weights, p=attrs["dropout"])
    return [*_stored(e, [_heads_outside(e, e.matmul(weights, v), attrs)], attrs), _levels(e, masked)]


HEADS = (0, 2, 1, 3)
"""perm that moves the heads before the time, or back."""
WITH_HEADS = {"attention": (0, 1, 2), "attention_backward": (0, 1, 2, 3, 5)}
"""Operands that have heads: queries, keys and values; the result and its gradient."""


def _widened(e: Emitter, x: Value, attrs: Attrs) -> Value:
    return e.cast(x, DType.F32) if "stores" in attrs else x


def _stored(e: Emitter, results: Sequence[Value], attrs: Attrs) -> list[Value]:
    types = attrs.get("stores", [value.type.dtype.value for value in results])
    return [e.cast(value, DType(to)) for value, to in zip(results, types, strict=True)]


def _heads_outside(e: Emitter, x: Value, attrs: Attrs) -> Value:
    """[batch, heads, time, depth], or back."""
    return e.transpose(x, HEADS) if attrs.get("heads_inside") else x


def _softcap(attrs: Attrs) -> float:
    return float(attrs.get("softcap", 0.0))


def _levels(e: Emitter, scores: Value) -> Value:
    """The second output of `attention`; a row that sees nothing has the least number there is."""
    peak = e.op("clip", e.max(scores, [-1]), lo=LEAST[scores.type.dtype], hi=float("inf"))
    total = e.op("clip", e.sum(e.op("exp", e.sub(scores, peak)), [-1]), lo=0.5, hi=float("inf"))
    return e.op("concat", peak, e.op("log", total), axis=len(peak.type.shape) - 1)


def repeat_heads(e: Emitter, x: Value, heads: int) -> Value:
    """Every key head as often as there are queries to it."""
    batch, own, time, depth = x.type.shape
    if own == heads:
        return x
    wide = e.broadcast_to(e.reshape(x, (batch, own, 1, time, depth)), (batch, own, heads // own, time, depth))
    return e.reshape(wide, (batch, heads, time, depth))


def _add_heads(e: Emitter, x: Value, heads: int) -> Value:
    """The gradient of `repeat_heads`."""
    batch, own, time, depth = x.type.shape
    if own == heads:
        return x
    wide = e.reshape(x, (batch, heads, own // heads, time, depth))
    return e.reshape(e.sum(wide, [2]), (batch, heads, time, depth))


def _attention_backward(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """q, k, v, the outputs of `attention`, the gradient of the first one, and the masks -> the gradients of q, k and v
    (T. Dao, "FlashAttention-2", 2023, section 3.1.2, where the second output is one number, L)."""
    q, k, v, dy = (_heads_outside(e, _widened(e, inputs[index], attrs), attrs) for index in (0, 1, 2, 5))
    masks = inputs[6:]
    heads, scale, softcap = q.type.shape[1], float(attrs["scale"]), _softcap(attrs)
    keys, values = (repeat_heads(e, x, heads) for x in (k, v))
    _, bounded, _, weights = stages(e, q, keys, masks, scale, softcap, bool(attrs["causal"]))
    dv = e.matmul(weights, dy, trans_a=True)
    dw = e.matmul(dy, values, trans_b=True)
    ds = e.mul(weights, e.sub(dw, e.sum(e.mul(weights, dw), [-1])))
    if softcap:
        ratio = e.mul(bounded, 1.0 / softcap)
        ds = e.mul(ds, e.sub(1.0, e.mul(ratio, ratio)))
    ds = e.mul(ds, scale)
    dq, dk = e.matmul(ds, keys), e.matmul(ds, q, trans_a=True)
    gradients = [dq, _add_heads(e, dk, k.type.shape[1]), _add_heads(e, dv, k.type.shape[1])]
    return _stored(e, [_heads_outside(e, gradient, attrs) for gradient in gradients], attrs)


def _gradient(index: int) -> Vjp:
    """Of q, k or v. The three nodes are one after common subexpressions are computed once."""

    def vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
        q, k, v, *masks = node.inputs
        return e.multi("attention_backward", (q, k, v, *node.outputs, dys[0], *masks), **node.attrs)[index]

    return vjp


def stages(
    e: Emitter, q: Value, k: Value, masks: Sequence[Value], scale: float, softcap: float, causal: bool
) -> tuple[Value, Value, Value, Value]:
    """The scores as products, bounded, masked, and as weights that sum to one."""
    products = e.mul(e.matmul(q, k, trans_b=True), scale)
    bounded = e.mul(e.op("tanh", e.mul(products, 1.0 / softcap)), softcap) if softcap else products
    masked = bounded
    for mask in masks:
        masked = e.where(mask, masked, float("-inf")) if mask.type.dtype is DType.BOOL else e.add(masked, mask)
    rows, columns = masked.type.shape[-2:]
    if causal:
        hidden = np.triu(np.ones((rows, columns), bool), 1 + columns - rows)
        masked = e.where(e.const(hidden, DType.BOOL), float("-inf"), masked)
    blind = masks or (causal and rows > columns)
    return products, bounded, masked, e.op("masked_softmax" if blind else "softmax", masked, axis=-1)


_QKV = ("f32[2,2,5,4]",) * 3
_FEW = ("f32[2,4,5,4]", "f32[2,2,5,4]", "f32[2,2,5,4]")
_PLAIN = {"scale": 0.5, "causal": False}
_SAMPLES = (
    (_QKV, (), _PLAIN),
    (_QKV, (), {**_PLAIN, "causal": True}),
    (_QKV, ("f32[2,1,1,5]",), _PLAIN),
    (_QKV, ("f32[2,1,1,5]",), {**_PLAIN, "softcap": 3.0}),
    (_QKV, ("bool[5,5]", "f32[2,1,5,5]"), _PLAIN),
    (("f32[1,2,5,4]", "f32[1,2,3,4]", "f32[1,2,3,4]"), (), {**_PLAIN, "causal": True}),
    (_FEW, ("bool[2,1,5,5]",), {**_PLAIN, "causal": True}),
    (("f32[2,5,4,4]", "f32[2,5,2,4]", "f32[2,5,2,4]"), ("f32[2,1,1,5]",), {**_PLAIN, "heads_inside": True}),
    (("f32[1,83,2,20]", "f32[1,147,1,20]", "f32[1,147,1,16]"), (), {**_PLAIN, "causal": True, "heads_inside": True}),
    (("f32[1,2,83,20]", "f32[1,1,147,20]", "f32[1,1,147,16]"), ("bool[147]",), {**_PLAIN, "causal": True}),
)
_SMALL = ("f32[1,1,3,2]",) * 3
composite(
    "attention",
    _attention,
    (
        *(Sample((*operands, *masks), attrs) for operands, masks, attrs in _SAMPLES),
        Sample(_QKV, {**_PLAIN, "dropout": 0.1}),
    ),
    [_gradient(index) for index in range(3)],
    singular=(
        Sample((*_SMALL, "bool[3,3]"), _PLAIN, fixed=((3, (1, 0, 0, 0, 0, 0, 1, 1, 1)),)),
        Sample((*_SMALL, "f32[3,3]"), _PLAIN, fixed=((3, (0.0, *(-math.inf,) * 5, 0.0, 0.0, -math.inf)),)),
        Sample(("f32[1,1,3,2]", "f32[1,1,2,2]", "f32[1,1,2,2]"), {**_PLAIN, "causal": True}),
        Sample(_SMALL, _PLAIN, low=-1e4, high=1e4),
    ),
)


def _backward_sample(operands: tuple[str, ...], masks: tuple[str, ...], attrs: Attrs) -> Sample:
    q, v = (parse_type(operands[index]) for index in (0, 2))
    y, levels = (q.with_shape((*q.shape[:-1], size)) for size in (v.shape[-1], 2))
    levels = levels.with_shape(tuple(levels.shape[axis] for axis in HEADS)) if attrs.get("heads_inside") else levels
    return Sample((*operands, str(y), str(levels), str(y), *masks), attrs)


composite(
    "attention_backward",
    _attention_backward,
    tuple(_backward_sample(*sample) for sample in _SAMPLES),
    singular="a gradient: the singular samples of attention try it",
)
