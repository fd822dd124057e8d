"""Optimizer state in 8 bits: codes with one scale for each block of consecutive elements (Dettmers et al., "8-bit
Optimizers via Block-wise Quantization", ICLR 2022).

A tensor is seen as [blocks, block]. The code is quadratic, so that small numbers of a block survive: a signed number is
scale * c |c| with c in -127 ... 127, one that is the root of a second moment is scale * c^2 with c in 1 ... 255, never
zero, or a step would be divided by nothing. The scale makes the block's largest magnitude its largest code.

Rounding is stochastic: up or down with the probabilities that make the decoded number right on average. To the nearest,
a decay by less than half the distance between two codes would never happen. The noise is a function of the element's
index, the site and the step's seed, so that any number of threads gives the same bits.
"""

from __future__ import annotations

import numpy as np

from ..ir import DType, Value
from .emitter import Emitter

SMALLEST = 4096
"""Elements from which on a tensor has its state in 8 bits (as in bitsandbytes): smaller ones cost little."""
_BLOCK, _VECTOR = 128, 32
_GOLDEN = 0x9E3779B9
_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B))
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


def seed_of(e: Emitter, generator: Value) -> Value:
    """u32 of rank 0 from the i64 state that a run advances (seed in its high half, number of the run in the low)."""
    number = e.cast(generator, DType.U32)
    seed = e.cast(e.op("shift_right", generator, e.scalar(32, generator)), DType.U32)
    return _mixed(e, e.op("bitwise_xor", _mixed(e, number), seed))


def encode(e: Emitter, x: Value, dtype: DType, seed: Value, site: int) -> tuple[Value, Value]:
    """Codes of this type, I8 or U8 (for what is never negative), and f32 scales [blocks, 1] of f32 [blocks, block]. No
    two calls for one `seed` (see `seed_of`) have the same `site`: each rounds with noise of its own."""
    largest = _LARGEST[dtype]
    magnitude = e.op("abs", x) if dtype is DType.I8 else x
    scale = e.maximum(e.div(e.max(magnitude, [1]), float(largest**2)), _LEAST_SCALE)
    square = e.mul(magnitude, e.op("reciprocal", scale))
    square = e.op("minimum", square, e.scalar(largest**2, square))
    below = e.op("floor", e.op("sqrt", square))
    above = e.add(below, 1.0)
    gap = e.add(below, above)
    risen = e.less(e.mul(_noise(e, x.type.shape, seed, site), gap), e.sub(square, e.mul(below, below)))
    code = e.where(risen, above, below)
    code = e.where(e.less(x, 0.0), e.op("neg", code), code) if dtype is DType.I8 else e.maximum(code, 1.0)
    return e.cast(code, dtype), scale


def decode(e: Emitter, codes: Value, scale: Value) -> Value:
    """The f32 numbers [blocks, block] that codes stand for."""
    c = e.cast(codes, DType.F32)
    return e.mul(e.mul(c, e.op("abs", c) if codes.type.dtype is DType.I8 else c), scale)


def _noise(e: Emitter, shape: tuple[int, ...], seed: Value, site: int) -> Value:
    """f32 of this shape, [blocks, block], evenly spread over [0, 1) in steps of 2^-24."""
    blocks, block = shape
    starts = np.arange(blocks, dtype=np.uint32)[:, None] * np.uint32(block)
    lanes = (np.arange(block) + site * _GOLDEN).astype(np.uint32)[None, :]
    # The seed first: the sum of both constants would be folded to one as large as the tensor.
    bits = _mixed(e, e.add(e.add(e.const(lanes), seed), e.const(starts)))
    return e.mul(e.cast(e.op("shift_right", bits, e.scalar(8, bits)), DType.F32), 2.0**-24)


def _mixed(e: Emitter, x: Value) -> Value:
    """A u32 whose every bit depends on every bit of x: the finaliser `lowbias32` (C. Wellons, "Prospecting for hash
    functions", 2018)."""
    for places, factor in _ROUNDS:
        x = e.mul(_folded(e, x, places), e.scalar(factor, x))
    return _folded(e, x, _ROUNDS[0][0])


def _folded(e: Emitter, x: Value, places: int) -> Value:
    return e.op("bitwise_xor", x, e.op("shift_right", x, e.scalar(places, x)))
