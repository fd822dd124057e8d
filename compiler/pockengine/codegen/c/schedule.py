"""Chooses how a contraction is computed on a target: orientation, register tile, blocking, packing, and how threads share
the work. An analytical model in cycles ranks the few candidates; nothing here affects results beyond rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...targets import Target
from .maps import Access, Axis, Contraction

COPY_CYCLES = 0.2
"""Cycles to pack an element that is copied along the vector."""
TRANSPOSE_CYCLES = 0.5
SCATTER_CYCLES = 1.5
BARRIER_CYCLES = 8000
"""What one more parallel call costs: waking and joining the threads."""
MAX_ROWS = 24


@dataclass(frozen=True)
class Schedule:
    """
    swap        rows and columns are exchanged
    rows, vectors   register tile: `rows` x `vectors * lanes`
    depth       k is cut in blocks of `depth`
    block       rows (a multiple of the tile's) that share one packed block of A
    split       the axis that threads share: "b", "m", "n" or "k"
    pack_left   copy A to a block, or read it where it is
    right       "direct": read B where it is; "private": each task packs what it needs; "shared": a first call packs B
                for all tasks; "block": packed for each block of k (one block of rows only)
    """

    swap: bool
    rows: int
    vectors: int
    lanes: int
    depth: int
    block: int
    split: str
    pack_left: bool
    right: str

    @property
    def columns(self) -> int:
        """Columns of a full panel."""
        return self.vectors * self.lanes


def choose(contraction: Contraction, target: Target, threads: int) -> Schedule:
    """The cheapest candidate by the model."""
    candidates = []
    for swap in (False, True):
        oriented = contraction.swapped() if swap else contraction
        for vectors in (1, 2, 3, 4):
            schedule = _complete(oriented, swap, vectors, target, threads)
            if schedule is not None:
                candidates.append((_cycles(oriented, schedule, threads), len(candidates), schedule))
    return min(candidates)[2]


def contiguous(access: Access, axis: Axis) -> bool:
    """Whether neighbours along the axis's last digit are neighbours in memory."""
    if not axis:
        return False
    last = axis[-1]
    return access.strides.get(last.name, 0) == 1 and not access.touches((last,))


def direct(access: Access, first: Axis, second: Axis) -> bool:
    """Whether an operand can be read in place: no windows, and each axis is one loop."""
    return not access.windows and access.linear(first) is not None and access.linear(second) is not None


def _complete(c: Contraction, swap: bool, vectors: int, target: Target, threads: int) -> Schedule | None:
    """The rest of the schedule once orientation and panel width are chosen; None when the tile does not fit."""
    lanes = target.vector_bytes // 4
    most = min(MAX_ROWS, (target.registers - 1 - vectors) // vectors)
    batch, m, n, k = c.sizes()
    if most < 2 or (vectors > 1 and (vectors - 1) * lanes >= n):
        return None
    rows = math.ceil(m / math.ceil(m / most))
    width = vectors * lanes
    panels, tiles = math.ceil(n / width), math.ceil(m / rows)
    split = _split(batch, tiles, panels, m * n, k, threads)
    left = not direct(c.left, c.m, c.k) or (_conflicts(c) and panels >= 3)
    if split == "k":
        columns = math.ceil(n / lanes) * lanes + (m if left or not contiguous(c.left, c.k) else 0)
        depth = max(64, min(512, target.l2_bytes // 2 // 4 // columns))
        return Schedule(swap, rows, vectors, lanes, _even(k, depth), tiles * rows, split, left, "block")
    depth = _even(k, max(128, int(target.l2_bytes * 0.4) // 4 // width))
    block = max(rows, target.l2_bytes // 4 // 4 // depth // rows * rows)
    right = _right(c, split, tiles, panels, lanes, threads)
    return Schedule(swap, rows, vectors, lanes, depth, min(block, tiles * rows), split, left, right)


def _even(total: int, most: int) -> int:
    """Blocks of equal size, none larger than `most`."""
    return max(1, math.ceil(total / math.ceil(total / most)) if total else 1)


def _conflicts(c: Contraction) -> bool:
    """Rows of A that lie a multiple of 2 KiB apart compete for the same sets of the first-level cache."""
    stride = c.left.linear(c.m)
    return stride is not None and stride > 1 and stride * 4 % 2048 == 0


def _split(batch: int, tiles: int, panels: int, outputs: int, k: int, threads: int) -> str:
    """The axis whose units divide most evenly among the threads; k where the result is small and k is long."""
    if threads == 1:
        return "m"
    if k >= 2048 and outputs * threads <= 1 << 20 and k * 64 >= outputs:
        return "k"
    units = {"b": batch, "m": tiles, "n": panels}
    loss = {axis: math.ceil(count / threads) * threads / max(count, 1) for axis, count in units.items()}
    return min(units, key=lambda axis: (round(loss[axis], 2), "bmn".index(axis)))


def _right(c: Contraction, split: str, tiles: int, panels: int, lanes: int, threads: int) -> str:
    _, _, n, k = c.sizes()
    if direct(c.right, c.k, c.n) and c.right.linear(c.n) == 1 and n % lanes == 0 and (panels == 1 or tiles <= 2):
        return "direct"
    if split == "m" and threads > 1 and n * k * _pack_cost(c.right, c.n, c.k) > 2 * BARRIER_CYCLES:
        return "shared"
    return "private"


def _pack_cost(access: Access, across: Axis, k: Axis) -> float:
    """Cycles per element to pack with `across` along the vector."""
    if contiguous(access, across):
        return COPY_CYCLES
    return TRANSPOSE_CYCLES if contiguous(access, k) else SCATTER_CYCLES


def _tile_cycles(rows: int, vectors: int) -> float:
    """Cycles of one step of k of a register tile: arithmetic, latency of the chain, or loads."""
    return max(rows * vectors, 4.0, (rows + 2 * vectors) / 2)


def _cycles(c: Contraction, s: Schedule, threads: int) -> float:
    batch, m, n, k = c.sizes()
    vectors = math.ceil(n / s.lanes)
    panels, tiles = math.ceil(vectors / s.vectors), math.ceil(m / s.rows)
    widths = [s.vectors] * (vectors // s.vectors) + ([vectors % s.vectors] if vectors % s.vectors else [])
    heights = [s.rows] * (m // s.rows) + ([m % s.rows] if m % s.rows else [])
    units = {"b": batch, "m": tiles, "n": panels, "k": math.ceil(k / s.depth)}[s.split]
    alone = math.ceil(units / threads) / max(units, 1)
    compute = batch * k * sum(_tile_cycles(r, v) * heights.count(r) * widths.count(v) for r in set(heights) for v in set(widths))
    compute += batch * m * n * (1.0 if s.swap else 0.25)
    total = compute * alone
    if s.right != "direct":
        share = alone if s.split in ("b", "n", "k") else 1 / threads if s.right == "shared" else 1.0
        total += batch * k * n * _pack_cost(c.right, c.n, c.k) * share
        total += BARRIER_CYCLES if s.right == "shared" else 0
    if s.pack_left:
        own = contiguous(c.left, c.k) or contiguous(c.left, c.m)
        total += batch * k * m * (COPY_CYCLES if own else SCATTER_CYCLES) * (1.0 if s.split == "n" else alone)
    if s.split == "k":
        total += BARRIER_CYCLES + m * n * threads * 0.25
    return total
