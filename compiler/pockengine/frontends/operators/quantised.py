"""Quantisation to integers, and products of quantised tensors: computed as ONNX defines them, exactly, in i32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import DType, Value
from ...ops import Emitter
from .convolution import convolve
from .registry import NodeContext, Operand, converts, dtype_of


@converts("QuantizeLinear")
def quantize(c: NodeContext) -> Sequence[Operand]:
    x, given = c.value(0), c.attr("output_dtype", 0)
    scale = _spread(c, x, c.value(1))
    zero = _spread(c, x, c.value(2)) if c.has(2) else None
    dtype = zero.type.dtype if zero is not None else dtype_of(given, c.where) if given else DType.U8
    if precision := c.attr("precision", 0):
        x, scale = (c.e.cast(value, dtype_of(precision, c.where)) for value in (x, scale))
    return [_quantized(c.e, c.e.div(x, c.e.cast(scale, x.type.dtype)), zero, dtype)]


@converts("DequantizeLinear")
def dequantize(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    scale = _spread(c, x, c.value(1))
    zero = _spread(c, x, c.value(2)) if c.has(2) else None
    y = c.e.mul(c.e.cast(_shifted(c.e, x, zero), scale.type.dtype), scale)
    given = c.attr("output_dtype", 0)
    return [c.e.cast(y, dtype_of(given, c.where)) if given else y]


@converts("MatMulInteger")
def matmul_integer(c: NodeContext) -> Sequence[Operand]:
    return [_product(c, 0, 1, 2, 3)]


@converts("QLinearMatMul")
def quantized_matmul(c: NodeContext) -> Sequence[Operand]:
    """Inputs: a, its scale and zero point, b, its scale and zero point, the scale and zero point of the result."""
    product = _product(c, 0, 3, 2, 5)
    scales = _row_scale(c.e, c.value(1), 1), _row_scale(c.e, c.value(4), 0), c.value(6)
    return [_requantized(c.e, product, *scales, c.value(7))]


@converts("ConvInteger")
def conv_integer(c: NodeContext) -> Sequence[Operand]:
    return [_convolution(c, 0, 1, 2, 3)]


@converts("QLinearConv")
def quantized_conv(c: NodeContext) -> Sequence[Operand]:
    """As QLinearMatMul; the bias is i32 in the scale of the products, weights may have a scale each output channel."""
    y = _convolution(c, 0, 3, 2, 5)
    if c.has(8):
        y = c.e.add(y, _per_channel(c.e, c.value(8), y.type.rank))
    return [_requantized(c.e, y, c.value(1), _per_channel(c.e, c.value(4), y.type.rank), c.value(6), c.value(7))]


def _product(c: NodeContext, a: int, b: int, a_zero: int, b_zero: int) -> Value:
    """The product of two matrices of integers less their zero points, one each row of a or column of b, as i32."""
    zeros = (c.optional(a_zero), c.optional(b_zero))
    left = _shifted(c.e, c.value(a), None if zeros[0] is None else _row_scale(c.e, zeros[0], 1))
    right = _shifted(c.e, c.value(b), None if zeros[1] is None else _row_scale(c.e, zeros[1], 0))
    return c.e.matmul(left, right)


def _row_scale(e: Emitter, x: Value, trailing: int) -> Value:
    """One number a row as a column: `trailing` axes of size 1 are appended to a vector."""
    return x if x.type.rank != 1 or x.type.size == 1 else e.reshape(x, (x.type.size, *(1,) * trailing))


def _per_channel(e: Emitter, x: Value, rank: int) -> Value:
    """A number, or one each channel, against [n, channels, …]."""
    return e.reshape(x, ()) if x.type.size == 1 else e.reshape(x, (x.type.size, *(1,) * (rank - 2)))


def _convolution(c: NodeContext, x: int, w: int, x_zero: int, w_zero: int) -> Value:
    weights, zero = c.value(w), c.optional(w_zero)
    if zero is not None:
        zero = _per_channel(c.e, zero, weights.type.rank + 1)
    images = _shifted(c.e, c.value(x), c.optional(x_zero))
    return convolve(c, images, _shifted(c.e, weights, zero))


def _shifted(e: Emitter, x: Value, zero: Value | None) -> Value:
    """x less its zero point as i32."""
    wide = e.cast(x, DType.I32)
    return wide if zero is None else e.sub(wide, e.cast(zero, DType.I32))


def _requantized(e: Emitter, product: Value, a: Value, b: Value, y: Value, zero: Value) -> Value:
    """An i32 product of tensors with the scales a and b, in the scale y."""
    factor = e.div(e.mul(a, b), y)
    return _quantized(e, e.mul(e.cast(product, factor.type.dtype), factor), zero, zero.type.dtype)


def _quantized(e: Emitter, x: Value, zero: Value | None, dtype: DType) -> Value:
    """Rounded half to even, moved by the zero point, and saturated."""
    bounds = np.iinfo(dtype.numpy.name)
    y = e.op("round", x)
    if zero is not None:
        y = e.add(y, e.cast(zero, x.type.dtype))
    return e.cast(e.op("clip", y, lo=float(bounds.min), hi=float(bounds.max)), dtype)


def _spread(c: NodeContext, x: Value, scale: Value) -> Value:
    """A scale or zero point in a shape that broadcasts to x: one number, one an index of the axis, or one a block."""
    if scale.type.size == 1:
        return c.e.reshape(scale, ())
    block, axis = c.attr("block_size", 0), c.axis("axis", 1, x.type.rank)
    if not block:
        return c.e.reshape(scale, (scale.type.size, *(1,) * (x.type.rank - axis - 1)))
    shape = scale.type.shape
    wide = c.e.reshape(scale, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    wide = c.e.broadcast_to(wide, (*shape[: axis + 1], block, *shape[axis + 1 :]))
    repeated = c.e.reshape(wide, (*shape[:axis], shape[axis] * block, *shape[axis + 1 :]))
    starts, stops = (0,) * x.type.rank, (*shape[:axis], x.type.shape[axis], *shape[axis + 1 :])
    return c.e.op("slice", repeated, starts=starts, stops=stops, steps=(1,) * x.type.rank)
