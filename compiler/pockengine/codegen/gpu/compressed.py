"""Weights of 8 or 4 bits in blocks that share a scale, as ops/quantised.py lays them out: a number of one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir import Node
from ...ops.movement import ints
from ...ops.quantised import BlockFormat

SCALE_OF = """
static inline float scale_of(uint16_t bits)
{
    union { uint32_t wide; float scale; } u = {(uint32_t)bits << 16};
    return u.scale;
}
"""
"""The number that the bits of a bf16 stand for: a helper of kernels that have such weights."""


@dataclass(frozen=True)
class Compressed:
    """Numbers of `format`, `columns` in a row, in blocks of `block`."""

    format: BlockFormat
    block: int
    columns: int

    @classmethod
    def of(cls, node: Node) -> Compressed:
        """That of a `dequantize_blocks` node."""
        scales = node.inputs[1].type
        rows = scales.size // scales.shape[-1]
        columns = math.prod(ints(node.attrs, "shape")) // rows
        return cls(BlockFormat.of(node.attrs), int(node.attrs["block"]), columns)

    def element(self, packed: str, scales: str, row: str, column: str) -> str:
        """Expression of a number; `packed` and `scales` are pointers, `row` and `column` expressions."""
        blocks, row, column = -(-self.columns // self.block), f"({row})", f"({column})"
        scale = f"scale_of({scales}[{row} * {blocks} + {column} / {self.block}])"
        if self.format is BlockFormat.INT8:
            return f"(float){packed}[{row} * {blocks * self.block} + {column}] * {scale}"
        half = self.block // 2
        byte = f"{packed}[{row} * {blocks * half} + {column} / {self.block} * {half} + ({column} & {half - 1})]"
        return f"(float)((({byte} >> (({column} & {half}) ? 4 : 0)) & 15) - 8) * {scale}"
