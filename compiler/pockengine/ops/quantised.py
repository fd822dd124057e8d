"""Block-quantised numbers: small integers, and one scale for each block of a row.

Symmetric and linear: a block's scale is its largest magnitude over the largest integer (7 for 4 bits, 127 for 8), a
number is its integer times the scale. Scales are bf16 (their bits, as u16), with so few significant bits that a number
has 8 of them for 4 bits and 15 for 8: one and two bf16 hold it exactly. Rows are padded with zeros to whole blocks. Of
4-bit integers byte j of a block holds those of j (low half) and of j + block / 2 (high half), each plus 8, so that both
halves unpack along the vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, DType, TensorType
from .movement import ints
from .registry import Kind, Op, Sample, register

DEQUANTIZE = "dequantize_blocks"
BLOCKS = (16, 32, 64, 128, 256)
_OFFSET = 8
_AT_ONCE = 1 << 17
"""Elements that are quantised together: temporaries stay in the second-level cache."""


class BlockFormat(StrEnum):
    """What the numbers of a block are, beside their scale."""

    INT8 = "int8"
    """Integers from -127 to 127, a byte each."""
    INT4 = "int4"
    """Integers from -7 to 7, two in a byte."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> BlockFormat:
        """That of a mapping that has `format`, or as those of pockengine 0.1 only `bits`, which then are of integers.
        Raises ModelError for one that is not known."""
        name = stored["format"] if "format" in stored else f"int{stored['bits']}"
        if name not in tuple(cls):
            raise ModelError(f"{name!r} is no format of quantised weights: {', '.join(cls)} are")
        return cls(name)

    @property
    def bits(self) -> int:
        """Of a stored number."""
        return _BITS[self]

    @property
    def dtype(self) -> DType:
        """That of the packed numbers."""
        return DType.U8 if self is BlockFormat.INT4 else DType.I8

    @property
    def largest(self) -> int:
        """The largest magnitude of a stored number."""
        return _LARGEST[self]

    @property
    def scale_bits(self) -> int:
        """Significant bits of a scale."""
        return _SCALE_BITS[self]

    @property
    def significant_bits(self) -> int:
        """Of a number: those of its integer without the sign, and those of its scale."""
        return self.bits - 1 + self.scale_bits


_BITS = {BlockFormat.INT8: 8, BlockFormat.INT4: 4}
_LARGEST = {BlockFormat.INT8: 127, BlockFormat.INT4: 7}
_SCALE_BITS = {BlockFormat.INT8: 8, BlockFormat.INT4: 5}


