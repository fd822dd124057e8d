"""Kernels of `contraction` regions: packers, micro-kernel and epilogue put together as a schedule says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ....ir import Node
from ....plan.program import Call, Kernel, Lowered
from ....targets import Target
from ...common.mathlib import functions
from ...common.memo import Memo
from ...common.region import body_of, elementwise_pairs
from ..emit.calls import call
from ..emit.epilogue import Epilogue
from ..emit.source import SIGNATURE, Code, kernel
from . import microkernel, narrow
from .compressed import dequantization
from .packers import transposition
from .partial_sums import emit_epilogue, reduce_kernel, title, workspace_index
from .plan import ContractionPlan
from .schedule import Right, Schedule, Split


def lower(
    node: Node, target: Target, threads: int, schedules: Sequence[Schedule] | None = None, memo: Memo | None = None
) -> Lowered:
    """Kernels of a contraction region, as the model schedules it, which `memo` may know, or as `schedules` say."""
    if node.outputs[0].type.size == 0:
        return Lowered(())
    plans = ContractionPlan.all(node, target, threads, schedules, memo)
    unpacking = dequantization(node)
    operands = {*plans[0].anchor.inputs, *(unpacking.inputs if unpacking else ())}
    operands |= {value for side in (plans[0].left, plans[0].right) for value in side.values}
    work = max(1, sum(math.prod(plan.sizes) for plan in plans))
    calls = [made for plan in plans for made in _calls(plan, math.prod(plan.sizes) / work)]
    return Lowered(tuple(calls), max(plan.workspace_bytes() for plan in plans), elementwise_pairs(node, operands))


def _calls(plan: ContractionPlan, part: float) -> tuple[Call, ...]:
    """Packing of B when it is shared, the contraction, for each strip of B; the sum of partial results when k is split.
    `part` is their share of the node's work."""
    workspace = plan.workspace_bytes() > 0
    if plan.schedule.right == Right.SHARED:
        made: list[Call] = []
        for strip in plan.by_strip():
            first, stop = strip.strip_range
            made.append(call(plan.node, pack_kernel(strip), True, True, share=0.0))
            made.append(call(plan.node, product_kernel(strip), True, share=part * (stop - first) / plan.panels))
        return tuple(made)
    product = product_kernel(plan)
    if plan.schedule.split == Split.DEPTH:
        adding = call(plan.node, reduce_kernel(plan), True, share=0.05 * part)
        return (call(plan.node, product, True, share=0.95 * part), adding)
    return (call(plan.node, product, workspace, share=part),)


def pack_kernel(plan: ContractionPlan) -> Kernel:
    """Packs all of B, or a strip of it, for every task."""
    code, (begin, end) = Code(), plan.strip_range
    _emit_types(plan, code, plan.layout.right_turns(_panel_widths(plan)))
    _emit_right_packers(plan, code)
    with code.block(SIGNATURE):
        plan.right.declare(code, "right")
        code.line(f"{plan.format.type} *packed = arg[{workspace_index(plan)}];")
        code.share(plan.sizes[0] * (end - begin))
        with _chunks_of_k(plan, code, "0", str(plan.sizes[3])) as (start, stop), code.loop("unit", "last", "first"):
            panel = f"{f'{begin} + ' if begin else ''}unit % {end - begin}"
            code.line(f"const ptrdiff_t batch = unit / {end - begin}, panel = {panel};")
            source = plan.right.at_batch("right", plan.contraction.b)
            place = f"packed + batch * {plan.right_elements}"
            code.line(_packing(plan, source, place, start, stop, "0"))
    return kernel("pack", f"panels of {title(plan)}", code.text(), functions(plan.right.functions()))


@contextmanager
def _chunks_of_k(plan: ContractionPlan, code: Code, start: str, stop: str) -> Iterator[tuple[str, str]]:
    """The steps of k that are packed before the next panel's turn: so few that memory's rows are read to their ends
    where they run across the panels, else all of them."""
    if not plan.layout.chunks(_panel_widths(plan)) or plan.right_depth <= narrow.CHUNK:
        yield start, stop
        return
    with code.block(f"for (ptrdiff_t from = {start}; from < {stop}; from += {narrow.CHUNK})"):
        code.line(f"const ptrdiff_t to = {stop} - from < {narrow.CHUNK} ? {stop} : from + {narrow.CHUNK};")
        yield "from", "to"


def _packing(plan: ContractionPlan, source: str, place: str, start: str, stop: str, first: str) -> str:
    """The call that packs steps of k of a `panel`; its panel, which begins with the step `first`, is at `place`."""
    place += f" + {plan.place_of_panel}"
    if start != first:
        width, last = plan.schedule.columns, _panel_widths(plan)[-1][0] * plan.schedule.lanes
        columns = width if last == width else f"(panel < {plan.sizes[2] // width} ? {width} : {last})"
        place += f" + ({start} - {first}) * {columns}"
    return f"pack_panel({source}, {place}, panel, {start}, {stop});"


