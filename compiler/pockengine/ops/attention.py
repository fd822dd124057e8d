"""Softmax over positions of which all may be hidden, and scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Attrs, DType, Node, Value
from .composites import composite
from .emitter import Emitter
from .registry import Sample

_LEAST = {
    DType.F16: float(np.finfo(np.float16).min),
    DType.BF16: -(2.0**127) * (2 - 2.0**-7),
    DType.F32: float(np.finfo(np.float32).min),
    DType.F64: float(np.finfo(np.float64).min),
}
"""The finite number of each type that is furthest below zero."""


def _masked_softmax(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """Softmax where -inf hides a position; a row in which all are hidden gives zeros."""
    (x,), axis = inputs, int(attrs["axis"])
    peak = e.op("clip", e.max(x, [axis]), lo=_LEAST[x.type.dtype], hi=float("inf"))
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
)


def _attention(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """q, k, v: [batch, heads, time, depth]; any number of masks that broadcast to the scores. A mask of numbers is
    added, and -inf hides a position; a boolean one hides where it is false. A query that sees nothing gives zeros.

    causal   query i of m sees the keys 0 … n - m + i of n
    softcap  bound of the scores before the masks, where there is one
    dropout  share of the weights that are set to zero in training, where there is one"""
    q, k, v, *masks = inputs
    softcap = float(attrs.get("softcap", 0.0))
    weights = stages(e, q, k, masks, float(attrs["scale"]), softcap, bool(attrs["causal"]))[-1]
    if attrs.get("dropout"):
        weights = e.op("dropout", weights, p=attrs["dropout"])
    return [e.matmul(weights, v)]


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
_PLAIN = {"scale": 0.5, "causal": False}
composite(
    "attention",
    _attention,
    (
        Sample(_QKV, _PLAIN),
        Sample(_QKV, {**_PLAIN, "causal": True}),
        Sample((*_QKV, "f32[2,1,1,5]"), _PLAIN),
        Sample(_QKV, {**_PLAIN, "dropout": 0.1}),
        Sample((*_QKV, "f32[2,1,1,5]"), {**_PLAIN, "softcap": 3.0}),
        Sample((*_QKV, "bool[5,5]", "f32[2,1,5,5]"), _PLAIN),
        Sample(("f32[1,2,5,4]", "f32[1,2,3,4]", "f32[1,2,3,4]"), {**_PLAIN, "causal": True}),
    ),
)