def packed_types(rows: int, columns: int, format: BlockFormat, block: int) -> tuple[TensorType, TensorType]:
    """Types of the packed numbers and of the scales of `rows` rows of `columns` numbers."""
    blocks = -(-columns // block)
    return TensorType(format.dtype, (rows, blocks * block * format.bits // 8)), TensorType(DType.U16, (rows, blocks))


def quantize(matrix: Array, format: BlockFormat, block: int) -> tuple[Array, Array]:
    """The packed integers and scales of a matrix [rows, columns], as `packed_types` says."""
    rows, columns = matrix.shape
    packed, scales = (np.empty(t.shape, t.dtype.numpy) for t in packed_types(rows, columns, format, block))
    for part in _parts(matrix):
        numbers = _blocks(matrix[part], block)
        scales[part] = _rounded(np.abs(numbers).max(axis=2, initial=0.0) / np.float32(format.largest), format)
        packed[part] = _integers(numbers, scale_numbers(scales[part]), format)
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


def _rounded(scales: Array, format: BlockFormat) -> Array:
    """f32 numbers that are not negative as the bits of bf16 numbers, to the nearest with few significant bits."""
    dropped = 24 - format.scale_bits
    whole = (scales.view(np.uint32) + np.uint32(1 << (dropped - 1))) >> np.uint32(dropped)
    return (whole << np.uint32(dropped - 16)).astype(np.uint16)


def scale_numbers(scales: Array) -> Array:
    """The scales as f32 numbers."""
    return (scales.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _integers(numbers: Array, scales: Array, format: BlockFormat) -> Array:
    """The packed integers [rows, bytes] of numbers [rows, blocks, block]."""
    largest, block = format.largest, numbers.shape[2]
    divisor = np.where(scales > 0, scales, np.float32(1.0))[..., None]
    rounded = numbers / divisor
    np.rint(rounded, out=rounded)
    np.clip(rounded, -largest, largest, out=rounded)
    integers = rounded.astype(np.int8)
    if format is BlockFormat.INT4:
        shifted = (integers + np.int8(_OFFSET)).view(np.uint8)
        integers = shifted[..., : block // 2] | (shifted[..., block // 2 :] << np.uint8(4))
    return integers.reshape(len(numbers), -1)


def dequantize(packed: Array, scales: Array, format: BlockFormat, block: int, shape: Sequence[int]) -> Array:
    """The numbers of a tensor of this shape; its rows are those of `packed`."""
    rows, blocks = scales.size // max(1, scales.shape[-1]), scales.shape[-1]
    integers, factors = packed.reshape(rows, blocks, -1), scale_numbers(scales)
    if format is BlockFormat.INT4:
        halves = [integers & 15, integers >> 4]
        integers = np.concatenate(halves, axis=2).astype(np.int8) - np.int8(_OFFSET)
    numbers = integers.astype(factors.dtype) * factors.reshape(rows, blocks, 1)
    columns = math.prod(shape) // max(1, rows)
    return np.asarray(numbers.reshape(rows, blocks * block)[:, :columns], order="C").reshape(tuple(shape))


def relative_error(matrix: Array, packed: Array, scales: Array, format: BlockFormat, block: int) -> float:
    """Root mean square of the error over that of the numbers; 0 where all are zero."""
    lost = total = 0.0
    for part in _parts(matrix):
        exact = np.asarray(matrix[part], np.float32, order="C")
        wrong = (dequantize(packed[part], scales[part], format, block, exact.shape) - exact).reshape(-1)
        lost += float(np.dot(wrong, wrong))
        total += float(np.dot(exact.reshape(-1), exact.reshape(-1)))
    return math.sqrt(lost / total) if total > 0 else 0.0


def _type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    packed, scales = inputs
    shape, format, block = ints(attrs, "shape"), BlockFormat.of(attrs), int(attrs["block"])
    rows = math.prod(scales.shape[:-1])
    columns = math.prod(shape) // max(1, rows)
    wanted = packed_types(rows, columns, format, block)
    flat = (packed.with_shape((rows, packed.shape[-1])), scales.with_shape((rows, scales.shape[-1])))
    if block not in BLOCKS or flat != wanted or rows * columns != math.prod(shape):
        raise ModelError(f"{DEQUANTIZE} cannot make {list(shape)} of {packed} and {scales} in blocks of {block}")
    return (TensorType(DType.F32, shape),)


def _reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    packed, scales = inputs
    return [dequantize(packed, scales, BlockFormat.of(attrs), int(attrs["block"]), ints(attrs, "shape"))]


def _sample_scales(count: int) -> tuple[tuple[int, tuple[int, ...]]]:
    """For `Sample.fixed`: scales from 0.5 to 4, and one of zero."""
    scales = _rounded(np.linspace(0.5, 4.0, count, dtype=np.float32), BlockFormat.INT4)
    return ((1, (0, *map(int, scales[1:]))),)


register(
    Op(
        DEQUANTIZE,
        Kind.MOVEMENT,
        _type,
        _reference,
        decompresses=True,
        samples=tuple(
            Sample(
                shapes,
                {"format": format, "block": block, "shape": shape},
                ints=127 if format == BlockFormat.INT8 else 256,
                fixed=scales,
            )
            for shapes, format, block, shape, scales in (
                (("u8[5,16]", "u16[5,1]"), "int4", 32, (5, 32), _sample_scales(5)),
                (("u8[3,24]", "u16[3,3]"), "int4", 16, (3, 5, 3, 3), _sample_scales(9)),
                (("i8[4,96]", "u16[4,3]"), "int8", 32, (4, 70), _sample_scales(12)),
                (("u8[2,3,32]", "u16[2,3,2]"), "int4", 32, (2, 3, 33), _sample_scales(12)),
                (("i8[70,64]", "u16[70,1]"), "int8", 64, (70, 64), _sample_scales(70)),
            )
        ),
    )
)
