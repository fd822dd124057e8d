"""Chooses how a contraction is computed on a target: orientation, register tile, blocking, packing, and how threads
share the work. An analytical model in cycles ranks the few candidates; nothing here affects results beyond rounding."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from ....targets import Target
from ...common.index_maps import Access, Axis, Contraction, Window
from ...common.indexing import collapse, row_major
from .formats import CompressedOperand

MOVE_CYCLES = 0.4
"""Cycles to bring an element from memory or to it."""
COPY_CYCLES = 0.2
"""Cycles to pack an element that is copied along the vector."""
RUN_CYCLES = 24.0
"""Cycles to find where the next run of contiguous elements starts."""
TRANSPOSE_CYCLES = 0.5
SCATTER_CYCLES = 1.5
BARRIER_CYCLES = 8000
"""What one more parallel call costs: waking and joining the threads."""
LOAD_CYCLES = 0.1
"""What a load in the register tile's loop costs where arithmetic hides most of it."""
NEON_LANES = 4
TILE_CYCLES = 30
"""Cycles to begin and end a register tile of NEON's, whose steps are short."""
STREAM_DEPTH = 128
"""Depth of the blocks of k when both operands are read in place once, block after block."""
MAX_ROWS = 24
LINE_CYCLES = 6.0
"""What a line of A costs that the second-level cache must give for each step of k."""
CONFLICT_CYCLES = 12.0
"""More than that where such lines lie so far apart that they displace each other."""
STRIDED_CYCLES, REORDER_CYCLES = 24.0, 2.0
"""An element of the result that is written on its own, and one that is first put in order within its row."""
L1_STEPS, L1_PANEL_BYTES = 256, 40 << 10
"""Steps of k whose lines of A, and the panel of B, that stay in the first-level cache."""
PACKED_BYTES = 4 << 20
"""Packed panels of B beyond this go to memory and come back."""
LARGE = 8
"""Panels and tiles from which on A, read once for each panel, is worth copying block by block."""
STRIPS = (1, 2, 3, 4, 6, 8)
"""Parts in which a shared B may be packed where memory is short."""
SPLIT_DEPTH, SPLIT_OUTPUTS = 512, 1 << 20
"""k is split only when it is at least this deep and the threads' partial results have at most this many elements."""


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
                for all tasks; "block": packed for each block of k; "packed": it lies in memory as panels
    format      the name of that in which operands are multiplied (see formats.py)
    strips      a shared B is packed and multiplied in so many parts, one after the other, in the same memory
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
    format: str = "f32"
    strips: int = 1

    @property
    def columns(self) -> int:
        """Columns of a full panel."""
        return self.vectors * self.lanes

    def describe(self) -> str:
        """One line for a person."""
        packed = {
            "direct": "B in place",
            "private": "B packed by each task",
            "shared": "B packed once",
            "block": "B packed",
        }
        swapped = ", operands exchanged" if self.swap else ""
        left = "A packed" if self.pack_left else "A in place"
        blocks = f"blocks {self.block} x {self.depth}"
        right = packed[self.right]
        return f"tile {self.rows} x {self.columns}, {blocks}, {left}, {right}, threads share {self.split}{swapped}"


@dataclass(frozen=True)
class Schedules:
    """The choice for a contraction region: a schedule for each of the products that share its result."""

    parts: tuple[Schedule, ...]

    @property
    def multiplies_in(self) -> str:
        return ", ".join(dict.fromkeys(schedule.format for schedule in self.parts))

    def to_plain(self) -> Any:
        return [asdict(schedule) for schedule in self.parts]

    def describe(self) -> str:
        return "; ".join(dict.fromkeys(schedule.describe() for schedule in self.parts))


def ranked(
    contraction: Contraction, target: Target, threads: int, compressed: CompressedOperand | None = None
) -> list[tuple[float, Schedule]]:
    """The candidates of the model with their cycles, the cheapest first. A `compressed` operand is that of the rows,
    which is packed a block at a time and so never unpacked whole."""
    candidates: list[tuple[float, int, Schedule]] = []
    for swap in (False, True):
        oriented = contraction.swapped() if swap else contraction
        if compressed is not None and compressed.index != oriented.left.operand:
            continue
        for vectors in (1, 2, 3, 4):
            for split in ("b", "m", "n", "k") if threads > 1 else ("m",):
                schedule = _complete(oriented, swap, vectors, split, target, threads, compressed is not None)
                if schedule is None:
                    continue
                streaming = [] if compressed is not None else _streaming(oriented, schedule, target, threads)
                for one in (schedule, *streaming):
                    candidates.append((_cycles(oriented, one, threads), len(candidates), one))
    return [(cycles, schedule) for cycles, _, schedule in sorted(candidates)]


