"""The kernels of attention's gradient on matrix units: T. Dao, "FlashAttention-2" (2023), algorithm 2, as one kernel
for queries and one for keys and values, so that sums have an order.

Inputs are q, k, v, the result, its levels, the result's gradient, and masks. What the result and its gradient give
together, of each query, is made first, and lies in scratch memory."""

from __future__ import annotations

from .....ir import DType
from .....plan.program import Kernel
from ....common.c_dialect import literal
from ...source import THREADS, kernel_body
from ..registers import LOG2_E
from .writer import UnitsWriter

QUAD = 4
ROWS = THREADS // QUAD
"""Queries of a block of the first kernel: four neighbours have one."""


class Deltas(UnitsWriter):
    def kernel(self) -> Kernel:
        """Result times gradient of each query."""
        code, t, node = self.code, self.sizes, self.node
        count = t.batch * t.heads * t.m
        with kernel_body(code, [*self.operands, *self.scratch()]):
            code.line(f"const ptrdiff_t query = (ptrdiff_t)BLOCK * {ROWS} + THREAD / {QUAD};")
            code.line(f"const ptrdiff_t safe = query < {count} ? query : {count - 1};")
            code.line(f"const ptrdiff_t head = safe / {t.m}, row = safe % {t.m};")
            place = t.row("head", t.heads, t.m, t.width, "row")
            code.line(f"const ptrdiff_t place = {place};")
            code.line("float sum = 0.0f;")
            with code.block(f"for (int i = THREAD % {QUAD}; i < {t.width}; i += {QUAD})"):
                numbers = [self.number(node.inputs[i], f"in{i}[place + i]") for i in (3, 5)]
                code.line(f"sum += {' * '.join(numbers)};")
            code.line("sum = QUAD_SUM(sum);")
            with code.block(f"if (THREAD % {QUAD} == 0 && query < {count})"):
                code.line("scratch[query] = sum;")
        return self.finish("attention_deltas")


class Gradient(UnitsWriter):
    def slopes(self, row: tuple[str, str, str], weights: bool) -> None:
        """From `scores` and the products of gradients and values, `slopes`, to the slopes of the products of queries
        and keys; with `weights`, scores become those. `row` are the query's levels and its delta."""
        code, (top, log, delta) = self.code, row
        with self.each_score():
            code.line(f"const float weight = EXP2(((scores[p][j][e] - {top}) - {log}) * {LOG2_E});")
            code.line(f"float ds = weight * (slopes[p][j][e] - {delta}) * {literal(self.scale, DType.F32)};")
            if self.softcap:
                code.line("const float bounded = bounds[p][j][e];")
                self.softcap_slope()
            code.lines(["scores[p][j][e] = weight;"] if weights else ())
            code.line("slopes[p][j][e] = ds;")


class QueryGradient(Gradient):
    def kernel(self) -> Kernel:
        """Queries against all keys."""
        t, shape = self.sizes, self.shape
        with self.body(t.m, self.scratch(), heaviest_last=True):
            self.source(0, "head", (t.heads, t.m, t.depth))
            self.source(5, "head", (t.heads, t.m, t.width))
            self.key_sources()
            self.tiles("queries", shape.rows, t.depth)
            self.tiles("dys", shape.rows, t.width)
            self.tiles("keys", shape.columns, t.depth, 2)
            self.tiles("values", shape.columns, t.width, 2)
            self.sums("sums", t.depth)
            self._levels()
            self.load("queries[0]", 0, (t.heads, t.m, t.depth), "first", shape.rows)
            self.load("dys[0]", 5, (t.heads, t.m, t.width), "first", shape.rows)
            with self.against_keys():
                self.product("slopes", "dys[0]", "values[stage]", t.width)
                self.slopes(("top[p][e / 2]", "log[p][e / 2]", "delta[p][e / 2]"), weights=False)
                self.add("sums", "slopes", "keys[stage]", t.depth)
            self.store(0, "sums", "head", (t.heads, t.m, t.depth))
        return self.finish("attention_dq")

    def _levels(self) -> None:
        """Declare those of the thread's rows, and their deltas."""
        code, m, pieces = self.code, self.sizes.m, self.shape.pieces
        code.line(f"float top[{pieces}][2], log[{pieces}][2], delta[{pieces}][2];")
        with self.each(p=pieces, h=2):
            code.line("const int row = first + row0 + p * 16 + g + h * 8;")
            code.line(f"const ptrdiff_t place = head * {m} + (row < {m} ? row : {m - 1});")
            code.line("top[p][h] = in4[place * 2];")
            code.line("log[p][h] = in4[place * 2 + 1];")
            code.line("delta[p][h] = scratch[place];")


