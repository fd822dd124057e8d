"""The kernels of attention's gradient where warpgroups multiply: one for queries and one for keys and values, so that
sums have an order.

Scores are raw products (`GroupsWriter.raw`). Of each query there are its `level`, such that 2^(score * power - level)
is a weight, and its delta (units/gradients.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .....ir import DType, Node
from .....plan.program import Kernel
from ....common.attention import LEAST
from ....common.c_dialect import literal
from ...hopper.engine import next_stage
from ...hopper.units import GROUP
from ..registers import COLUMNS, LOG2_E
from ..sizes import Sizes
from .shapes import LEVELS, GroupShape
from .writer import GroupsWriter, Tile

WARP = 32


class Gradient(GroupsWriter):
    @property
    def slope_scale(self) -> str:
        """What sums are multiplied with when they are stored."""
        return literal(self.scale, DType.F32)

    def level(self, place: str) -> str:
        """Expression of a query's level."""
        top = f"in4[{place} * 2]"
        return f"({top} > {LEAST} ? ({top} + in4[{place} * 2 + 1]) * {LOG2_E} : 0.0f)"

    def weights(self, level: str) -> None:
        """Products become weights."""
        with self.each_score():
            self.code.line(f"scores[p][j][e] = EXP2(scores[p][j][e] * {self.power} - {level});")

    def slopes(self, delta: str) -> None:
        """Products of gradients and values become slopes of scores, but for the scale."""
        with self.each_score():
            self.code.line(f"slopes[p][j][e] = scores[p][j][e] * (slopes[p][j][e] - {delta});")


class QueryGradient(Gradient):
    def __init__(self, node: Node, sizes: Sizes, shape: GroupShape, compute: str) -> None:
        super().__init__(node, sizes, shape, compute)
        t = sizes
        self.queries = Tile("queries", 0, (t.heads, t.m, t.depth), shape.rows)
        self.dys = Tile("dys", 5, (t.heads, t.m, t.width), shape.rows)
        self.keys = Tile("keys", 1, (t.key_heads, t.n, t.depth), shape.columns, shape.stages)
        self.values = Tile("values", 2, (t.key_heads, t.n, t.width), shape.columns, shape.stages)
        self.tiles = self.queries, self.dys, self.keys, self.values

    def kernel(self) -> Kernel:
        """Queries against all keys."""
        code, t, shape = self.code, self.sizes, self.shape
        with self.block(t.m, self.scratch(), heaviest_last=True):
            code.line(f"const int last = {self.last_key(shape.rows)};")
            code.line("int stage = 0, parity = 0;")
            with self.copying(), self.engine():
                self.key_head()
                for tile in (self.queries, self.dys):
                    self.copy(tile, "0", "head", "first")
                with code.block(f"for (int key0 = 0; key0 < last; key0 += {shape.columns})"):
                    for tile in (self.keys, self.values):
                        self.refill(tile, "key_head", "key0")
                    next_stage(code, shape.stages)
            with self.multiplying():
                self._declare()
                with code.block("if (last > 0)"):
                    with code.block(f"for (int key0 = 0; key0 < last; key0 += {shape.columns})"):
                        self._add_tile()
                        code.line("before = stage;")
                        next_stage(code, shape.stages)
                    code.line("WGMMA_WAIT(0);")
                self.store(0, "sums", "head", (t.heads, t.m, t.depth), self.slope_scale)
        return self.finish("attention_dq")

    def _declare(self) -> None:
        code, m = self.code, self.sizes.m
        self.own_rows("rows", self.queries)
        self.own_rows("dy_rows", self.dys)
        self.sums("sums", self.sizes.depth)
        for name in ("scores", "slopes"):
            self.made(name)
        self.words("words")
        code.line("int before = 0;")
        code.line("float level[1][2], delta[1][2];")
        with self.each(p=1, h=2):
            code.line("const int row = first + row0 + p * 16 + g + h * 8;")
            code.line(f"const ptrdiff_t place = head * {m} + (row < {m} ? row : {m - 1});")
            code.line(f"level[p][h] = {self.level('place')};")
            code.line("delta[p][h] = scratch[place];")
        for tile in (self.queries, self.dys):
            code.line(f"MBARRIER_WAIT(&{tile.name}_full[0], 0);")

    def _add_tile(self) -> None:
        """Products of a tile begin while those of the slopes before are on their way."""
        code, t = self.code, self.sizes
        code.line("MBARRIER_WAIT(&keys_full[stage], parity);")
        self.products("scores", ("rows", self.queries), self.keys, "stage")
        code.line("MBARRIER_WAIT(&values_full[stage], parity);")
        self.products("slopes", ("dy_rows", self.dys), self.values, "stage")
        limits = self.limits("key", t.n, f"key0 + {self.shape.columns - 1 - (t.n - t.m)} <= first")
        code.line("WGMMA_WAIT(1);")
        with code.block("if (key0 > 0)"):
            self.give_back(self.keys, "before")
        self.hide("scores", "query = first", "key = key0", *limits)
        self.weights("level[p][e / 2]")
        code.line("WGMMA_WAIT(0);")
        self.give_back(self.values, "stage")
        self.slopes("delta[p][e / 2]")
        self.pack("words", "slopes")
        self.add("sums", "words", self.keys, "stage")


