"""Models of contractions that multiply 16-bit numbers.

They make the same decisions as f32.py, but for two things. Both operands are always packed, since packing converts.
Packing and results count for more, since the arithmetic is quick."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ....common.index_maps import Contraction
from ..formats import CompressedOperand, Format
from ..reading import contiguous
from ..schedule import Right, Schedule, Split, even
from .cost import (
    BARRIER_CYCLES,
    MAX_ROWS,
    CostModel,
    Outline,
    gather_cycles,
    largest_share,
    result_cycles,
    splits_too_little,
)

AMX_ROWS, AMX_VECTORS = 32, 2
"""Two by two tile registers: each that is loaded is used twice."""
AMX_CYCLES = 1 / 32
"""Cycles of one row's products with a vector: 16 for a tile register of 16 rows and 32 numbers of k."""
F32_UNITS = 3.0
"""What these cycles count in those of f32.py, whose multiply-adds start two at a time: 2.5 in the median of 32
shapes of MobileNetV2, ResNet-50 and DistilBERT, and a margin, since a wrong change of format costs more than none."""
CONVERT_CYCLES, TURN_CYCLES = 0.15, 0.45
"""Cycles to convert an element of A while it is packed, along memory or across it: for each of its parts."""
PANEL_CYCLES = 0.55
"""The same of B, whose panels are further away."""
RESULT_CYCLES, SUM_CYCLES = 0.6, 0.65
"""Cycles to finish a result and to write it, where neighbours of a tile are neighbours in memory, and to read and write
its sum between blocks of k."""
NEAR_BYTES = 8 << 20
NEAR_CYCLES, FAR_CYCLES = 0.15, 0.4
"""Cycles for a packed number of B that a block of A reads: of so many bytes, and of what is beyond, which goes to
memory and comes back. These and the ones above are a fit to the times of 32 products of MobileNetV2, ResNet-50,
DistilBERT and LLaMA in a dozen schedules each: the fastest is 5 % quicker than the one chosen, in parts and in bf16."""
LEFT_SHARE, PARTS_SHARE = 0.4, 0.6
"""Of the second-level cache for a block of A: where elements have parts, a longer one pays for reading B again."""


