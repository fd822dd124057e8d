"""Sums of a contraction that stay in the workspace until they are finished.

There are two reasons. Where threads share a long k, each has a sum of its own part, and a second kernel adds them up.
Where results lie in another order than they are computed in, whole rows are put in order before the epilogue."""

from __future__ import annotations

import math
from dataclasses import replace

from ....plan.program import Kernel
from ...common.mathlib import functions
from ...common.region import body_of
from ..emit.epilogue import Epilogue
from ..emit.source import SIGNATURE, Code, kernel
from .plan import ContractionPlan

ORDERED = 2304
"""Elements of a row that are put in order at a time: few enough to stay in the first-level cache."""


def title(plan: ContractionPlan) -> str:
    shapes = " , ".join(str(value.type) for value in plan.anchor.inputs)
    attrs = {key: value for key, value in plan.anchor.attrs.items() if key not in ("layout",)}
    return f"{plan.anchor.op}({shapes}) {attrs}: b, m, n, k = {plan.sizes}, {plan.layout.title}{plan.schedule}"


def workspace_index(plan: ContractionPlan) -> int:
    return len(plan.node.inputs) + len(plan.node.outputs)


def reduce_kernel(plan: ContractionPlan) -> Kernel:
    """Adds up the partial results of a contraction whose k was split, and finishes them."""
    code, s = Code(), plan.schedule
    batch, m, _, _ = plan.sizes
    needs = emit_epilogue(plan, code)
    tiles = -(-m // s.rows)
    with code.block(SIGNATURE):
        code.line(f"const char *const workspace = arg[{workspace_index(plan)}];")
        code.line("const ptrdiff_t parts = *(const int64_t *)(const void *)workspace;")
        code.line(f"const ptrdiff_t part = {plan.task_bytes // 4};")
        start = plan.shared_bytes + plan.task_bytes - plan.sums_bytes
        code.line(f"const float *const sums = (const float *)(const void *)(workspace + {start});")
        if not plan.reorders:
            code.line(f"float tile[{s.rows * s.columns}];")
        code.share(batch * tiles)
        with code.loop("unit", "last", "first"):
            code.line(f"const ptrdiff_t batch = unit / {tiles}, m = unit % {tiles} * {s.rows};")
            code.line(f"const ptrdiff_t rows = {m} - m < {s.rows} ? {m} - m : {s.rows};")
            code.line(f"const float *const from = sums + (batch * {s.block} + m) * {plan.sums_step};")
            if plan.reorders:
                code.line("finish_rows(arg, batch, from, parts, part, m, m + rows);")
            else:
                _emit_sums_of_tile(plan, code)
    return kernel("reduce", f"sum of the parts of {title(plan)}", code.text(), functions(needs))


def _emit_sums_of_tile(plan: ContractionPlan, code: Code) -> None:
    """Add up the parts of some rows, panel by panel."""
    s, n = plan.schedule, plan.sizes[2]
    with code.loop("panel", plan.panels):
        code.line(f"const ptrdiff_t n = panel * {s.columns}, left = {n} - n;")
        code.line(f"const ptrdiff_t cols = left < {s.columns} ? left : {s.columns};")
        with code.loop("i", "rows"):
            code.line(f"const float *const line = from + i * {plan.sums_step} + n;")
            with code.loop("j", "cols", vectorize=True):
                code.line(f"tile[i * {s.columns} + j] = line[j];")
            with code.loop("p", "parts", 1), code.loop("j", "cols", vectorize=True):
                code.line(f"tile[i * {s.columns} + j] += line[p * part + j];")
        code.line(f"finish(arg, batch, m, n, tile, {s.columns}, rows, cols);")


def emit_epilogue(plan: ContractionPlan, code: Code) -> set[str]:
    """Define `finish`, and `finish_rows` where whole rows are put in order; returns the math functions they need."""
    c = plan.contraction
    if not plan.reorders:
        columns = math.gcd(plan.schedule.columns, plan.sizes[2])
        return Epilogue(body_of(plan.node), plan.anchor, c, columns=columns).emit(code)
    needs = Epilogue(body_of(plan.node), plan.anchor, replace(c, n=c.stored)).emit(code)
    first, taps = c.n[-1].extent, math.prod(digit.extent for digit in c.n[:-1])
    chunk = min(first, max(1, ORDERED // taps))
    header = "static void\nfinish_rows(void *const *arg, ptrdiff_t batch, const float *sums, ptrdiff_t parts, "
    with code.block(f"{header}ptrdiff_t part,\n    ptrdiff_t m0, ptrdiff_t m1)"):
        code.line(f"float line[{chunk * taps}];")
        with (
            code.loop("m", "m1", "m0"),
            code.block(f"for (ptrdiff_t first = 0; first < {first}; first += {chunk})"),
        ):
            code.line(f"const ptrdiff_t count = {first} - first < {chunk} ? {first} - first : {chunk};")
            code.line(f"const float *const from = sums + (m - m0) * {plan.sums_step} + first;")
            with code.loop("i", "count"), code.loop("tap", taps):
                code.line(f"line[i * {taps} + tap] = from[tap * {first} + i];")
            with code.loop("p", "parts", 1), code.loop("i", "count"), code.loop("tap", taps):
                code.line(f"line[i * {taps} + tap] += from[p * part + tap * {first} + i];")
            code.line(f"finish(arg, batch, m, first * {taps}, line, 0, 1, count * {taps});")
    code.line()
    return needs
