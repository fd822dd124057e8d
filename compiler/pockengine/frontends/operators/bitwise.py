"""Operators on the bits of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from .registry import NodeContext, Operand, converts, dtype_of

_OPS = {"BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor"}


@converts(*_OPS)
def bitwise(c: NodeContext) -> Sequence[Operand]:
    return [c.e.op(_OPS[c.node.op_type], c.value(0), c.value(1))]


@converts("BitwiseNot")
def bitwise_not(c: NodeContext) -> Sequence[Operand]:
    return [c.e.op("bitwise_not", c.value(0))]


@converts("BitShift")
def shift(c: NodeContext) -> Sequence[Operand]:
    op = "shift_left" if c.attr("direction", "") == "LEFT" else "shift_right"
    return [c.e.op(op, c.value(0), c.value(1))]


@converts("BitCast")
def bit_cast(c: NodeContext) -> Sequence[Operand]:
    return [c.e.op("bitcast", c.value(0), to=dtype_of(c.attr("to", 0), c.where).value)]
