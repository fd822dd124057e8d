"""The model of f32: multiply-adds of vectors, with operands packed or read where they lie."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ....common.index_maps import Access, Axis, Contraction
from ..formats import CompressedOperand
from ..reading import L1_STEPS, contiguous, direct, far_apart, run_length, storage_order, turned
from ..schedule import Right, Schedule, Split, even
from .cost import (
    BARRIER_CYCLES,
    COPY_CYCLES,
    MAX_ROWS,
    MOVE_CYCLES,
    RUN_CYCLES,
    SCATTER_CYCLES,
    CostModel,
    Outline,
    gather_cycles,
    largest_share,
    result_cycles,
    splits_too_little,
)

TRANSPOSE_CYCLES = 0.5
LOAD_CYCLES = 0.1
"""What a load in the register tile's loop costs where arithmetic hides most of it."""
NEON_LANES = 4
TILE_CYCLES = 30
"""Cycles to begin and end a register tile of NEON's, whose steps are short."""
STREAM_DEPTH = 128
"""Depth of the blocks of k when both operands are read in place once, block after block."""
LINE_CYCLES = 6.0
"""What a line of A costs that the second-level cache must give for each step of k."""
CONFLICT_CYCLES = 12.0
"""More than that where such lines lie so far apart that they displace each other."""
L1_PANEL_BYTES = 40 << 10
"""The panel of B that stays in the first-level cache."""
PACKED_BYTES = 4 << 20
"""Packed panels of B beyond this go to memory and come back."""
LARGE = 8
"""Panels and tiles from which on A, read once for each panel, is worth copying block by block."""


