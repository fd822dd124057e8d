"""Optimizer state in 8 bits: codes with one scale for each block of consecutive elements (Dettmers et al., "8-bit
Optimizers via Block-wise Quantization", ICLR 2022).

A tensor is seen as [blocks, block]. The code is quadratic, so that small numbers of a block survive: a signed number is
scale * c |c| with c in -127 ... 127, one that is the root of a second moment is scale * c^2 with c in 1 ... 255, never
zero, or a step would be divided by nothing. The scale makes the block's largest magnitude its largest code.

Rounding is stochastic: up or down with the probabilities that make the decoded number right on average. To the nearest,
a decay by less than half the distance between two codes would never happen. The noise is `uniform`'s, so that any
number of threads gives the same bits.
"""

from __future__ import annotations

from ..ir import DType, Value
from .emitter import Emitter
from .random import uniform

SMALLEST = 4096
"""Elements from which on a tensor has its state in 8 bits (as in bitsandbytes): smaller ones cost little."""
_BLOCK, _VECTOR = 128, 32
_LARGEST = {DType.I8: 127, DType.U8: 255}
_LEAST_SCALE = 2.0**-100
"""Its reciprocal is finite; what it cannot hold is as good as zero."""


def block_length(size: int) -> int | None:
    """Elements that share a scale: a divisor of `size` from half to twice 128, if possible a multiple of 32, else the
    nearest to 128. None for small tensors and where there is no such divisor: they keep f32."""
    lengths = [length for length in range(_BLOCK // 2, 2 * _BLOCK + 1) if size % length == 0]
    if size < SMALLEST or not lengths:
        return None
    return min(lengths, key=lambda length: (length % _VECTOR != 0, abs(length - _BLOCK), length))


def encode(e: Emitter, x: Value, dtype: DType, seed: Value, site: int) -> tuple[Value, Value]:
    """Codes of this type, I8 or U8 (for what is never negative), and f32 scales [blocks, 1] of f32 [blocks, block].
    `seed` and `site`: as `uniform` takes them."""
    largest = _LARGEST[dtype]
    magnitude = e.op("abs", x) if dtype is DType.I8 else x
    scale = e.maximum(e.div(e.max(magnitude, [1]), float(largest**2)), _LEAST_SCALE)
    square = e.mul(magnitude, e.op("reciprocal", scale))
    square = e.op("minimum", square, e.scalar(largest**2, square))
    below = e.op("floor", e.op("sqrt", square))
    above = e.add(below, 1.0)
    gap = e.add(below, above)
    risen = e.less(e.mul(uniform(e, x.type.shape, seed, site), gap), e.sub(square, e.mul(below, below)))
    code = e.where(risen, above, below)
    code = e.where(e.less(x, 0.0), e.op("neg", code), code) if dtype is DType.I8 else e.maximum(code, 1.0)
    return e.cast(code, dtype), scale


def decode(e: Emitter, codes: Value, scale: Value) -> Value:
    """The f32 numbers [blocks, block] that codes stand for."""
    c = e.cast(codes, DType.F32)
    return e.mul(e.mul(c, e.op("abs", c) if codes.type.dtype is DType.I8 else c), scale)
