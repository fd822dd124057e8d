"""Chooses how a contraction of packed 16-bit numbers is computed: the same decisions as in f32 (see schedule.py), but
both operands are always packed, since packing converts, and arithmetic is so quick that packing and results count
more."""

from __future__ import annotations

import math
from dataclasses import replace

from ....targets import Target
from ...common.index_maps import Contraction
from .formats import CompressedOperand, Format
from .schedule import (
    BARRIER_CYCLES,
    MAX_ROWS,
    SPLIT_DEPTH,
    SPLIT_OUTPUTS,
    Schedule,
    contiguous,
    even,
    gather_cycles,
    largest_share,
    result_cycles,
    striped,
)

AMX_ROWS, AMX_VECTORS = 32, 2
"""Two by two tile registers: each that is loaded is used twice."""
AMX_CYCLES = 1 / 32
"""Cycles of one row's products with a vector: 16 for a tile register of 16 rows and 32 numbers of k."""
F32_UNITS = 3.0
"""What these cycles count in those of schedule.py, whose multiply-adds start two at a time: 2.5 in the median of 32
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


def ranked(
    contraction: Contraction, target: Target, threads: int, format: Format, compressed: CompressedOperand | None = None
) -> list[tuple[float, Schedule]]:
    """The candidates of the model with their cycles as schedule.py counts them, the cheapest first. A `compressed`
    operand is that of the rows."""
    candidates: list[tuple[float, int, Schedule]] = []
    parts = format.left_parts(compressed)
    for swap in (False, True):
        oriented = contraction.swapped() if swap else contraction
        if compressed is not None and compressed.index != oriented.left.operand:
            continue
        for vectors in (AMX_VECTORS,) if format.instruction == "amx" else (1, 2, 3, 4):
            for split in ("b", "m", "n", "k") if threads > 1 else ("m",):
                schedule = _complete(oriented, swap, vectors, split, target, threads, format, parts)
                if schedule is not None:
                    cycles = _cycles(oriented, schedule, threads, format, parts) * F32_UNITS
                    candidates.append((cycles, len(candidates), schedule))
    return [(cycles, schedule) for cycles, _, schedule in sorted(candidates)]


def neighbours(
    contraction: Contraction, base: Schedule, threads: int, format: Format, compressed: CompressedOperand | None
) -> list[tuple[float, Schedule]]:
    """Schedules that differ from `base` in blocks of k or in rows of a block, with such cycles, in a fixed order."""
    c = contraction.swapped() if base.swap else contraction
    _, m, _, k = c.sizes()
    rows = math.ceil(m / base.rows) * base.rows
    varied = [replace(base, depth=_depth(k, depth, format)) for depth in (base.depth * 2, max(64, base.depth // 2))]
    if base.right != "block":
        blocks = (min(rows, base.block * 2), max(1, base.block // base.rows // 2) * base.rows)
        varied += [replace(base, block=block) for block in blocks]
    parts = format.left_parts(compressed)
    return [(_cycles(c, one, threads, format, parts) * F32_UNITS, one) for one in dict.fromkeys(varied) if one != base]


def in_strips(
    contraction: Contraction, base: Schedule, threads: int, format: Format, compressed: CompressedOperand | None
) -> list[tuple[float, Schedule]]:
    """`base`, and what computes the same bits with fewer panels of B in memory at a time; with their cycles."""
    c, parts = contraction.swapped() if base.swap else contraction, format.left_parts(compressed)
    return [(_cycles(c, one, threads, format, parts) * F32_UNITS, one) for one in striped(c, base)]


def share_of_peak(
    contraction: Contraction, schedule: Schedule, threads: int, format: Format, compressed: CompressedOperand | None
) -> float:
    """The part of the threads' arithmetic peak in this format that the model expects of a schedule."""
    c = contraction.swapped() if schedule.swap else contraction
    parts = format.left_parts(compressed)
    cycles = _cycles(c, schedule, threads, format, parts)
    return math.prod(c.sizes()) / schedule.lanes * _pace(format, parts) / threads / cycles if cycles else 0.0


def _pace(format: Format, left_parts: int) -> float:
    """Cycles of one row's products with a vector, for one element of k."""
    if format.instruction == "amx":
        return AMX_CYCLES * len(format.products(left_parts))
    return 1 / format.group


