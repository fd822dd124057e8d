"""Block-quantised numbers: small integers, and one scale for each block of a row.

Symmetric and linear: a block's scale is its largest magnitude over the largest integer (7 for 4 bits, 127 for 8), a
number is its integer times the scale. Rows are padded with zeros to whole blocks. Of 4-bit integers byte j of a block
holds those of j (low half) and of j + block / 2 (high half), each plus 8, so that both halves unpack along the vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, DType, TensorType
from .movement import ints
from .registry import Op, Sample, register

DEQUANTIZE = "dequantize_blocks"
BLOCKS = (16, 32, 64, 128, 256)
_LARGEST = {4: 7, 8: 127}
_OFFSET = 8
_AT_ONCE = 1 << 22
"""Elements that are quantised together: temporaries stay small beside the weight."""


def packed_types(rows: int, columns: int, bits: int, block: int) -> tuple[TensorType, TensorType]:
    """Types of the integers and of the scales of `rows` rows of `columns` numbers."""
    blocks = -(-columns // block)
    dtype = DType.U8 if bits == 4 else DType.I8
    return TensorType(dtype, (rows, blocks * block * bits // 8)), TensorType(DType.F32, (rows, blocks))


def quantize(matrix: Array, bits: int, block: int) -> tuple[Array, Array]:
    """The packed integers and scales of a matrix [rows, columns], as `packed_types` says."""
    rows, columns = matrix.shape
    types = packed_types(rows, columns, bits, block)
    packed, scales = (np.empty(t.shape, t.dtype.numpy) for t in types)
    step = max(1, _AT_ONCE // max(1, columns))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        packed[part], scales[part] = _quantize(np.asarray(matrix[part], np.float32), bits, block)
    return packed, scales


def _quantize(matrix: Array, bits: int, block: int) -> tuple[Array, Array]:
    rows, columns = matrix.shape
    blocks = -(-columns // block)
    padded = np.zeros((rows, blocks * block), np.float32)
    padded[:, :columns] = matrix
    padded = padded.reshape(rows, blocks, block)
    largest = _LARGEST[bits]
    scales = np.abs(padded).max(axis=2, initial=0.0) / np.float32(largest)
    divisor = np.where(scales > 0, scales, np.float32(1.0))[..., None]
    integers = np.clip(np.rint(padded / divisor), -largest, largest).astype(np.int8)
    if bits == 4:
        shifted = (integers + _OFFSET).astype(np.uint8)
        integers = shifted[..., : block // 2] | (shifted[..., block // 2 :] << 4)
    return integers.reshape(rows, -1), scales


def dequantize(packed: Array, scales: Array, bits: int, block: int, shape: Sequence[int]) -> Array:
    """The numbers of a tensor of this shape; its rows are those of `packed`, in the type of `scales`."""
    rows, blocks = scales.size // max(1, scales.shape[-1]), scales.shape[-1]
    integers = packed.reshape(rows, blocks, -1)
    if bits == 4:
        halves = [integers & 15, integers >> 4]
        integers = np.concatenate(halves, axis=2).astype(np.int8) - np.int8(_OFFSET)
    numbers = integers.astype(scales.dtype) * scales.reshape(rows, blocks, 1)
    columns = math.prod(shape) // max(1, rows)
    return np.ascontiguousarray(numbers.reshape(rows, blocks * block)[:, :columns]).reshape(tuple(shape))


def relative_error(matrix: Array, packed: Array, scales: Array, bits: int, block: int) -> float:
    """Root mean square of the error over that of the numbers; 0 where all are zero."""
    step = max(1, _AT_ONCE // max(1, matrix.shape[1]))
    lost = total = 0.0
    for start in range(0, matrix.shape[0], step):
        part = slice(start, start + step)
        exact = np.asarray(matrix[part], np.float64)
        lost += float(np.square(exact - dequantize(packed[part], scales[part], bits, block, exact.shape)).sum())
        total += float(np.square(exact).sum())
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
        ),
    )
)
