"""Tensors as bytes in memory: as numpy stores them, but masks of bits with eight elements in a byte; and how kernels
find a number of a weight in blocks that share a scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...ir import Array, DType, Node, TensorType
from ...ops.movement import ints
from ...ops.quantised import BlockFormat
from .c_dialect import c_type


def stored(type: TensorType, array: Array) -> bytes:
    """The bytes of a tensor in memory."""
    return np.packbits(array, bitorder="little").tobytes() if type.dtype is DType.BIT else array.tobytes()


def loaded(type: TensorType, raw: bytes) -> Array:
    """The tensor that these bytes in memory are."""
    if type.dtype is DType.BIT:
        bits = np.unpackbits(np.frombuffer(raw, np.uint8), count=type.size, bitorder="little")
        return bits.astype(np.bool_).reshape(type.shape)
    return np.frombuffer(raw, type.dtype.numpy).reshape(type.shape)


_SCALE_OF = """\
static inline float scale_of(uint16_t bits)
{
    union { uint32_t wide; float scale; } u = {(uint32_t)bits << 16};
    return u.scale;
}
"""
"""The number that the bits of a bf16 stand for."""

_E4M3_OF = """\
static inline float e4m3_of(uint8_t code)
{
    const int32_t magnitude = code & 127;
    union { int32_t bits; float number; } u = {(magnitude << 20) + 0x3C000000};
    const float number = magnitude < 8 ? (float)magnitude * 0.001953125f : u.number;
    return code & 128 ? -number : number;
}
"""
"""The number of a code of fp8: below 2^-6 a multiple of 2^-9, above by another bias of the exponent. No f32 on the way
is subnormal, which many GPUs take for zero."""


@dataclass(frozen=True)
class Blocks:
    """The layout of a weight, as ops/quantised.py has it: numbers of `format`, `columns` in a row, in blocks of
    `block`."""

    format: BlockFormat
    block: int
    columns: int

    @classmethod
    def of(cls, node: Node) -> Blocks:
        """That of a `dequantize_blocks` node."""
        scales = node.inputs[1].type
        rows = scales.size // scales.shape[-1]
        return cls(BlockFormat.of(node.attrs), int(node.attrs["block"]), math.prod(ints(node.attrs, "shape")) // rows)

    @property
    def blocks(self) -> int:
        """Of a row."""
        return -(-self.columns // self.block)

    @property
    def block_bytes(self) -> int:
        return self.block * self.format.bits // 8

    @property
    def row_bytes(self) -> int:
        return self.blocks * self.block_bytes

    @property
    def type(self) -> str:
        """C's type of what the numbers are packed in."""
        return c_type(self.format.dtype)

    @property
    def helpers(self) -> tuple[str, ...]:
        """C functions that its expressions call."""
        return (_SCALE_OF, _E4M3_OF) if self.format is BlockFormat.FP8 else (_SCALE_OF,)

    def number(self, code: str) -> str:
        """C expression of the number of a code, without its scale; where two lie in a byte, of its lower half."""
        match self.format:
            case BlockFormat.INT4:
                return f"(float)(({code} & 15) - 8)"
            case BlockFormat.INT8:
                return f"(float){code}"
            case BlockFormat.FP8:
                return f"e4m3_of({code})"

    def scale(self, scales: str, at: str) -> str:
        """C expression of one of the scales at a pointer."""
        return f"scale_of({scales}[{at}])"

    def element(self, packed: str, scales: str, row: str, column: str) -> str:
        """C expression of a number; `packed` and `scales` are pointers, `row` and `column` expressions."""
        row, column = f"({row})", f"({column})"
        scale = self.scale(scales, f"{row} * {self.blocks} + {column} / {self.block}")
        if self.format is not BlockFormat.INT4:
            return f"{self.number(f'{packed}[{row} * {self.row_bytes} + {column}]')} * {scale}"
        half = self.block // 2
        byte = f"{packed}[{row} * {self.row_bytes} + {column} / {self.block} * {half} + ({column} & {half - 1})]"
        return f"{self.number(f'({byte} >> (({column} & {half}) ? 4 : 0))')} * {scale}"
