"""Block-quantised numbers: small integers, and one scale for each block of a row.

Symmetric and linear: a block's scale is its largest magnitude over the largest integer (7 for 4 bits, 127 for 8), a
number is its integer times the scale. Scales are f16 (their bits, as u16), but f32 for a weight with a scale that f16
cannot hold. Rows are padded with zeros to whole blocks. Of 4-bit integers byte j of a block holds those of j (low half)
and of j + block / 2 (high half), each plus 8, so that both halves unpack along the vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, DType, TensorType
from .movement import ints
from .registry import Op, Sample, register

DEQUANTIZE = "dequantize_blocks"
BLOCKS = (16, 32, 64, 128, 256)
_LARGEST = {4: 7, 8: 127}
_OFFSET = 8
_AT_ONCE = 1 << 17
"""Elements that are quantised together: temporaries stay in the second-level cache."""
_LOST = 2.0**-9
"""The most that a scale may lose, relatively, where scales are stored as 16-bit numbers."""


def packed_types(
    rows: int, columns: int, bits: int, block: int, scale: DType = DType.U16
) -> tuple[TensorType, TensorType]:
    """Types of the integers and of the scales of `rows` rows of `columns` numbers; `scale` is U16 or F32."""
    blocks = -(-columns // block)
    dtype = DType.U8 if bits == 4 else DType.I8
    return TensorType(dtype, (rows, blocks * block * bits // 8)), TensorType(scale, (rows, blocks))


def quantize(matrix: Array, bits: int, block: int) -> tuple[Array, Array]:
    """The packed integers and scales of a matrix [rows, columns], as `packed_types` says."""
    rows, columns = matrix.shape
    scales = np.empty((rows, -(-columns // block)), np.float32)
    for part in _parts(matrix):
        scales[part] = np.abs(_blocks(matrix[part], block)).max(axis=2, initial=0.0) / np.float32(_LARGEST[bits])
    scales = _narrowed(scales)
    types = packed_types(rows, columns, bits, block, DType.of(scales.dtype))
    packed, numbers = np.empty(types[0].shape, types[0].dtype.numpy), scale_numbers(scales)
    for part in _parts(matrix):
        packed[part] = _integers(_blocks(matrix[part], block), numbers[part], bits)
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
        return np.ascontiguousarray(rows, np.float32).reshape(count, blocks, block)
    padded = np.zeros((count, blocks * block), np.float32)
    padded[:, :columns] = rows
    return padded.reshape(count, blocks, block)


def _narrowed(scales: Array) -> Array:
    """The scales as the bits of f16 numbers where that loses little of each, else as they are."""
    with np.errstate(over="ignore"):
        narrow = scales.astype(np.float16)
    far = np.abs(narrow.astype(np.float32) - scales) > _LOST * scales
    return scales if far.any() else narrow.view(np.uint16)


def scale_numbers(scales: Array) -> Array:
    """The scales as floating-point numbers: f32, or wider if they are."""
    return scales.view(np.float16).astype(np.float32) if scales.dtype == np.uint16 else scales


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
    """The numbers of a tensor of this shape; its rows are those of `packed`, in the type of `scale_numbers`."""
    rows, blocks = scales.size // max(1, scales.shape[-1]), scales.shape[-1]
    integers, factors = packed.reshape(rows, blocks, -1), scale_numbers(scales)
    if bits == 4:
        halves = [integers & 15, integers >> 4]
        integers = np.concatenate(halves, axis=2).astype(np.int8) - np.int8(_OFFSET)
    numbers = integers.astype(factors.dtype) * factors.reshape(rows, blocks, 1)
    columns = math.prod(shape) // max(1, rows)
    return np.ascontiguousarray(numbers.reshape(rows, blocks * block)[:, :columns]).reshape(tuple(shape))


def relative_error(matrix: Array, packed: Array, scales: Array, bits: int, block: int) -> float:
    """Root mean square of the error over that of the numbers; 0 where all are zero."""
    lost = total = 0.0
    for part in _parts(matrix):
        exact = np.ascontiguousarray(matrix[part], np.float32)
        wrong = (dequantize(packed[part], scales[part], bits, block, exact.shape) - exact).reshape(-1)
        lost += float(np.dot(wrong, wrong))
        total += float(np.dot(exact.reshape(-1), exact.reshape(-1)))
    return math.sqrt(lost / total) if total > 0 else 0.0


def _type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    packed, scales = inputs
    shape, bits, block = ints(attrs, "shape"), int(attrs["bits"]), int(attrs["block"])
    rows = math.prod(scales.shape[:-1])
    columns = math.prod(shape) // max(1, rows)
    wanted = packed_types(rows, columns, bits, block, scales.dtype)
    flat = (packed.with_shape((rows, packed.shape[-1])), scales.with_shape((rows, scales.shape[-1])))
    known = scales.dtype in (DType.U16, DType.F32)
    if not known or block not in BLOCKS or flat != wanted or rows * columns != math.prod(shape):
        raise ModelError(f"{DEQUANTIZE} cannot make {list(shape)} of {packed} and {scales} in blocks of {block}")
    return (TensorType(DType.F32, shape),)


def _reference(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    packed, scales = inputs
    return [dequantize(packed, scales, int(attrs["bits"]), int(attrs["block"]), ints(attrs, "shape"))]


register(
    Op(
        DEQUANTIZE,
        "movement",
        _type,
        _reference,
        samples=(
            Sample(("u8[5,16]", "f32[5,1]"), {"bits": 4, "block": 32, "shape": (5, 32)}, ints=256),
            Sample(("u8[3,24]", "f32[3,3]"), {"bits": 4, "block": 16, "shape": (3, 5, 3, 3)}, ints=256),
            Sample(("i8[4,96]", "f32[4,3]"), {"bits": 8, "block": 32, "shape": (4, 70)}, ints=127),
            Sample(("u8[2,3,32]", "f32[2,3,2]"), {"bits": 4, "block": 32, "shape": (2, 3, 33)}, ints=256),
            Sample(("i8[70,64]", "f32[70,1]"), {"bits": 8, "block": 64, "shape": (70, 64)}, ints=127),
            Sample(("u8[4,48]", "u16[4,3]"), {"bits": 4, "block": 32, "shape": (4, 90)}, ints=256),
        ),
    )
)