@dataclass(frozen=True)
class VectorModel(CostModel):
    """Instructions on vectors of 16-bit numbers."""

    unit = F32_UNITS

    def proposals(self, c: Contraction, choice: Outline, compressed: CompressedOperand | None) -> list[Schedule]:
        target, threads, format = self.target, self.threads, self.format
        (swap, vectors, split), left_parts = (choice.swap, choice.vectors, choice.split), format.left_parts(compressed)
        _, m, n, k = c.sizes()
        rows = self._rows(m, vectors)
        if rows < 2 or not self._fits(n, vectors):
            return []
        if splits_too_little(c, split, threads):
            return []
        tiles, width = math.ceil(m / rows), vectors * format.lanes
        right = Right.SHARED if split == Split.ROWS and threads > 1 else Right.PRIVATE
        if split == Split.DEPTH or (k > 4 * m and format.element_bytes * k * n > 2 * target.l2_bytes):
            columns = math.ceil(n / format.lanes) * format.lanes + m
            depth = _depth(k, max(64, target.l2_bytes // 2 // format.element_bytes // columns), format)
            return [
                Schedule(swap, rows, vectors, format.lanes, depth, tiles * rows, split, True, Right.BLOCK, format.name)
            ]
        depth = _depth(k, max(128, target.l2_bytes // 8 // format.element_bytes // width), format)
        share = LEFT_SHARE if format.parts == 1 else PARTS_SHARE
        block = max(rows, int(target.l2_bytes * share) // (format.nbytes * left_parts) // depth // rows * rows)
        block = even(math.ceil(tiles / threads if split == Split.ROWS else tiles), block // rows) * rows
        return [Schedule(swap, rows, vectors, format.lanes, depth, block, split, True, right, format.name)]

    def varied(self, c: Contraction, base: Schedule, compressed: CompressedOperand | None) -> list[Schedule]:
        """Other blocks of k and rows of a block."""
        _, m, _, k = c.sizes()
        rows = math.ceil(m / base.rows) * base.rows
        depths = (base.depth * 2, max(64, base.depth // 2))
        varied = [replace(base, depth=_depth(k, depth, self.format)) for depth in depths]
        if base.right != Right.BLOCK:
            blocks = (min(rows, base.block * 2), max(1, base.block // base.rows // 2) * base.rows)
            varied += [replace(base, block=block) for block in blocks]
        return varied

    def pace(self, compressed: CompressedOperand | None) -> float:
        return 1 / self.format.group

    def _fits(self, n: int, vectors: int) -> bool:
        """Whether a panel of so many vectors is no wider than the result."""
        return vectors == 1 or (vectors - 1) * self.format.lanes < n

    def _rows(self, m: int, vectors: int) -> int:
        """Rows of a register tile."""
        vectors *= 4 * self.format.lanes // self.target.vector_bytes  # registers
        most = min(MAX_ROWS, (self.target.registers - 1 - vectors) // vectors)
        return math.ceil(m / math.ceil(m / most)) if most > 1 else 0

    def _computed_rows(self, m: int) -> int:
        """Rows for which there is arithmetic."""
        return m

    def own_cycles(self, c: Contraction, s: Schedule, compressed: CompressedOperand | None) -> float:
        threads, format = self.threads, self.format
        left_parts = format.left_parts(compressed)
        batch, m, n, k = c.sizes()
        alone = largest_share(s, batch, m, n, k, threads)
        vectors, units = math.ceil(n / s.lanes), math.ceil(k / format.step) * format.step
        rows = self._computed_rows(m)
        total = batch * units * rows * vectors * self.pace(compressed) * alone
        finish = max(RESULT_CYCLES, result_cycles(c, s) / F32_UNITS)
        total += batch * m * n * (finish + SUM_CYCLES * (math.ceil(k / s.depth) - 1)) * alone
        left = left_parts * (CONVERT_CYCLES if contiguous(c.left, c.k) else TURN_CYCLES)
        left += gather_cycles(c.left, c.k, c.m) / F32_UNITS
        total += s.strips * batch * units * m * left * (1.0 if s.split == Split.COLUMNS else alone)
        right = format.parts * PANEL_CYCLES + gather_cycles(c.right, c.k, c.n) / F32_UNITS
        packs = batch * units * n * (1.0 if s.split == Split.ROWS and s.right != Right.SHARED else alone)
        total += packs * right + _reading(c, s, format, alone, packs)
        total += BARRIER_CYCLES * (2 * s.strips - 1) if s.right == Right.SHARED else 0
        if s.split == Split.DEPTH:
            total += BARRIER_CYCLES + batch * m * n * threads * 0.25
        return total


@dataclass(frozen=True)
class TileModel(VectorModel):
    """AMX: two by two tile registers."""

    panel_vectors = (AMX_VECTORS,)

    def pace(self, compressed: CompressedOperand | None) -> float:
        return AMX_CYCLES * len(self.format.products(self.format.left_parts(compressed)))

    def _fits(self, n: int, vectors: int) -> bool:
        return True

    def _rows(self, m: int, vectors: int) -> int:
        return AMX_ROWS if m > AMX_ROWS // 2 else AMX_ROWS // 2

    def _computed_rows(self, m: int) -> int:
        return math.ceil(m / 16) * 16


def _depth(k: int, most: int, format: Format) -> int:
    """Blocks of k of equal size, but that all except the last are whole steps."""
    return format.filled(even(k, most))


def _reading(c: Contraction, s: Schedule, format: Format, alone: float, packs: float) -> float:
    """Cycles for the panels of B that a task reads, once for each block of A, and for the `packs` elements that it
    writes, where they are too many to stay near."""
    if s.right == Right.BLOCK:
        return 0.0
    batch, m, n, k = c.sizes()
    blocks = math.ceil(m * (alone if s.split == Split.ROWS else 1.0) / s.block)
    reads = blocks * batch * k * n * (1.0 if s.split == Split.ROWS else alone)
    common = s.right == Right.SHARED
    size = format.element_bytes * k * n * (batch if common else 1)
    far = max(0.0, 1.0 - NEAR_BYTES / max(1, size))
    distant = 2 * packs + reads * (0.5 if common else 1.0)  # a line is fetched before it is written
    return format.parts * (far * distant * FAR_CYCLES + (1.0 - far) * reads * NEAR_CYCLES)