class KeyGradients(Gradient):
    def kernel(self) -> Kernel:
        """Keys and values against all queries to them, of each head that they serve."""
        code, t, shape = self.code, self.sizes, self.shape
        with self.body(t.n, self.scratch()):
            self.tiles("keys", shape.rows, t.depth)
            self.tiles("values", shape.rows, t.width)
            self.tiles("queries", shape.columns, t.depth, 2)
            self.tiles("dys", shape.columns, t.width, 2)
            self.pooled("float", "levels", f"[3][{shape.columns}]", 4 * 2 * 3 * shape.columns)
            self.sums("dk", t.depth)
            self.sums("dv", t.width)
            code.line(f"const int start = {self.first_query(shape.columns)};")
            code.line(f"const int count = start < {t.m} ? ({t.m + shape.columns - 1} - start) / {shape.columns} : 0;")
            code.line("int stage = 0;")
            self.source(1, "head", (t.key_heads, t.n, t.depth))
            self.source(2, "head", (t.key_heads, t.n, t.width))
            self.load("keys[0]", 1, (t.key_heads, t.n, t.depth), "first", shape.rows)
            self.load("values[0]", 2, (t.key_heads, t.n, t.width), "first", shape.rows)
            with code.block("if (count > 0)"):
                self._load_queries("0", "0")
            with code.block(f"for (int turn = 0; turn < {t.group} * count; ++turn)"):
                code.line("COPIES_WAIT(0);")
                code.line("BARRIER;")
                with code.block(f"if (turn + 1 < {t.group} * count)"):
                    self._load_queries("1 - stage", "turn + 1")
                code.line("const int member = turn / count;")
                code.line(f"const int query0 = start + turn % count * {shape.columns};")
                self._slopes()
                self.add("dv", "scores", "dys[stage]", t.width)
                self.add("dk", "slopes", "queries[stage]", t.depth)
                code.line("stage = 1 - stage;")
            code.line("COPIES_WAIT(0);")
            self.store(1, "dk", "head", (t.key_heads, t.n, t.depth))
            self.store(2, "dv", "head", (t.key_heads, t.n, t.width))
        return self.finish("attention_dkv")

    def _slopes(self) -> None:
        """Weights and slopes of a tile, keys by queries."""
        t = self.sizes
        self.product("scores", "keys[0]", "queries[stage]", t.depth)
        limits = self.limits("query", t.m, f"first + {self.shape.rows - 1 - (t.n - t.m)} <= query0")
        self.scores("scores", self.member_head(), "key = first", "query = query0", *limits)
        self.product("slopes", "values[0]", "dys[stage]", t.width)
        at = "j * 8 + 2 * t + e % 2"
        self.slopes((f"levels[stage][0][{at}]", f"levels[stage][1][{at}]", f"levels[stage][2][{at}]"), weights=True)

    def _load_queries(self, stage: str, turn: str) -> None:
        code, t, columns = self.code, self.sizes, self.shape.columns
        with code.block(""):
            code.line(f"const int member = ({turn}) / count, query0 = start + ({turn}) % count * {columns};")
            code.line(f"const ptrdiff_t query_head = {self.member_head()};")
            self.source(0, "query_head", (t.heads, t.m, t.depth))
            self.source(5, "query_head", (t.heads, t.m, t.width))
            self.load(f"queries[{stage}]", 0, (t.heads, t.m, t.depth), "query0", columns)
            self.load(f"dys[{stage}]", 5, (t.heads, t.m, t.width), "query0", columns)
            with code.block(f"if (THREAD < {columns})"):
                query = f"(query0 + THREAD < {t.m} ? query0 + THREAD : {t.m - 1})"
                code.line(f"const ptrdiff_t place = query_head * {t.m} + {query};")
                for number, level in enumerate(("in4[place * 2]", "in4[place * 2 + 1]", "scratch[place]")):
                    code.line(f"levels[{stage}][{number}][THREAD] = {level};")
        code.line("COPIES_BEGUN;")