def product_kernel(plan: ContractionPlan) -> Kernel:
    """The contraction itself."""
    code, s = Code(), plan.schedule
    packs_right = s.right in (Right.PRIVATE, Right.BLOCK)
    _emit_types(plan, code, plan.layout.left_turns or (packs_right and plan.layout.right_turns(_panel_widths(plan))))
    needs = plan.left.functions() | plan.right.functions()
    if s.split != Split.DEPTH:
        needs |= emit_epilogue(plan, code)
    if _fetches(plan):
        _epilogue(plan).emit_fetch(code)
    if s.pack_left:
        plan.layout.emit_left(code)
    if packs_right:
        _emit_right_packers(plan, code)
    if shape := microkernel.unit_of(plan.format).shape:
        code.line(shape)
    for tile in dict.fromkeys(tile for vectors, _ in _panel_widths(plan) for tile in _tiles(plan, vectors)):
        code.line(microkernel.define(tile, plan.format))
        code.line()
    for width, cols in _panel_widths(plan):
        _emit_panel(plan, code, width, cols)
    with code.block(SIGNATURE):
        _emit_main(plan, code)
    return kernel(plan.anchor.op, title(plan), code.text(), functions(needs))


def _emit_types(plan: ContractionPlan, code: Code, turns: bool) -> None:
    """Types, and what transposes where some packer does."""
    code.line(microkernel.vector_type(plan.schedule.lanes))
    if turns:
        code.line()
        code.line(transposition(plan.schedule.lanes))
    if declared := plan.layout.declarations():
        code.line(declared)
    code.line()


