"""Block-quantised numbers: small integers, and one scale for each block of a row.

Symmetric and linear: a block's scale is its largest magnitude over the largest integer (7 for 4 bits, 127 for 8), a
number is its integer times the scale. Scales are bf16 (their bits, as u16), with so few significant bits that a number
has 8 of them for 4 bits and 15 for 8: one and two bf16 hold it exactly. Rows are padded with zeros to whole blocks. Of
4-bit integers byte j of a block holds those of j (low half) and of j + block / 2 (high half), each plus 8, so that both
halves unpack along the vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, DType, TensorType
from .movement import ints
from .registry import Kind, Op, Sample, register

DEQUANTIZE = "dequantize_blocks"
BLOCKS = (16, 32, 64, 128, 256)
_LARGEST = {4: 7, 8: 127}
_SCALE_BITS = {4: 5, 8: 8}
_OFFSET = 8
_AT_ONCE = 1 << 17
"""Elements that are quantised together: temporaries stay in the second-level cache."""


def significant_bits(bits: int) -> int:
    """Of a number: those of its integer without the sign, and those of its scale."""
    return bits - 1 + _SCALE_BITS[bits]


def packed_types(rows: int, columns: int, bits: int, block: int) -> tuple[TensorType, TensorType]:
    """Types of the integers and of the scales of `rows` rows of `columns` numbers."""
    blocks = -(-columns // block)
    dtype = DType.U8 if bits == 4 else DType.I8
    return TensorType(dtype, (rows, blocks * block * bits // 8)), TensorType(DType.U16, (rows, blocks))


def quantize(matrix: Array, bits: int, block: int) -> tuple[Array, Array]:
    """The packed integers and scales of a matrix [rows, columns], as `packed_types` says."""
    rows, columns = matrix.shape
    packed, scales = (np.empty(t.shape, t.dtype.numpy) for t in packed_types(rows, columns, bits, block))
    for part in _parts(matrix):
        numbers = _blocks(matrix[part], block)
        scales[part] = _rounded(np.abs(numbers).max(axis=2, initial=0.0) / np.float32(_LARGEST[bits]), bits)
        packed[part] = _integers(numbers, scale_numbers(scales[part]), bits)
    return packed, scales


def _parts(matrix: Array) -> Iterator[slice]:
    """Rows that are worked on together."""
    step = max(1, _AT_ONCE // max(1, matrix.shape[1]))
    return (slice(start, start + step) for start in range(0, matrix.shape[0], step))


def _blocks(rows: Array, block: int) -> Array:
    """f32 [rows, blocks, block], padded with zeros."""
    count, columns = rows.shape
    blocks = -(-columns // block)
    if blocks * block == columns:
        return np.asarray(rows, np.float32, order="C").reshape(count, blocks, block)
    padded = np.zeros((count, blocks * block), np.float32)
    padded[:, :columns] = rows
    return padded.reshape(count, blocks, block)


def _rounded(scales: Array, bits: int) -> Array:
    """f32 numbers that are not negative as the bits of bf16 numbers, to the nearest with few significant bits."""
    dropped = 24 - _SCALE_BITS[bits]
    whole = (scales.view(np.uint32) + np.uint32(1 << (dropped - 1))) >> np.uint32(dropped)
    return (whole << np.uint32(dropped - 16)).astype(np.uint16)


def scale_numbers(scales: Array) -> Array:
    """The scales as f32 numbers."""
    return (scales.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _integers(numbers: Array, scales: Array, bits: int) -> Array:
    """The packed integers [rows, bytes] of numbers [rows, blocks, block]."""
    largest, block = _LARGEST[bits], numbers.shape[2]
    divisor = np.where(scales > 0, scales, np.float32(1.0))[..., None]
    rounded = numbers / divisor
    np.rint(rounded, out=rounded)
    np.clip(rounded, -largest, largest, out=rounded)
    integers = rounded.astype(np.int8)
    if bits == 4:
        shifted = (integers + np.int8(_OFFSET)).view(np.uint8)
        integers = shifted[..., : block // 2] | (shifted[..., block // 2 :] << np.uint8(4))
    return integers.reshape(len(numbers), -1)


def dequantize(packed: Array, scales: Array, bits: int, block: int, shape: Sequence[int]) -> Array:
    """The numbers of a tensor of this shape; its rows are those of `packed`."""
    rows, blocks = scales.size // max(1, scales.shape[-1]), scales.shape[-1]
    integers, factors = packed.reshape(rows, blocks, -1), scale_numbers(scales)
    if bits == 4:
        halves = [integers & 15, integers >> 4]
        integers = np.concatenate(halves, axis=2).astype(np.int8) - np.int8(_OFFSET)
    numbers = integers.astype(factors.dtype) * factors.reshape(rows, blocks, 1)
    columns = math.prod(shape) // max(1, rows)
    return np.asarray(numbers.reshape(rows, blocks * block)[:, :columns], order="C").reshape(tuple(shape))


def relative_error(matrix: Array, packed: Array, scales: Array, bits: int, block: int) -> float:
    """Root mean square of the error over that of the numbers; 0 where all are zero."""
    lost = total = 0.0
    for part in _parts(matrix):
        exact = np.asarray(matrix[part], np.float32, order="C")
        wrong = (dequantize(packed[part], scales[part], bits, block, exact.shape) - exact).reshape(-1)
        lost += float(np.dot(wrong, wrong))
        total += float(np.dot(exact.reshape(-1), exact.reshape(-1)))
    return math.sqrt(lost / total) if total > 0 else 0.0


def _type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    packed, scales = inputs
    shape, bits, block = ints(attrs, "shape"), int(attrs["bits"]), int(attrs["block"])
    rows = math.prod(scales.shape[:-1])
    columns = math.prod(shape) // max(1, rows)
    wanted = packed_types(rows, columns, bits, block)
    flat = (packed.with_shape((rows, packed.shape[-1])), scales.with_shape((rows, scales.shape[-1])))
    if block not in BLOCKS or flat != wanted or rows * columns != math.prod(shape):
        raise ModelError(f"{DEQUANTIZE} cannot make {list(shape)} of {packed} and {scales} in blocks of {block}")
    return (TensorType(DType.F32, shape),)


def _reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    packed, scales = inputs
    return [dequantize(packed, scales, int(attrs["bits"]), int(attrs["block"]), ints(attrs, "shape"))]


def _sample_scales(count: int) -> tuple[tuple[int, tuple[int, ...]]]:
    """For `Sample.fixed`: scales from 0.5 to 4, and one of zero."""
    scales = _rounded(np.linspace(0.5, 4.0, count, dtype=np.float32), 4)
    return ((1, (0, *map(int, scales[1:]))),)


register(
    Op(
        DEQUANTIZE,
        Kind.MOVEMENT,
        _type,
        _reference,
        decompresses=True,
        samples=tuple(
            Sample(shapes, {"bits": bits, "block": block, "shape": shape}, ints=256 if bits == 4 else 127, fixed=scales)
            for shapes, bits, block, shape, scales in (
                (("u8[5,16]", "u16[5,1]"), 4, 32, (5, 32), _sample_scales(5)),
                (("u8[3,24]", "u16[3,3]"), 4, 16, (3, 5, 3, 3), _sample_scales(9)),
                (("i8[4,96]", "u16[4,3]"), 8, 32, (4, 70), _sample_scales(12)),
                (("u8[2,3,32]", "u16[2,3,2]"), 4, 32, (2, 3, 33), _sample_scales(12)),
                (("i8[70,64]", "u16[70,1]"), 8, 64, (70, 64), _sample_scales(70)),
            )
        ),
    )
)