def neighbours(
    contraction: Contraction, base: Schedule, threads: int, compressed: CompressedOperand | None = None
) -> list[tuple[float, Schedule]]:
    """Schedules that differ from `base` in one decision the model takes without weighing it (blocks of k, rows of a
    block, packing), with their cycles, in a fixed order."""
    c = contraction.swapped() if base.swap else contraction
    _, m, n, k = c.sizes()
    rows = math.ceil(m / base.rows) * base.rows
    changes: list[dict[str, int | str | bool]] = []
    changes += [{"depth": depth} for depth in (even(k, base.depth * 2), even(k, max(32, base.depth // 2)))]
    if base.right != "block":
        changes += [{"block": min(rows, base.block * 2)}, {"block": max(1, base.block // base.rows // 2) * base.rows}]
        rights = ["private"] + (["shared"] if base.split == "m" and threads > 1 else [])
        if direct(c.right, c.k, c.n) and c.right.linear(c.n) == 1 and n % base.lanes == 0:
            rights.append("direct")
        changes += [{"right": right} for right in rights]
    if compressed is None and (not base.pack_left or direct(c.left, c.m, c.k)):
        changes.append({"pack_left": not base.pack_left})
    varied = [replace(base, **change) for change in changes]  # type: ignore[arg-type]
    return [(_cycles(c, one, threads), one) for one in dict.fromkeys(varied) if one != base]


def in_strips(contraction: Contraction, base: Schedule, threads: int) -> list[tuple[float, Schedule]]:
    """`base`, and what computes the same bits with fewer panels of B in memory at a time; with their cycles."""
    c = contraction.swapped() if base.swap else contraction
    return [(_cycles(c, one, threads), one) for one in striped(c, base)]


def striped(oriented: Contraction, base: Schedule) -> list[Schedule]:
    """Every strip packs A again. Sums that wait to be put in order are those of all columns, so there are none then."""
    if base.right not in ("shared", "private") or base.split not in ("m", "n") or oriented.stored:
        return [base]
    panels = math.ceil(oriented.sizes()[2] / base.columns)
    shared = replace(base, split="m", right="shared")
    return [base, *(replace(shared, strips=strips) for strips in STRIPS if strips <= panels)]


def share_of_peak(contraction: Contraction, schedule: Schedule, threads: int) -> float:
    """The part of the threads' arithmetic peak that the model expects of a schedule."""
    c = contraction.swapped() if schedule.swap else contraction
    cycles = _cycles(c, schedule, threads)
    return math.prod(c.sizes()) / schedule.lanes / threads / cycles if cycles else 0.0


def contiguous(access: Access, axis: Axis) -> bool:
    """Whether neighbours along the axis's last digit are neighbours in memory."""
    if not axis:
        return False
    last = axis[-1]
    return access.strides.get(last.name, 0) == 1 and not access.touches((last,))


FEW_CHANNELS = 32
"""With fewer, the taps of a row of a window are copied in one run."""


def window_run(access: Access, axis: Axis) -> Window | None:
    """The window whose taps, the axis's last digit but one, are with their few channels one run of memory."""
    if len(axis) < 2 or not contiguous(access, axis) or axis[-1].extent >= FEW_CHANNELS:
        return None
    taps, channels = axis[-2:]
    found = [window for window in access.windows if (taps.name, 1) in window.terms]
    one_run = len(found) == 1 and found[0].stride == channels.extent and taps.name not in access.strides
    return found[0] if one_run else None


def run_length(access: Access, axis: Axis) -> int:
    """Elements of the axis that lie one behind the other."""
    taps = axis[-2].extent if window_run(access, axis) else 1
    return axis[-1].extent * taps


def direct(access: Access, first: Axis, second: Axis) -> bool:
    """Whether an operand can be read in place: it lies there, without windows, and each axis is one loop."""
    return (
        not access.computed
        and not access.windows
        and access.linear(first) is not None
        and access.linear(second) is not None
    )


def _complete(
    c: Contraction, swap: bool, vectors: int, split: str, target: Target, threads: int, compressed: bool
) -> Schedule | None:
    """The rest of the schedule once orientation, panel width and the shared axis are chosen; None when they do not
    fit."""
    lanes = target.vector_bytes // 4
    most = min(MAX_ROWS, (target.registers - 1 - vectors) // vectors)
    batch, m, n, k = c.sizes()
    if most < 2 or (vectors > 1 and (vectors - 1) * lanes >= n):
        return None
    if split == "k" and (k < SPLIT_DEPTH or batch * m * n * threads > SPLIT_OUTPUTS):
        return None
    rows = math.ceil(m / math.ceil(m / most))
    width = vectors * lanes
    panels, tiles = math.ceil(n / width), math.ceil(m / rows)
    large = min(tiles, panels) >= LARGE
    left = compressed or not direct(c.left, c.m, c.k) or (_conflicts(c) and panels >= 3) or large
    windows = compressed and c.right.windows  # all of an image's windows would be a large copy
    right = "block" if windows else _right(c, split, tiles, panels, target, threads)
    if right == "direct" and split == "k":
        most_deep = max(64, min(STREAM_DEPTH, target.l2_bytes // 4 // 4 // (m + n)))
        depth = math.ceil(k / (math.ceil(k / most_deep / threads) * threads))
        return Schedule(swap, rows, vectors, lanes, depth, tiles * rows, split, left, right)
    if right == "block":
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


def _streaming(c: Contraction, base: Schedule, target: Target, threads: int) -> list[Schedule]:
    """A schedule's variants for an A that lies along its rows, as in weight gradients, which one step of k after the
    other sweeps: few steps at a time, whose sums wait in the second-level cache."""
    _, m, n, k = c.sizes()
    if contiguous(c.left, c.k) or not contiguous(c.left, c.m) or k < L1_STEPS // 2:
        return []
    depth = even(k, min(L1_STEPS, target.l1_bytes * 2 // 3 // 4 // base.columns))
    rows = math.ceil(m / base.rows) * base.rows
    columns = math.ceil(n / base.lanes) * base.lanes
    block = max(1, target.l2_bytes // 2 // 4 // columns // base.rows) * base.rows
    block = rows if base.split == "k" else min(block, rows)
    rights = ["block"] + (["shared"] if base.split == "m" and threads > 1 else [])
    left = base.pack_left or _far_apart(c)
    return [replace(base, depth=depth, block=block, right=right, pack_left=left) for right in rights]


def _far_apart(c: Contraction) -> bool:
    """Whether neighbours of A along k lie a multiple of 2 KiB apart."""
    stride = c.left.linear(c.k)
    return stride is not None and stride * 4 % 2048 == 0


def turned(c: Contraction, s: Schedule) -> bool:
    """Whether packing a block of A transposes it: where A lies along its rows and the block has more steps of k than
    stay in the first-level cache as lines."""
    along_rows = contiguous(c.left, c.m) and not contiguous(c.left, c.k)
    return s.pack_left and s.depth > L1_STEPS and along_rows and storage_order(c.left, c.k, c.m, False) is not None


def even(total: int, most: int) -> int:
    """Blocks of equal size, none larger than `most`."""
    return max(1, math.ceil(total / math.ceil(total / most)) if total else 1)


def _conflicts(c: Contraction) -> bool:
    """Rows of A that lie a multiple of 2 KiB apart compete for the same sets of the first-level cache."""
    stride = c.left.linear(c.m)
    return stride is not None and stride > 1 and stride * 4 % 2048 == 0


def _right(c: Contraction, split: str, tiles: int, panels: int, target: Target, threads: int) -> str:
    """How B is packed. Whole, unless that takes much memory and k is so long that the results can wait for the next
    block."""
    _, m, n, k = c.sizes()
    linear = direct(c.right, c.k, c.n) and c.right.linear(c.n) == 1
    whole, blocked = (_pack_cost(c.right, c.n, c.k, at_once) for at_once in (True, False))
    if split == "k" and linear and n * 4 % target.vector_bytes == 0:
        return "direct"
    if split == "k" or (
        k > 4 * m and 4 * k * n > 2 * target.l2_bytes and not linear and blocked <= whole < SCATTER_CYCLES
    ):
        return "block"
    if linear and n * 4 % target.vector_bytes == 0 and (panels == 1 or tiles <= 2):
        return "direct"
    if split == "m" and threads > 1 and n * k * whole > 2 * BARRIER_CYCLES:
        return "shared"
    return "private"


def _pack_cost(access: Access, across: Axis, k: Axis, whole: bool, width: int = 16) -> float:
    """Cycles per element to pack panels of `width` with `across` along the vector; `whole` when all of k is packed
    at once."""
    if contiguous(access, across):
        simple = access.linear(across) is not None and access.linear(k) is not None
        return COPY_CYCLES + (4.0 if simple else RUN_CYCLES) / min(width, run_length(access, across))
    if storage_order(access, across, k, whole) is not None:
        return TRANSPOSE_CYCLES
    return SCATTER_CYCLES


def gather_cycles(access: Access, *axes: Axis) -> float:
    """Cycles per element to copy an operand in runs along the first of the axes that has neighbours in memory."""
    along = next((axis for axis in axes if contiguous(access, axis)), None)
    return COPY_CYCLES + RUN_CYCLES / run_length(access, along) if along else SCATTER_CYCLES


def storage_order(access: Access, across: Axis, k: Axis, whole: bool) -> Axis | None:
    """The digits of k from outermost to innermost in memory when, for each x, k is one contiguous run: then square
    blocks can be transposed in registers. An order that is not that of k itself needs all of k at once."""
    if access.windows or not k or any(digit.name not in access.strides for digit in k):
        return None
    order = tuple(sorted(k, key=lambda digit: -access.strides[digit.name]))
    if order != k and not whole:
        return None
    extents, (merged,) = collapse([digit.extent for digit in order], [access.along(order)])
    return order if len(extents) == 1 and merged == (1,) and access.linear(across) is not None else None


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
        if not s.pack_left and _far_apart(c):
            cycles += CONFLICT_CYCLES
    if 4 * s.depth * s.columns > L1_PANEL_BYTES:
        cycles += max(0.0, 4.0 * vectors - rows * vectors / 2)
    return cycles


def result_cycles(c: Contraction, s: Schedule) -> float:
    """Cycles per element of the result to finish and write it."""
    steps = c.steps(row_major(c.shape))
    if c.stored and s.split != "n":
        return REORDER_CYCLES
    along = [not axis or steps.get(axis[-1].name, 0) == 1 for axis in (c.n, c.m)]
    return 0.25 if along[0] else 1.0 if along[1] else STRIDED_CYCLES


def _cycles(c: Contraction, s: Schedule, threads: int) -> float:
    batch, m, n, k = c.sizes()
    vectors = math.ceil(n / s.lanes)
    widths = {s.vectors: vectors // s.vectors, vectors % s.vectors: 1}
    heights = {s.rows: m // s.rows, m % s.rows: 1}
    alone = largest_share(s, batch, m, n, k, threads)
    compute = (
        batch
        * k
        * sum(_step_cycles(c, s, r, v) * p * q for r, p in heights.items() for v, q in widths.items() if r and v)
    )
    compute += batch * m * n * result_cycles(c, s)
    if s.lanes == NEON_LANES:
        compute += TILE_CYCLES * batch * math.ceil(m / s.rows) * math.ceil(n / s.columns)
    total = compute * alone
    total += MOVE_CYCLES * batch * k * (m * (1.0 if s.split == "n" else alone) + n * (1.0 if s.split == "m" else alone))
    total += MOVE_CYCLES * batch * m * n * alone
    if s.right != "direct":
        share = alone if s.split in ("b", "n", "k") else 1 / threads if s.right == "shared" else 1.0
        times = math.ceil(m * (alone if s.split == "m" else 1.0) / s.block) if s.right == "block" else 1
        total += batch * k * n * _pack_cost(c.right, c.n, c.k, s.right != "block", s.columns) * share * times
        total += BARRIER_CYCLES * (2 * s.strips - 1) if s.right == "shared" else 0
        if s.right != "block" and 4 * k * n > PACKED_BYTES:
            total += 2 * MOVE_CYCLES * batch * k * n * (alone if s.split in ("b", "n", "k") else 1.0)
    if s.pack_left:
        cost = TRANSPOSE_CYCLES if turned(c, s) else gather_cycles(c.left, c.k, c.m)
        total += s.strips * batch * k * m * cost * (1.0 if s.split == "n" else alone)
    if s.split == "k":
        total += BARRIER_CYCLES + batch * m * n * threads * 0.25
    return total


def largest_share(s: Schedule, batch: int, m: int, n: int, k: int, threads: int) -> float:
    """The part of all arithmetic that the busiest thread does."""
    total, unit = {"b": (batch, 1), "m": (m, s.rows), "n": (n, s.columns), "k": (k, s.depth)}[s.split]
    units = max(1, math.ceil(total / unit))
    ends = [min(total, units * (task + 1) // threads * unit) for task in range(threads)]
    return max(end - start for start, end in zip([0, *ends], ends, strict=False)) / max(total, 1)