def _panel_widths(plan: ContractionPlan) -> list[tuple[int, int]]:
    """(vectors, columns) of the full panels, if any, and of the last one, if it is narrower."""
    s, n = plan.schedule, plan.sizes[2]
    full, rest = divmod(n, s.columns)
    return ([(s.vectors, s.columns)] if full else []) + ([(-(-rest // s.lanes), rest)] if rest else [])


def _emit_right_packers(plan: ContractionPlan, code: Code) -> None:
    """Define `pack_panel`, which packs one panel of B as [k][column] and fills missing columns with zeros."""
    s = plan.schedule
    widths = _panel_widths(plan)
    plan.layout.emit_right(code, widths, [plan.right_part(vectors) for vectors, _ in widths])
    full = plan.sizes[2] // s.columns
    header = f"static void\npack_panel({plan.right.parameters}, {plan.format.type} *dst, "
    with code.block(f"{header}ptrdiff_t panel, ptrdiff_t k0, ptrdiff_t k1)"):
        code.line(f"const ptrdiff_t n0 = panel * {s.columns};")
        for index, (vectors, cols) in enumerate(widths):
            width = vectors * s.lanes
            with code.block(f"if (panel {'<' if cols == s.columns else '>='} {full})"):
                if cols < width and plan.format.group == 1:
                    with code.loop("k", "k1 - k0"), code.loop("n", width, cols):
                        code.line(f"dst[k * {width} + n] = 0.0f;")
                code.line(f"pack_columns{index}({plan.right.pointers('src')}, dst, n0, n0 + {cols}, k0, k1);")
    code.line()


def _epilogue(plan: ContractionPlan) -> Epilogue:
    return Epilogue(body_of(plan.node), plan.anchor, plan.contraction)


def _fetches(plan: ContractionPlan) -> bool:
    """Whether a tile asks for what its epilogue reads before it multiplies."""
    waits = plan.schedule.split == Split.DEPTH or plan.reorders
    return not waits and microkernel.asks_ahead(plan.schedule.lanes) and bool(_epilogue(plan).fetched())


def _strides_of_left(plan: ContractionPlan) -> tuple[int, int]:
    """(row, k) strides with which the micro-kernel reads A."""
    if plan.schedule.pack_left:
        return (1, plan.layout.row_step) if plan.layout.rows_inner else (plan.layout.row_step, 1)
    row, k = plan.contraction.left.linear(plan.contraction.m), plan.contraction.left.linear(plan.contraction.k)
    assert row is not None and k is not None
    return row, k


def _stride_of_sums(plan: ContractionPlan, vectors: int) -> int:
    """Elements between rows of the tile the micro-kernel writes: a local one, or the workspace's."""
    return plan.sums_step if plan.accumulates else vectors * plan.schedule.lanes


def _tiles(plan: ContractionPlan, vectors: int) -> list[microkernel.Tile]:
    """The variants of the micro-kernel for one panel width: full height, and the height of the last rows."""
    s = plan.schedule
    a_row, a_k = _strides_of_left(plan)
    b_k = plan.contraction.right.linear(plan.contraction.k) if s.right == Right.DIRECT else vectors * s.lanes
    full, rest = divmod(plan.sizes[1], s.rows)
    heights = ([s.rows] if full else []) + ([rest] if rest else [])
    parts = (plan.operands.left_parts, plan.operands.left_part, plan.right_part(vectors))
    return [
        microkernel.Tile(rows, vectors, s.lanes, a_row, a_k, b_k or 0, _stride_of_sums(plan, vectors), *parts)
        for rows in heights
    ]


def _emit_panel(plan: ContractionPlan, code: Code, vectors: int, cols: int) -> None:
    """One panel of B against the rows m0 .. m1 of a block of A."""
    s = plan.schedule
    a_row, c_row = _strides_of_left(plan)[0], _stride_of_sums(plan, vectors)
    tiles = _tiles(plan, vectors)
    header = f"static void\npanel_{vectors}_{cols}(void *const *arg, ptrdiff_t batch, const {plan.format.type} *a, "
    header += f"const {plan.format.type} *b, float *sums,\n"
    header += "    ptrdiff_t m0, ptrdiff_t m1, ptrdiff_t n0, ptrdiff_t depth, int more, int finished)"
    most = microkernel.unit_of(plan.format).slice
    sliced = most > 0 and plan.format.parts == 1 and s.depth > most
    with code.block(header), ExitStack() as nest:
        if not plan.accumulates:
            kept = s.block if sliced else s.rows
            code.line(f"float tile[{kept * c_row}] __attribute__((aligned(64)));")
        depth = "depth"
        if sliced:  # so much of the panel stays in the first-level cache while the block of A passes
            nest.enter_context(code.block(f"for (ptrdiff_t k = 0; k < depth; k += {most})"))
            code.line(f"const ptrdiff_t slice = depth - k < {most} ? depth - k : {most};")
            depth = "slice"
        nest.enter_context(code.block(f"for (ptrdiff_t m = m0; m < m1; m += {s.rows})"))
        code.line(f"const ptrdiff_t rows = m1 - m < {s.rows} ? m1 - m : {s.rows};")
        along = " + k" if sliced else ""
        code.line(f"const {plan.format.type} *const a_rows = a + (m - m0) * {a_row}{along};")
        place = f"sums + (m - m0) * {c_row} + n0" if plan.accumulates else f"tile + (m - m0) * {c_row}"
        code.line(f"float *const c = {place if plan.accumulates or sliced else 'tile'};")
        panel = f"b + k * {vectors * s.lanes}" if sliced else "b"
        if _fetches(plan):
            code.line(f"if (finished{' && k == 0' if sliced else ''})")
            code.line(f"    fetch(arg, batch, m, n0, rows, {cols});")
        for tile in tiles:
            code.line(f"if (rows == {tile.rows})")
            code.line(f"    {tile.name}({depth}, a_rows, {panel}, c, {'more || k > 0' if sliced else 'more'});")
        if s.split != Split.DEPTH and not plan.reorders:
            code.line(f"if (finished{' && k + slice == depth' if sliced else ''})")
            code.line(f"    finish(arg, batch, m, n0, c, {c_row}, rows, {cols});")
    code.line()


def _emit_main(plan: ContractionPlan, code: Code) -> None:
    s, c = plan.schedule, plan.contraction
    batches, m, _, k = plan.sizes
    tiles = -(-m // s.rows)
    weight = plan.compressed
    if not weight:
        plan.left.declare(code, "left")
    else:
        code.line(f"const {weight.layout.type} *const left = arg[{plan.left.sources[0].argument}];")
        code.line(f"const uint16_t *const scales = arg[{weight.scales}];")
    if s.right == Right.PACKED:
        code.line(f"const float *const panels = arg[{plan.right.sources[0].argument}];")
    elif s.right != Right.SHARED:
        plan.right.declare(code, "right")
    if plan.workspace_bytes():
        _emit_workspace(plan, code)
    units = {Split.BATCH: batches, Split.ROWS: tiles, Split.COLUMNS: plan.panels, Split.DEPTH: plan.blocks_of_k}[
        s.split
    ]
    code.share(units)
    unit = microkernel.unit_of(plan.format)
    if unit.begin:
        code.line(unit.begin)
    ranges = {
        Split.BATCH: (0, batches),
        Split.ROWS: (0, m),
        Split.COLUMNS: plan.strip_range,
        Split.DEPTH: (0, plan.blocks_of_k),
    }
    for axis, (low, high) in ranges.items():
        if axis != s.split:
            code.line(f"const ptrdiff_t {axis}_first = {low}, {axis}_last = {high};")
        elif axis == Split.ROWS:
            code.line(
                f"const ptrdiff_t m_first = first * {s.rows}, m_last = last * {s.rows} < {m} ? last * {s.rows} : {m};"
            )
        else:
            code.line(f"const ptrdiff_t {axis}_first = first, {axis}_last = last;")
    with code.loop("batch", "b_last", "b_first"):
        if not weight:
            plan.left.start_batch(code, "a", "left", c.b)
        if s.right not in (Right.SHARED, Right.PACKED):
            plan.right.start_batch(code, "b", "right", c.b)
        if s.right == Right.PRIVATE:
            with _chunks_of_k(plan, code, "0", str(k)) as (start, stop), code.loop("panel", "n_last", "n_first"):
                code.line(_packing(plan, plan.right.pointers("b"), "panels", start, stop, "0"))
        with code.block(f"for (ptrdiff_t m0 = m_first; m0 < m_last; m0 += {s.block})"):
            code.line(f"const ptrdiff_t m1 = m_last - m0 < {s.block} ? m_last : m0 + {s.block};")
            with code.loop("part", "k_last", "k_first"):
                _emit_block(plan, code)
            if s.split != Split.DEPTH and plan.reorders:
                code.line("finish_rows(arg, batch, sums, 1, 0, m0, m1);")
    if s.split == Split.DEPTH:
        with code.block("if (first == last)"), code.loop("i", plan.sums_bytes // 4):
            code.line("sums[i] = 0.0f;")
    if unit.end:
        code.line(unit.end)


def _emit_workspace(plan: ContractionPlan, code: Code) -> None:
    s, type = plan.schedule, plan.format.type
    code.line(f"char *const workspace = arg[{workspace_index(plan)}];")
    if plan.task_bytes:
        code.line(f"char *const own = workspace + {plan.shared_bytes} + task * (ptrdiff_t){plan.task_bytes};")
    offset = 0
    if s.pack_left:
        code.line(f"{type} *const rows = ({type} *)(void *)own;")
        offset += plan.left_bytes
    if plan.right_is_common:
        code.line(f"{type} *const panels = ({type} *)(void *)workspace;")
    elif s.right not in (Right.DIRECT, Right.PACKED):
        code.line(f"{type} *const panels = ({type} *)(void *)(own + {offset});")
        offset += plan.right_bytes
    if plan.accumulates:
        code.line(f"float *const sums = (float *)(void *)(own + {offset});")
    if s.split == Split.DEPTH:
        code.line("if (task == 0)")
        code.line("    *(int64_t *)(void *)workspace = tasks;")


def _emit_block(plan: ContractionPlan, code: Code) -> None:
    """One block of rows and of k: pack, then every panel."""
    s, c = plan.schedule, plan.contraction
    k = plan.sizes[3]
    a_row, a_k = _strides_of_left(plan)
    code.line(f"const ptrdiff_t k0 = part * {s.depth}, depth = {k} - k0 < {s.depth} ? {k} - k0 : {s.depth};")
    if s.pack_left:
        source = "left, scales" if plan.compressed else plan.left.pointers("a")
        block = "k0, k0 + depth, m0, m1" if plan.layout.left_turns else "m0, m1, k0, k0 + depth"
        code.line(f"pack_rows({source}, rows, {block});")
        code.line(f"const {plan.format.type} *const a_block = rows;")
    else:
        code.line(f"const float *const a_block = a + m0 * {a_row} + k0 * {a_k};")
    if s.right == Right.BLOCK:
        with _chunks_of_k(plan, code, "k0", "k0 + depth") as (start, stop), code.loop("panel", "n_last", "n_first"):
            code.line(_packing(plan, plan.right.pointers("b"), "panels", start, stop, "k0"))
    full = plan.sizes[2] // s.columns
    sums = "0"
    if plan.accumulates:
        batch_step = s.block * plan.sums_step
        sums = f"sums + batch * {batch_step}" if s.split == Split.DEPTH else "sums"
    with code.loop("panel", "n_last", "n_first"):
        code.line(f"const ptrdiff_t n0 = panel * {s.columns};")
        for vectors, cols in _panel_widths(plan):
            width = vectors * s.lanes
            if s.right == Right.DIRECT:
                source = f"b + k0 * {c.right.linear(c.k)} + n0"
            elif s.right == Right.BLOCK:
                source = f"panels + panel * {plan.panel_elements}"
            else:
                batch = f"batch * {plan.right_elements} + " if s.right in (Right.SHARED, Right.PACKED) else ""
                source = f"panels + {batch}{plan.place_of_panel} + k0 * {width}"
            code.line(f"if (panel {'<' if cols == s.columns else '>='} {full})")
            code.line(
                f"    panel_{vectors}_{cols}(arg, batch, a_block, {source}, {sums}, m0, m1, n0, depth, "
                f"part > k_first, part == {plan.blocks_of_k - 1});"
            )
