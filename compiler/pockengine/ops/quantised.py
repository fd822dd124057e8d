"""Block-quantised numbers: small integers or 8-bit floats, and one scale for each block of a row.

Symmetric: a block's scale is its largest magnitude over the format's (7, 127 or 448), a number is its code's times the
scale. Scales are bf16 (their bits, as u16), with so few significant bits that a number has 8 of them in int4 and fp8
and 15 in int8: one and two bf16 hold it exactly. Rows are padded with zeros to whole blocks. Of 4-bit integers byte j
of a block holds those of j (low half) and of j + block / 2 (high half), each plus 8, so that both halves unpack along
the vector.

fp8 is E4M3 of the OCP (8-bit Floating Point Specification, revision 1.0): a sign, 4 bits of exponent with a bias of 7,
3 bits of mantissa, subnormal numbers down to 2^-9, no infinities. Codes are to the nearest, ties to even. Its scales
are rounded up, so that no number lies beyond 448: a larger scale costs a float no precision, saturation would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, DType, TensorType
from .movement import ints
from .registry import Kind, Op, Sample, register

DEQUANTIZE = "dequantize_blocks"
BLOCKS = (16, 32, 64, 128, 256)
ALIGNED = 16
"""Codes of which a row with one scale has a whole number."""
_OFFSET = 8
_AT_ONCE = 1 << 17
"""Elements that are quantised together: temporaries stay in the second-level cache."""


class BlockFormat(StrEnum):
    """What the numbers of a block are, beside their scale."""

    INT8 = "int8"
    """Integers from -127 to 127, a byte each."""
    INT4 = "int4"
    """Integers from -7 to 7, two in a byte."""
    FP8 = "fp8"
    """Floats of E4M3 from -448 to 448, a byte each."""

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
        """Of a code."""
        return _BITS[self]

    @property
    def dtype(self) -> DType:
        """That of the packed codes."""
        return DType.I8 if self is BlockFormat.INT8 else DType.U8

    @property
    def largest(self) -> int:
        """The largest magnitude of a code's number."""
        return _LARGEST[self]

    @property
    def scale_bits(self) -> int:
        """Significant bits of a scale."""
        return _SCALE_BITS[self]

    @property
    def significant_bits(self) -> int:
        """Of a number: those of its code without the sign, and those of its scale."""
        return _CODE_BITS[self] + self.scale_bits


_BITS = {BlockFormat.INT8: 8, BlockFormat.INT4: 4, BlockFormat.FP8: 8}
_LARGEST = {BlockFormat.INT8: 127, BlockFormat.INT4: 7, BlockFormat.FP8: 448}
_CODE_BITS = {BlockFormat.INT8: 7, BlockFormat.INT4: 3, BlockFormat.FP8: 4}
_SCALE_BITS = {BlockFormat.INT8: 8, BlockFormat.INT4: 5, BlockFormat.FP8: 4}


def _e4m3() -> Array:
    """f32 [256]: the numbers of the codes of fp8. Those of NaN, 0x7F and 0xFF, are never made; here they are what the
    arithmetic of kernels gives, 480."""
    codes = np.arange(128)
    exponents = np.maximum(codes >> 3, 1)
    numbers = np.ldexp((codes - 8 * (exponents - 1)).astype(np.float32), exponents - 10)
    return np.concatenate([numbers, -numbers])


_E4M3 = _e4m3()


def packed_types(rows: int, columns: int, format: BlockFormat, block: int) -> tuple[TensorType, TensorType]:
    """Types of the packed numbers and of the scales of `rows` rows of `columns` numbers."""
    blocks = -(-columns // block)
    return TensorType(format.dtype, (rows, blocks * block * format.bits // 8)), TensorType(DType.U16, (rows, blocks))


def quantize(matrix: Array, format: BlockFormat, block: int) -> tuple[Array, Array]:
    """The packed codes and scales of a matrix [rows, columns], as `packed_types` says."""
    rows, columns = matrix.shape
    packed, scales = (np.empty(t.shape, t.dtype.numpy) for t in packed_types(rows, columns, format, block))
    for part in _parts(matrix):
        numbers = _blocks(matrix[part], block)
        scales[part] = _rounded(np.abs(numbers).max(axis=2, initial=0.0) / np.float32(format.largest), format)
        packed[part] = _codes(numbers, scale_numbers(scales[part]), format)
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
    """f32 numbers that are not negative as the bits of bf16 numbers with few significant bits: the nearest, or of fp8
    the next that is not smaller."""
    dropped = 24 - format.scale_bits
    added = (1 << dropped) - 1 if format is BlockFormat.FP8 else 1 << (dropped - 1)
    whole = (scales.view(np.uint32) + np.uint32(added)) >> np.uint32(dropped)
    return (whole << np.uint32(dropped - 16)).astype(np.uint16)


def scale_numbers(scales: Array) -> Array:
    """The scales as f32 numbers."""
    return (scales.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _codes(numbers: Array, scales: Array, format: BlockFormat) -> Array:
    """The packed codes [rows, bytes] of numbers [rows, blocks, block]."""
    largest, block = format.largest, numbers.shape[2]
    divisor = np.where(scales > 0, scales, np.float32(1.0))[..., None]
    rounded = numbers / divisor
    if format is BlockFormat.FP8:  # within 448, since scales are rounded up
        return rounded.astype(ml_dtypes.float8_e4m3fn).view(np.uint8).reshape(len(numbers), -1)
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
    codes, factors = packed.reshape(rows, blocks, -1), scale_numbers(scales)
    if format is BlockFormat.INT4:
        halves = [codes & 15, codes >> 4]
        codes = np.concatenate(halves, axis=2).astype(np.int8) - np.int8(_OFFSET)
    unscaled = _E4M3[codes] if format is BlockFormat.FP8 else codes.astype(np.float32)
    numbers = unscaled * factors.reshape(rows, blocks, 1)
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
    whole = block % ALIGNED == 0 and block >= columns
    if not (block in BLOCKS or whole) or flat != wanted or rows * columns != math.prod(shape):
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
                (("u8[9,64]", "u16[9,2]"), "fp8", 32, (9, 50), _sample_scales(18)),
                (("u8[2,3,64]", "u16[2,3,1]"), "fp8", 64, (2, 3, 64), _sample_scales(6)),
                (("u8[7,304]", "u16[7,1]"), "fp8", 304, (7, 300), _sample_scales(7)),
            )
        ),
    )
)