class KeyGradients(Gradient):
    def __init__(self, node: Node, sizes: Sizes, shape: GroupShape, compute: str) -> None:
        super().__init__(node, sizes, shape, compute)
        t = sizes
        self.keys = Tile("keys", 1, (t.key_heads, t.n, t.depth), shape.rows)
        self.values = Tile("values", 2, (t.key_heads, t.n, t.width), shape.rows)
        self.queries = Tile("queries", 0, (t.heads, t.m, t.depth), shape.columns, shape.stages)
        self.dys = Tile("dys", 5, (t.heads, t.m, t.width), shape.columns, shape.stages, WARP)
        self.tiles = self.keys, self.values, self.queries, self.dys

    @property
    def kept(self) -> int:
        """See GroupsWriter: with the queries' levels and deltas."""
        return super().kept + self.shape.level_bytes

    def kernel(self) -> Kernel:
        """Keys and values against all queries to them, of each head that they serve."""
        code, t, columns = self.code, self.sizes, self.shape.columns
        with self.block(t.n, self.scratch()):
            array = f"[{columns}][{LEVELS}]"
            code.line(f"float (*const levels){array} = (float (*){array})({self.behind});")
            code.line(f"const int start = {self.first_query(columns)};")
            code.line(f"const int count = start < {t.m} ? ({t.m + columns - 1} - start) / {columns} : 0;")
            code.line("int stage = 0, parity = 0;")
            with self.copying():
                with self.engine():
                    for tile in (self.keys, self.values):
                        self.copy(tile, "0", "head", "first")
                    with self._each_turn():
                        for tile in (self.queries, self.dys):
                            self.refill(tile, "query_head", "query0")
                with code.block(f"else if (THREAD % {GROUP} / {WARP} == 1)"), self._each_turn():
                    self._write_levels()
            with self.multiplying():
                self._declare()
                with code.block("if (count > 0)"):
                    with self._each_turn():
                        self._add_tile()
                        code.line("before = stage;")
                    code.line("WGMMA_WAIT(0);")
                self.store(1, "dk", "head", (t.key_heads, t.n, t.depth), self.slope_scale)
                self.store(2, "dv", "head", (t.key_heads, t.n, t.width))
        return self.finish("attention_dkv")

    @contextmanager
    def _each_turn(self) -> Iterator[None]:
        """For each tile of queries that may see the block's keys, of each head that they serve."""
        code, t, shape = self.code, self.sizes, self.shape
        with code.block(f"for (int turn = 0; turn < {t.group} * count; ++turn)"):
            code.line(f"const int member = turn / count, query0 = start + turn % count * {shape.columns};")
            code.line(f"const ptrdiff_t query_head = {self.member_head()};")
            yield
            next_stage(code, shape.stages)

    def _write_levels(self) -> None:
        """What a warp does for a tile of gradients. Beyond the last query, weights are none."""
        code, m = self.code, self.sizes.m
        code.line("MBARRIER_WAIT(&dys_empty[stage], parity ^ 1);")
        with code.block(f"for (int x = THREAD % {WARP}; x < {self.shape.columns}; x += {WARP})"):
            code.line("const int query = query0 + x;")
            code.line(f"const ptrdiff_t place = query_head * {m} + (query < {m} ? query : {m - 1});")
            code.line(f"levels[stage][x][0] = query < {m} ? {self.level('place')} : __builtin_inff();")
            code.line(f"levels[stage][x][1] = query < {m} ? scratch[place] : 0.0f;")
        code.line("MBARRIER_ARRIVE(&dys_full[stage]);")

    def _declare(self) -> None:
        self.own_rows("rows", self.keys)
        self.own_rows("value_rows", self.values)
        self.sums("dk", self.sizes.depth)
        self.sums("dv", self.sizes.width)
        for name in ("scores", "slopes"):
            self.made(name)
        for name in ("words", "slope_words"):
            self.words(name)
        self.code.line("int before = 0;")
        for tile in (self.keys, self.values):
            self.code.line(f"MBARRIER_WAIT(&{tile.name}_full[0], 0);")

    def _add_tile(self) -> None:
        """Products of a tile begin while those of the tile before are on their way."""
        code, t = self.code, self.sizes
        code.line("MBARRIER_WAIT(&queries_full[stage], parity);")
        self.products("scores", ("rows", self.keys), self.queries, "stage")
        code.line("MBARRIER_WAIT(&dys_full[stage], parity);")
        self.products("slopes", ("value_rows", self.values), self.dys, "stage")
        code.line("WGMMA_WAIT(1);")
        with code.block("if (turn > 0)"):
            for tile in (self.queries, self.dys):
                self.give_back(tile, "before")
        if self.causal:
            whole = f"first + {self.shape.rows - 1 - (t.n - t.m)} <= query0"
            self.hide("scores", "key = first", "query = query0", [whole], [self.is_later("query", "key")])
        query = f"levels[stage][j * {COLUMNS} + 2 * t + e % 2]"
        self.weights(f"{query}[0]")
        self.pack("words", "scores")
        self.add("dv", "words", self.dys, "stage")
        code.line("WGMMA_WAIT(1);")
        self.slopes(f"{query}[1]")
        self.pack("slope_words", "slopes")
        self.add("dk", "slope_words", self.queries, "stage")
