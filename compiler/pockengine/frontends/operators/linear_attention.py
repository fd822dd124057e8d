"""Linear attention (ONNX opset 27): a recurrence over the positions, written out for their fixed number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...errors import ModelError
from ...ir import Value
from ...ops.split import joined
from .registry import NodeContext, Operand, converts


@converts("LinearAttention")
def linear_attention(c: NodeContext) -> Sequence[Operand]:
    """The state [batch, heads, key, value] decays, is corrected, takes in the outer product of key and value, and is
    read by the queries of the head's group."""
    e, rule = c.e, c.attr("update_rule", "gated_delta")
    c.attr("chunk_size", 64)  # says how, not what, to compute
    heads, readers = c.attr("kv_num_heads", 0), c.attr("q_num_heads", 0)
    batch, time, width = c.shape(0)
    gated, corrected = rule in ("gated", "gated_delta"), rule in ("delta", "gated_delta")
    if not heads or readers % heads or c.has(4) != gated or c.has(5) != corrected:
        raise ModelError(f"{c.where}: its heads or inputs do not fit the update rule '{rule}'")
    depth, size = width // readers, c.shape(2)[2] // heads
    scale = c.attr("scale", 0.0) or 1.0 / math.sqrt(depth)
    queries = _steps(c, e.mul(c.value(0), scale), (heads, readers // heads, depth))
    keys = _steps(c, c.value(1), (heads, 1, depth))
    values = _steps(c, c.value(2), (heads, 1, size))
    decays = _steps(c, e.op("exp", c.value(4)), (heads, c.shape(4)[2] // heads, 1)) if gated else []
    rates = _steps(c, c.value(5), (c.shape(5)[2], 1, 1)) if corrected else []
    zeros = np.zeros((batch, heads, depth, size))
    state = c.value(3) if c.has(3) else e.const(zeros, c.value(0).type.dtype)
    shown = []
    for t in range(time):
        value = values[t]
        if gated:
            state = e.mul(state, decays[t])
        if corrected:
            value = e.mul(rates[t], e.sub(value, e.matmul(keys[t], state)))
        state = e.add(state, e.mul(e.reshape(keys[t], (batch, heads, depth, 1)), value))
        shown.append(e.reshape(e.matmul(queries[t], state), (batch, 1, readers * size)))
    return [joined(e, shown, 1), state]


def _steps(c: NodeContext, x: Value, shape: tuple[int, int, int]) -> list[Value]:
    """[batch, time, width] -> for each position [batch, *shape]"""
    batch, time, _ = x.type.shape
    parts = c.e.multi("split", [x], axis=1, sizes=(1,) * time) if time > 1 else (x,)
    return [c.e.reshape(part, (batch, *shape)) for part in parts]
