"""Products whose operands are both 8-bit floats (E4M3, see quantised.py) with a scale for each row that is summed over.

A frozen weight lies so; what it is multiplied with is rounded in the step: its scale is that of the row's largest
magnitude. The gradient takes the rounding for the identity (Bengio et al., arXiv 1308.3432) and is a product of the
weight with the gradient as it is: errors of the gradient would add up from layer to layer."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Attrs, DType, Node, Value
from .composites import composite
from .emitter import Emitter
from .quantised import DEQUANTIZE, BlockFormat
from .registry import Sample

MATMUL = "matmul_fp8"
_LEAST_SCALE = 2.0**-100
"""Of a row of zeros."""
_SUBNORMAL, _STEP = 2.0**-6, 2.0**9
"""Numbers below the first are a whole number over the second."""
_DROPPED = 20
"""Bits of an f32's mantissa that a code does not have."""
_BIAS = (127 - 7) << 3
"""By which the upper bits of an f32 exceed the code of the same number."""
_GREATEST = 126
"""The code of 448."""
_NAN = 0x7FC00000
"""Bits of a NaN; what a GPU makes has larger ones, to which nothing can be added."""


def encode(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Codes u8 [rows, columns], to the nearest, ties to even, and scales u16 [rows, 1] of f32 [rows, columns]: those of
    `quantize` in blocks of a whole row, but for scales below 2^-100. A row with a NaN has it for its scale. Nothing but
    the two extrema is computed of x without its scale, so that no other tensor of its size is made before that is
    known."""
    largest = e.maximum(e.max(x, [1]), e.op("neg", e.min(x, [1])))
    bits = e.op("bitcast", e.maximum(e.div(largest, float(BlockFormat.FP8.largest)), _LEAST_SCALE), to="i32")
    bits = e.op("minimum", bits, e.scalar(_NAN, bits))
    upper = e.op("shift_right", e.add(bits, (1 << _DROPPED) - 1), e.scalar(_DROPPED, bits))
    scale = e.op("bitcast", e.op("shift_left", upper, e.scalar(_DROPPED, upper)), to="f32")
    scaled = e.div(x, scale)
    magnitude = e.op("abs", scaled)
    bits = e.op("bitcast", magnitude, to="i32")
    odd = e.op("bitwise_and", e.op("shift_right", bits, e.scalar(_DROPPED, bits)), e.scalar(1, bits))
    rounded = e.add(e.add(bits, (1 << (_DROPPED - 1)) - 1), odd)
    normal = e.sub(e.op("shift_right", rounded, e.scalar(_DROPPED, rounded)), _BIAS)
    small = e.cast(e.op("round", e.mul(magnitude, _STEP)), DType.I32)
    code = e.where(e.less(magnitude, _SUBNORMAL), small, e.op("minimum", normal, e.scalar(_GREATEST, normal)))
    sign = e.op("shift_right", e.op("bitcast", scaled, to="i32"), e.scalar(24, bits))
    signed = e.op("bitwise_or", code, e.op("bitwise_and", sign, e.scalar(128, bits)))
    shift = e.op("shift_left", upper, e.scalar(_DROPPED - 16, upper))
    return e.cast(signed, DType.U8), e.cast(shift, DType.U16)


def _weight(e: Emitter, packed: Value, scales: Value, columns: int) -> Value:
    return e.op(
        DEQUANTIZE, packed, scales, format=BlockFormat.FP8.value, block=columns, shape=(packed.type.shape[0], columns)
    )


def _product(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    x, packed, scales = inputs
    rows, columns = x.type.shape
    codes, own = encode(e, x)
    rounded = e.op(DEQUANTIZE, codes, own, format=BlockFormat.FP8.value, block=columns, shape=(rows, columns))
    return [e.op("matmul", rounded, _weight(e, packed, scales, columns), trans_a=False, trans_b=True)]


def _gradient(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    x, packed, scales = node.inputs
    return e.op("matmul", dys[0], _weight(e, packed, scales, x.type.shape[1]), trans_a=False, trans_b=False)


# f32 [m, n] of x, f32 [m, k], and a weight in E4M3, u8 [n, k] and u16 [n, 1]; k is a multiple of 16.
composite(
    MATMUL,
    _product,
    (Sample(("f32[5,32]", "u8[7,32]", "u16[7,1]"), ints=120, fixed=((2, (0, *range(0x3F00, 0x3F60, 16))),)),),
    [_gradient, None, None],
    singular="rounding, which its gradient takes for the identity",
)
