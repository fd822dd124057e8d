"""Scaled dot-product attention (ONNX opset 23)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir import DType, Value
from .registry import NodeContext, Operand, converts


@converts("Attention")
def attention(c: NodeContext) -> Sequence[Operand]:
    """Self or cross attention without a cache; grouped key and value heads are repeated."""
    if any(c.has(index) for index in range(4, 7)) or any(c.node.output[1:]):
        raise c.unsupported("a key-value cache or the output of scores")
    if c.attr("softcap", 0.0):
        raise c.unsupported("softcap")
    q, k, v = (c.value(index) for index in range(3))
    flat = q.type.rank == 3
    if flat:
        key_heads = c.attr("kv_num_heads", 0)
        q = _split_heads(c, q, c.attr("q_num_heads", 0))
        k, v = _split_heads(c, k, key_heads), _split_heads(c, v, key_heads)
    heads = q.type.shape[1]
    k, v = _repeat_heads(c, k, heads), _repeat_heads(c, v, heads)
    scale = c.attr("scale", 1.0 / math.sqrt(q.type.shape[-1]))
    mask = [_additive(c, c.value(3), q.type.dtype)] if c.has(3) else []
    causal = bool(c.attr("is_causal", 0))
    rows, columns = q.type.shape[2], k.type.shape[2]
    if causal and rows != columns:
        # ONNX lets query i see keys 0 … i; our composite aligns the last query with the last key.
        seen = c.e.where(c.e.const(np.tri(rows, columns, dtype=bool)), c.e.scalar(0.0, q), c.e.scalar(-math.inf, q))
        mask, causal = [c.e.add(mask[0], seen) if mask else seen], False
    y = c.e.op("attention", q, k, v, *mask, scale=scale, causal=causal)
    if not flat:
        return [y]
    batch, _, time, depth = y.type.shape
    return [c.e.reshape(c.e.transpose(y, (0, 2, 1, 3)), (batch, time, heads * depth))]


def _split_heads(c: NodeContext, x: Value, heads: int) -> Value:
    batch, time, width = x.type.shape
    return c.e.transpose(c.e.reshape(x, (batch, time, heads, width // heads)), (0, 2, 1, 3))


def _repeat_heads(c: NodeContext, x: Value, heads: int) -> Value:
    batch, own, time, depth = x.type.shape
    if own == heads:
        return x
    wide = c.e.broadcast_to(c.e.reshape(x, (batch, own, 1, time, depth)), (batch, own, heads // own, time, depth))
    return c.e.reshape(wide, (batch, heads, time, depth))


def _additive(c: NodeContext, mask: Value, dtype: DType) -> Value:
    """A mask that is added to the scores: a boolean one hides where it is false."""
    if mask.type.dtype is not DType.BOOL:
        return mask
    return c.e.where(mask, c.e.const(0.0, dtype), c.e.const(-math.inf, dtype))