def _complete(
    c: Contraction,
    swap: bool,
    vectors: int,
    split: str,
    target: Target,
    threads: int,
    format: Format,
    left_parts: int,
) -> Schedule | None:
    """The rest of the schedule; None when it does not fit."""
    batch, m, n, k = c.sizes()
    rows = _rows(m, vectors, target, format)
    if rows < 2 or (vectors > 1 and format.instruction != "amx" and (vectors - 1) * format.lanes >= n):
        return None
    if split == "k" and (k < SPLIT_DEPTH or batch * m * n * threads > SPLIT_OUTPUTS):
        return None
    tiles, width = math.ceil(m / rows), vectors * format.lanes
    right = "shared" if split == "m" and threads > 1 else "private"
    if split == "k" or (k > 4 * m and format.element_bytes * k * n > 2 * target.l2_bytes):
        columns = math.ceil(n / format.lanes) * format.lanes + m
        depth = _depth(k, max(64, target.l2_bytes // 2 // format.element_bytes // columns), format)
        return Schedule(swap, rows, vectors, format.lanes, depth, tiles * rows, split, True, "block", format.name)
    depth = _depth(k, max(128, target.l2_bytes // 8 // format.element_bytes // width), format)
    share = LEFT_SHARE if format.parts == 1 else PARTS_SHARE
    block = max(rows, int(target.l2_bytes * share) // (format.nbytes * left_parts) // depth // rows * rows)
    block = even(math.ceil(tiles / threads if split == "m" else tiles), block // rows) * rows
    return Schedule(swap, rows, vectors, format.lanes, depth, block, split, True, right, format.name)


def _rows(m: int, vectors: int, target: Target, format: Format) -> int:
    if format.instruction == "amx":
        return AMX_ROWS if m > AMX_ROWS // 2 else AMX_ROWS // 2
    vectors *= 4 * format.lanes // target.vector_bytes  # registers
    most = min(MAX_ROWS, (target.registers - 1 - vectors) // vectors)
    return math.ceil(m / math.ceil(m / most)) if most > 1 else 0


def _depth(k: int, most: int, format: Format) -> int:
    """Blocks of k of equal size, but that all except the last are whole steps."""
    return format.filled(even(k, most))


def _cycles(c: Contraction, s: Schedule, threads: int, format: Format, left_parts: int) -> float:
    batch, m, n, k = c.sizes()
    alone = largest_share(s, batch, m, n, k, threads)
    vectors, units = math.ceil(n / s.lanes), math.ceil(k / format.step) * format.step
    rows = math.ceil(m / 16) * 16 if format.instruction == "amx" else m
    total = batch * units * rows * vectors * _pace(format, left_parts) * alone
    finish = max(RESULT_CYCLES, result_cycles(c, s) / F32_UNITS)
    total += batch * m * n * (finish + SUM_CYCLES * (math.ceil(k / s.depth) - 1)) * alone
    left = left_parts * (CONVERT_CYCLES if contiguous(c.left, c.k) else TURN_CYCLES)
    left += gather_cycles(c.left, c.k, c.m) / F32_UNITS
    total += s.strips * batch * units * m * left * (1.0 if s.split == "n" else alone)
    right = format.parts * PANEL_CYCLES + gather_cycles(c.right, c.k, c.n) / F32_UNITS
    packs = batch * units * n * (1.0 if s.split == "m" and s.right != "shared" else alone)
    total += packs * right + _reading(c, s, format, alone, packs)
    total += BARRIER_CYCLES * (2 * s.strips - 1) if s.right == "shared" else 0
    if s.split == "k":
        total += BARRIER_CYCLES + batch * m * n * threads * 0.25
    return total


def _reading(c: Contraction, s: Schedule, format: Format, alone: float, packs: float) -> float:
    """Cycles for the panels of B that a task reads, once for each block of A, and for the `packs` elements that it
    writes, where they are too many to stay near."""
    if s.right == "block":
        return 0.0
    batch, m, n, k = c.sizes()
    blocks = math.ceil(m * (alone if s.split == "m" else 1.0) / s.block)
    reads = blocks * batch * k * n * (1.0 if s.split == "m" else alone)
    common = s.right == "shared"
    size = format.element_bytes * k * n * (batch if common else 1)
    far = max(0.0, 1.0 - NEAR_BYTES / max(1, size))
    distant = 2 * packs + reads * (0.5 if common else 1.0)  # a line is fetched before it is written
    return format.parts * (far * distant * FAR_CYCLES + (1.0 - far) * reads * NEAR_CYCLES)
