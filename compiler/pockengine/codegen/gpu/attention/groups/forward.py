"""The kernel of attention where warpgroups multiply: J. Shah et al., "FlashAttention-3" (2024), algorithms 1 and 2."""

from __future__ import annotations

from .....ir import DType, Node
from .....plan.program import Kernel
from ....common.attention import LEAST
from ....common.c_dialect import literal
from ...hopper.engine import next_stage
from ...hopper.units import GROUP
from ..registers import COLUMNS, LOG2_E
from ..sizes import Sizes
from .shapes import GroupShape
from .writer import GroupsWriter, Tile


class Forward(GroupsWriter):
    """While a tile of scores becomes weights, the weights before are multiplied with their values; and two warpgroups
    begin their products by turns, so that one's are made while the other computes weights.

    Without masks and bounds, scores stay products of queries and keys: their scale is a factor of the exponent."""

    def __init__(self, node: Node, sizes: Sizes, shape: GroupShape, compute: str) -> None:
        super().__init__(node, sizes, shape, compute)
        t = sizes
        self.queries = Tile("queries", 0, (t.heads, t.m, t.depth), shape.rows)
        self.keys = Tile("keys", 1, (t.key_heads, t.n, t.depth), shape.columns, shape.stages)
        self.values = Tile("values", 2, (t.key_heads, t.n, t.width), shape.columns, shape.stages)
        self.tiles = self.queries, self.keys, self.values

    @property
    def takes_turns(self) -> bool:
        """Whether there are two warpgroups that multiply."""
        return self.shape.groups > 1

    def kernel(self) -> Kernel:
        """Queries against all keys, with a softmax that is corrected as larger scores appear."""
        code, t, shape = self.code, self.sizes, self.shape
        with self.block(t.m, heaviest_last=True):
            code.line(f"const int last = {self.last_key(shape.rows)};")
            code.line("int stage = 0, parity = 0;")
            with self.copying(), self.engine():
                self._copy_all()
            with self.multiplying():
                self._declare()
                code.line("MBARRIER_WAIT(&queries_full[0], 0);")
                with code.block("if (last > 0)"):
                    self._go_through_keys()
                with self.each(p=1, h=2):
                    code.line("total[p][h] = QUAD_SUM(total[p][h]);")
                    code.line("total[p][h] = total[p][h] > 0.5f ? total[p][h] : 0.5f;")
                self.store(0, "sums", "head", (t.heads, t.m, t.width), "1.0f / total[p][h]")
                self.store_levels(self._level("top[p][h]", literal(self.scale, DType.F32), LEAST))
        return self.finish("attention")

    def _copy_all(self) -> None:
        code, shape = self.code, self.shape
        self.key_head()
        self.copy(self.queries, "0", "head", "first")
        with code.block(f"for (int key0 = 0; key0 < last; key0 += {shape.columns})"):
            for tile in (self.keys, self.values):
                self.refill(tile, "key_head", "key0")
            next_stage(code, shape.stages)

    def _declare(self) -> None:
        code = self.code
        self.own_rows("rows", self.queries)
        self.sums("sums", self.sizes.width)
        self.made("scores")
        self.words("weights")
        code.line("float top[1][2], total[1][2], factor[1][2];")
        with self.each(p=1, h=2):
            code.line(f"top[p][h] = {LEAST};")
            code.line("total[p][h] = 0.0f;")

    def _go_through_keys(self) -> None:
        """Scores of a tile are on their way while the weights before are: at most one tile of each."""
        code, shape = self.code, self.shape
        self._scores("0")
        code.line("int before = 0, before_parity = 0;")
        next_stage(code, shape.stages)
        if self.takes_turns:
            code.line(f"const int group = THREAD / {GROUP};")
            with code.block(f"if (group == 1 && last > {shape.columns})"):
                code.line(f"TURN_GIVE(1, {2 * GROUP});")
        with code.block(f"for (int key0 = {shape.columns}; key0 < last; key0 += {shape.columns})"):
            code.line("MBARRIER_WAIT(&keys_full[stage], parity);")
            code.lines([f"TURN_WAIT(1 + group, {2 * GROUP});"] if self.takes_turns else ())
            self.products("scores", ("rows", self.queries), self.keys, "stage")
            self._add_values()
            if self.takes_turns:
                with code.block(f"if (group == 0 || key0 + {shape.columns} < last)"):
                    code.line(f"TURN_GIVE(2 - group, {2 * GROUP});")
            code.line("WGMMA_WAIT(1);")
            self._softmax("key0")
            self.give_back(self.keys, "stage", "!(total[0][0] + total[0][1] < 0.0f)")
            code.line("WGMMA_WAIT(0);")
            self.give_back(self.values, "before")
            with self.each(p=1, h=2, x=self.sizes.width // COLUMNS, e=2):
                code.line("sums[p][x][2 * h + e] *= factor[p][h];")
            self.pack("weights", "scores")
            code.line("before = stage, before_parity = parity;")
            next_stage(code, shape.stages)
        self._add_values()
        code.line("WGMMA_WAIT(0);")

    def _scores(self, key0: str) -> None:
        """The weights of the first tile."""
        code = self.code
        code.line("MBARRIER_WAIT(&keys_full[stage], parity);")
        self.products("scores", ("rows", self.queries), self.keys, "stage")
        code.line("WGMMA_WAIT(0);")
        self.give_back(self.keys, "stage")
        self._softmax(key0)
        self.pack("weights", "scores")

    def _add_values(self) -> None:
        self.code.line("MBARRIER_WAIT(&values_full[before], before_parity);")
        self.add("sums", "weights", self.values, "before")

    def _level(self, top: str, scale: str, unseen: str) -> str:
        """Expression of a largest score, times a scale where it is none yet; `unseen`: of a row that sees nothing."""
        return f"({top} > {LEAST} ? {top} * {scale} : {unseen})" if self.raw else top

    def _softmax(self, key0: str) -> None:
        """From products to weights, whose sums are with those before."""
        code, t, columns = self.code, self.sizes, self.shape.columns
        limits = self.limits("key", t.n, f"key0 + {columns - 1 - (t.n - t.m)} <= first")
        with code.block(""):
            if key0 != "key0":
                code.line(f"const int key0 = {key0};")
            if self.raw:
                self.hide("scores", "query = first", "key = key0", *limits)
            else:
                self.scores("scores", "head", "query = first", "key = key0", *limits)
            power = self.power
            with self.each(p=1, h=2):
                code.line("float peak = top[p][h];")
                with self.each(j=columns // COLUMNS, e=2):
                    code.line("peak = __builtin_fmaxf(peak, scores[p][j][2 * h + e]);")
                code.line("peak = QUAD_MAX(peak);")
                code.line(f"factor[p][h] = EXP2((top[p][h] - peak) * {power if self.raw else LOG2_E});")
                code.line("top[p][h] = peak;")
                code.line("total[p][h] *= factor[p][h];")
                if self.raw:
                    code.line(f"const float level = {self._level('peak', power, '0.0f')};")
                with self.each(j=columns // COLUMNS, e=2):
                    exponent = f"scores[p][j][2 * h + e] * {power} - level"
                    if not self.raw:
                        exponent = f"(scores[p][j][2 * h + e] - peak) * {LOG2_E}"
                    code.line(f"const float weight = EXP2({exponent});")
                    code.line("total[p][h] += weight;")
                    code.line("scores[p][j][2 * h + e] = weight;")
