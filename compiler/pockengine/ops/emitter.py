"""Typed construction of nodes: the vocabulary in which importers, gradients, composites and passes are written."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attr, Builder, DType, Value
from . import registry

MOST_ELEMENTS = 1 << 40
"""Of one tensor: beyond it, offsets in bytes would leave the range that plans and kernels count in."""


class Emitter:
    """Wraps a Builder; every method appends a node whose type comes from the op record."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def multi(self, op: str, inputs: Sequence[Value], names: Sequence[str] = (), **attrs: Attr) -> tuple[Value, ...]:
        """Append `op` and return all its outputs."""
        types = registry.get(op).infer([value.type for value in inputs], attrs)
        for type in types:
            if type.size > MOST_ELEMENTS:
                raise ModelError(f"the result of {op} is {type}, which no machine can hold")
            if min(type.shape, default=0) < 0:
                raise ModelError(f"the result of {op} would be {type}, and no axis has less than 0 elements")
        return self.builder.node(op, inputs, types, attrs, names=names, inferred=True)

    def op(self, op: str, *inputs: Value, **attrs: Attr) -> Value:
        """Append an op with one output and return it."""
        (output,) = self.multi(op, inputs, **attrs)
        return output

    # constants
    def const(self, array: Array | float | int, dtype: DType | None = None) -> Value:
        return self.builder.const(array, dtype)

    def scalar(self, value: float, like: Value) -> Value:
        """A rank-0 constant of the same element type as `like`."""
        return self.builder.const(np.asarray(value), like.type.dtype)

    def zeros(self, like: Value) -> Value:
        return self.broadcast_to(self.scalar(0.0, like), like.type.shape)

    # elementwise, with numpy broadcasting; a float operand becomes a scalar constant
    def _binary(self, op: str, a: Value | float, b: Value | float) -> Value:
        if not isinstance(a, Value):
            assert isinstance(b, Value)
            a = self.scalar(a, b)
        if not isinstance(b, Value):
            b = self.scalar(b, a)
        return self.op(op, a, b)

    def add(self, a: Value | float, b: Value | float) -> Value:
        return self._binary("add", a, b)

    def sub(self, a: Value | float, b: Value | float) -> Value:
        return self._binary("sub", a, b)

    def mul(self, a: Value | float, b: Value | float) -> Value:
        return self._binary("mul", a, b)

    def div(self, a: Value | float, b: Value | float) -> Value:
        return self._binary("div", a, b)

    def maximum(self, a: Value | float, b: Value | float) -> Value:
        return self._binary("maximum", a, b)

    def less(self, a: Value | float, b: Value | float) -> Value:
        return self._binary("less", a, b)

    def where(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        if not isinstance(a, Value):
            assert isinstance(b, Value)
            a = self.scalar(a, b)
        if not isinstance(b, Value):
            b = self.scalar(b, a)
        return self.op("where", condition, a, b)

    def cast(self, x: Value, dtype: DType) -> Value:
        return x if x.type.dtype is dtype else self.op("cast", x, to=dtype.value)

    # reductions keep the reduced axes as size 1 unless keepdims=False
    def sum(self, x: Value, axes: Sequence[int], keepdims: bool = True) -> Value:
        return self._reduce("reduce_sum", x, axes, keepdims)

    def max(self, x: Value, axes: Sequence[int], keepdims: bool = True) -> Value:
        return self._reduce("reduce_max", x, axes, keepdims)

    def min(self, x: Value, axes: Sequence[int], keepdims: bool = True) -> Value:
        return self._reduce("reduce_min", x, axes, keepdims)

    def mean(self, x: Value, axes: Sequence[int], keepdims: bool = True) -> Value:
        count = math.prod(x.type.shape[axis] for axis in _axes(x, axes))
        return self.mul(self._reduce("reduce_sum", x, axes, keepdims), 1.0 / count)

    def _reduce(self, op: str, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
        axes = _axes(x, axes)
        if not axes:
            return x
        reduced = self.op(op, x, axes=axes)
        if keepdims:
            return reduced
        return self.reshape(reduced, [d for axis, d in enumerate(x.type.shape) if axis not in axes])

    # shape
    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(int(d) for d in shape)
        return x if shape == x.type.shape else self.op("reshape", x, shape=shape)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        perm = tuple(int(p) for p in perm)
        return x if perm == tuple(range(x.type.rank)) else self.op("transpose", x, perm=perm)

    def broadcast_to(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(int(d) for d in shape)
        return x if shape == x.type.shape else self.op("broadcast_to", x, shape=shape)

    def unbroadcast(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Sum `x` down to `shape`: the gradient of broadcasting."""
        if x.type.shape == shape:
            return x
        lead = x.type.rank - len(shape)
        padded = (1,) * lead + shape
        axes = [axis for axis, d in enumerate(padded) if d == 1 and x.type.shape[axis] != 1]
        return self.reshape(self.sum(x, axes) if axes else x, shape)

    # contractions
    def matmul(self, a: Value, b: Value, trans_a: bool = False, trans_b: bool = False) -> Value:
        """numpy's matmul for ranks >= 2, each operand's last two axes transposed on request; broadcasts leading
        axes."""
        if b.type.rank == 2 and a.type.rank > 2 and not trans_a:
            flat = self.reshape(a, (math.prod(a.type.shape[:-1]), a.type.shape[-1]))
            product = self.op("matmul", flat, b, trans_a=False, trans_b=trans_b)
            return self.reshape(product, (*a.type.shape[:-1], product.type.shape[-1]))
        lead = np.broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2])
        a = self.broadcast_to(a, (*lead, *a.type.shape[-2:]))
        b = self.broadcast_to(b, (*lead, *b.type.shape[-2:]))
        return self.op("matmul", a, b, trans_a=trans_a, trans_b=trans_b)


def _axes(x: Value, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({int(axis) % x.type.rank for axis in axes}))