@dataclass(frozen=True)
class F32Model(CostModel):
    """See the module."""

    def proposals(self, c: Contraction, choice: Outline, compressed: CompressedOperand | None) -> list[Schedule]:
        schedule = self._complete(c, choice, compressed is not None)
        if schedule is None:
            return []
        return [schedule, *([] if compressed is not None else self._streaming(c, schedule))]

    def varied(self, c: Contraction, base: Schedule, compressed: CompressedOperand | None) -> list[Schedule]:
        """Other blocks of k, rows of a block, packing."""
        _, m, n, k = c.sizes()
        rows = math.ceil(m / base.rows) * base.rows
        varied = [replace(base, depth=depth) for depth in (even(k, base.depth * 2), even(k, max(32, base.depth // 2)))]
        if base.right != Right.BLOCK:
            blocks = (min(rows, base.block * 2), max(1, base.block // base.rows // 2) * base.rows)
            varied += [replace(base, block=block) for block in blocks]
            rights = [Right.PRIVATE] + ([Right.SHARED] if base.split == Split.ROWS and self.threads > 1 else [])
            if direct(c.right, c.k, c.n) and c.right.linear(c.n) == 1 and n % base.lanes == 0:
                rights.append(Right.DIRECT)
            varied += [replace(base, right=right) for right in rights]
        if compressed is None and (not base.pack_left or direct(c.left, c.m, c.k)):
            varied.append(replace(base, pack_left=not base.pack_left))
        return varied

    def _complete(self, c: Contraction, choice: Outline, compressed: bool) -> Schedule | None:
        """The rest of the schedule once the outline is chosen; None when they do not fit."""
        target, (swap, vectors, split) = self.target, (choice.swap, choice.vectors, choice.split)
        lanes = target.vector_bytes // 4
        most = min(MAX_ROWS, (target.registers - 1 - vectors) // vectors)
        _, m, n, k = c.sizes()
        if most < 2 or (vectors > 1 and (vectors - 1) * lanes >= n):
            return None
        if splits_too_little(c, split, self.threads):
            return None
        rows = math.ceil(m / math.ceil(m / most))
        width = vectors * lanes
        panels, tiles = math.ceil(n / width), math.ceil(m / rows)
        large = min(tiles, panels) >= LARGE
        left = compressed or not direct(c.left, c.m, c.k) or (_conflicts(c) and panels >= 3) or large
        windows = compressed and c.right.windows  # all of an image's windows would be a large copy
        right = Right.BLOCK if windows else self._right(c, split, tiles, panels)
        if right == Right.DIRECT and split == Split.DEPTH:
            most_deep = max(64, min(STREAM_DEPTH, target.l2_bytes // 4 // 4 // (m + n)))
            depth = math.ceil(k / (math.ceil(k / most_deep / self.threads) * self.threads))
            return Schedule(swap, rows, vectors, lanes, depth, tiles * rows, split, left, right)
        if right == Right.BLOCK:
            columns = math.ceil(n / lanes) * lanes + (m if left or not contiguous(c.left, c.k) else 0)
            depth = max(64, min(512, target.l2_bytes // 2 // 4 // columns))
            return Schedule(swap, rows, vectors, lanes, even(k, depth), tiles * rows, split, left, right)
        if large:  # a tile's rows of A fill most of the first-level cache, A's block an eighth of the second
            depth = even(k, max(128, target.l1_bytes * 5 // 8 // 4 // rows))
            block = max(rows, target.l2_bytes // 8 // 4 // depth // rows * rows)
        else:
            depth = even(k, max(128, int(target.l2_bytes * 0.4) // 4 // width))
            block = max(rows, target.l2_bytes // 4 // 4 // depth // rows * rows)
        return Schedule(swap, rows, vectors, lanes, depth, min(block, tiles * rows), split, left, right)

    def _streaming(self, c: Contraction, base: Schedule) -> list[Schedule]:
        """A schedule's variants for an A that lies along its rows, as in weight gradients, where each step of k sweeps
        over it: few steps at a time, whose sums wait in the second-level cache."""
        _, m, n, k = c.sizes()
        if contiguous(c.left, c.k) or not contiguous(c.left, c.m) or k < L1_STEPS // 2:
            return []
        depth = even(k, min(L1_STEPS, self.target.l1_bytes * 2 // 3 // 4 // base.columns))
        rows = math.ceil(m / base.rows) * base.rows
        columns = math.ceil(n / base.lanes) * base.lanes
        block = max(1, self.target.l2_bytes // 2 // 4 // columns // base.rows) * base.rows
        block = rows if base.split == Split.DEPTH else min(block, rows)
        rights = [Right.BLOCK] + ([Right.SHARED] if base.split == Split.ROWS and self.threads > 1 else [])
        left = base.pack_left or far_apart(c)
        return [replace(base, depth=depth, block=block, right=right, pack_left=left) for right in rights]

    def _right(self, c: Contraction, split: Split, tiles: int, panels: int) -> Right:
        """How B is packed. Whole, unless that takes much memory and k is so long that the results can wait for the next
        block."""
        _, m, n, k = c.sizes()
        linear = direct(c.right, c.k, c.n) and c.right.linear(c.n) == 1
        whole, blocked = (_pack_cost(c.right, c.n, c.k, at_once) for at_once in (True, False))
        if split == Split.DEPTH and linear and n * 4 % self.target.vector_bytes == 0:
            return Right.DIRECT
        if split == Split.DEPTH or (
            k > 4 * m and 4 * k * n > 2 * self.target.l2_bytes and not linear and blocked <= whole < SCATTER_CYCLES
        ):
            return Right.BLOCK
        if linear and n * 4 % self.target.vector_bytes == 0 and (panels == 1 or tiles <= 2):
            return Right.DIRECT
        if split == Split.ROWS and self.threads > 1 and n * k * whole > 2 * BARRIER_CYCLES:
            return Right.SHARED
        return Right.PRIVATE

    def own_cycles(self, c: Contraction, s: Schedule, compressed: CompressedOperand | None) -> float:
        batch, m, n, k = c.sizes()
        alone = largest_share(s, batch, m, n, k, self.threads)
        rows, columns = (1.0 if s.split is axis else alone for axis in (Split.COLUMNS, Split.ROWS))  # that a task reads
        total = self._arithmetic(c, s) * alone
        total += MOVE_CYCLES * batch * k * (m * rows + n * columns)
        total += MOVE_CYCLES * batch * m * n * alone
        if s.right is not Right.DIRECT:
            common = s.split is Split.ROWS and s.right is Right.SHARED
            blocks = math.ceil(m * (alone if s.split is Split.ROWS else 1.0) / s.block)
            times = blocks if s.right is Right.BLOCK else 1
            packing = _pack_cost(c.right, c.n, c.k, s.right is not Right.BLOCK, s.columns)
            total += batch * k * n * packing * (1 / self.threads if common else columns) * times
            total += BARRIER_CYCLES * (2 * s.strips - 1) if s.right is Right.SHARED else 0
            if s.right is not Right.BLOCK and 4 * k * n > PACKED_BYTES:
                total += 2 * MOVE_CYCLES * batch * k * n * columns
        if s.pack_left:
            cost = TRANSPOSE_CYCLES if turned(c, s) else gather_cycles(c.left, c.k, c.m)
            total += s.strips * batch * k * m * cost * rows
        if s.split is Split.DEPTH:
            total += BARRIER_CYCLES + batch * m * n * self.threads * 0.25
        return total

    def _arithmetic(self, c: Contraction, s: Schedule) -> float:
        """Cycles of all tiles, and to finish their results."""
        batch, m, n, k = c.sizes()
        vectors = math.ceil(n / s.lanes)
        widths = {s.vectors: vectors // s.vectors, vectors % s.vectors: 1}
        heights = {s.rows: m // s.rows, m % s.rows: 1}
        steps = sum(
            _step_cycles(c, s, rows, vectors) * tiles * panels
            for rows, tiles in heights.items()
            for vectors, panels in widths.items()
            if rows and vectors
        )
        compute = batch * k * steps
        compute += batch * m * n * result_cycles(c, s)
        if s.lanes == NEON_LANES:
            compute += TILE_CYCLES * batch * math.ceil(m / s.rows) * math.ceil(n / s.columns)
        return compute


def _conflicts(c: Contraction) -> bool:
    """Rows of A that lie a multiple of 2 KiB apart compete for the same sets of the first-level cache."""
    stride = c.left.linear(c.m)
    return stride is not None and stride > 1 and stride * 4 % 2048 == 0


def _pack_cost(access: Access, across: Axis, k: Axis, whole: bool, width: int = 16) -> float:
    """Cycles per element to pack panels of `width` with `across` along the vector; `whole` when all of k is packed
    at once."""
    if contiguous(access, across):
        simple = access.linear(across) is not None and access.linear(k) is not None
        return COPY_CYCLES + (4.0 if simple else RUN_CYCLES) / min(width, run_length(access, across))
    if storage_order(access, across, k, whole) is not None:
        return TRANSPOSE_CYCLES
    return SCATTER_CYCLES


def tile_cycles(rows: int, vectors: int, lanes: int) -> float:
    """Cycles of one step of k of a register tile: arithmetic, latency of the chain, or loads. A multiply-add of NEON
    takes no operand from memory, so there the loads and the loop are instructions of their own: two for each
    multiply-add can be started."""
    if lanes == NEON_LANES:
        return max(rows * vectors, 8.0, (rows * vectors + rows + vectors + 4) / 2)
    return max(rows * vectors, 4.0, (rows + 2 * vectors) / 2) + LOAD_CYCLES * (rows + 2 * vectors)


def _step_cycles(c: Contraction, s: Schedule, rows: int, vectors: int) -> float:
    """Cycles of one step of k of a register tile, with what its operands cost where they lie."""
    cycles = tile_cycles(rows, vectors, s.lanes)
    if not contiguous(c.left, c.k) and contiguous(c.left, c.m) and not turned(c, s):
        cycles += 0.3 * rows
        if s.depth > L1_STEPS:
            cycles += LINE_CYCLES
        if not s.pack_left and far_apart(c):
            cycles += CONFLICT_CYCLES
    if 4 * s.depth * s.columns > L1_PANEL_BYTES:
        cycles += max(0.0, 4.0 * vectors - rows * vectors / 2)
    return cycles
