"""Scaled dot-product attention (ONNX opset 23 and newer): masks, windows, softcap, grouped heads, a key-value cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...errors import ModelError
from ...ir import Array, DType, Value
from ...ops import Emitter
from ...ops.attention import repeat_heads, stages
from .registry import NodeContext, Operand, converts


@converts("Attention")
def attention(c: NodeContext) -> Sequence[Operand]:
    """q [batch, heads, rows, depth], k and v [batch, key heads, columns, depth], or packed as [batch, time, width]."""
    q, k, v = (c.value(index) for index in range(3))
    packed = q.type.rank == 3
    if packed:
        key_heads = c.attr("kv_num_heads", 0)
        q = split_heads(c.e, q, c.attr("q_num_heads", 0))
        k, v = split_heads(c.e, k, key_heads), split_heads(c.e, v, key_heads)
    if c.has(4) != c.has(5):
        raise ModelError(f"{c.where} needs both past keys and past values, or neither")
    if c.has(4):
        k, v = (c.e.op("concat", c.value(index), new, axis=2) for index, new in ((4, k), (5, v)))
    y, scores = _attend(c, q, k, v)
    return [join_heads(c.e, y) if packed else y, k, v, scores]


def _attend(c: NodeContext, q: Value, k: Value, v: Value) -> tuple[Value, Value]:
    """The result [batch, heads, rows, depth], and the scores where the node wants to see them (else the result)."""
    rows, columns = q.type.shape[2], k.type.shape[2]
    scale, softcap = c.attr("scale", 1.0 / math.sqrt(q.type.shape[-1])), c.attr("softcap", 0.0)
    mode = c.attr("qk_matmul_output_mode", 0)
    # A mask that says what `causal` says is no mask: the composite knows triangles.
    causal = bool(c.attr("is_causal", 0)) and rows == columns and not c.has(4) and not c.has(6)
    masks = list(_masks(c, rows, columns, causal))
    # `dropout` is only found on attention from `from_torch`.
    optional = {"softcap": softcap, "dropout": c.attr("dropout", 0.0)}
    given = {name: value for name, value in optional.items() if value}
    y, _ = c.e.multi("attention", (q, k, v, *masks), (), scale=scale, causal=causal, **given)
    if len(c.node.output) < 4 or not c.node.output[3]:
        return y, y
    return y, stages(c.e, q, repeat_heads(c.e, k, q.type.shape[1]), masks, scale, softcap, causal)[mode]


def _masks(c: NodeContext, rows: int, columns: int, causal: bool) -> Iterator[Value]:
    """What hides keys from queries, but for the triangle if `causal`; each broadcasts to [batch, heads, rows, columns].

    Query i stands at position `offset + i`: behind the past keys, or at the end of those keys that are not padding."""
    keys = np.arange(columns, dtype=np.int64)
    offset: Value | int = c.shape(4)[2] if c.has(4) else 0
    if c.has(6):
        valid = c.e.cast(c.value(6), DType.I64)
        valid = c.e.reshape(valid, (valid.type.size, 1, 1, 1))
        offset = c.e.sub(valid, rows)
        yield c.e.op("less", c.e.const(keys), valid)
    left, right = c.attr("left_window_size", -1), c.attr("right_window_size", -1)
    if c.attr("is_causal", 0):
        right = -1 if causal else 0
    ahead = keys - np.arange(rows, dtype=np.int64)[:, None]  # key - query, without the offset
    seen: Array = np.ones((rows, columns), bool)
    for bound, sign in ((right, 1), (left, -1)):
        if bound < 0:
            continue
        if isinstance(offset, Value):
            distance = c.e.mul(c.e.sub(c.e.const(ahead), offset), sign)
            yield c.e.op("less_equal", distance, c.e.scalar(bound, distance))
        else:
            seen &= sign * (ahead - offset) <= bound
    if not seen.all():
        yield c.e.const(seen)
    if c.has(3):
        yield _given_mask(c, columns)


def _given_mask(c: NodeContext, columns: int) -> Value:
    """The node's own mask; where it is shorter than the keys, the rest is hidden."""
    mask = c.value(3)
    missing, rank = columns - mask.type.shape[-1], mask.type.rank
    if missing <= 0:
        return mask
    hidden = 0 if mask.type.dtype is DType.BOOL else -math.inf
    ends = (*(0,) * (rank - 1), missing)
    return c.e.op("pad", mask, low=(0,) * rank, high=ends, interior=(0,) * rank, value=hidden)


def split_heads(e: Emitter, x: Value, heads: int) -> Value:
    """[batch, time, heads * depth] -> [batch, heads, time, depth]"""
    batch, time, width = x.type.shape
    return e.transpose(e.reshape(x, (batch, time, heads, width // heads)), (0, 2, 1, 3))


def join_heads(e: Emitter, x: Value) -> Value:
    """[batch, heads, time, depth] -> [batch, time, heads * depth]"""
    batch, heads, time, depth = x.type.shape
    return e.reshape(e.transpose(x, (0, 2, 1, 3)), (batch, time, heads * depth))
