"""The kernel of attention on matrix units: T. Dao, "FlashAttention-2" (2023), algorithm 1."""

from __future__ import annotations

from .....plan.program import Kernel
from ....common.attention import LEAST
from ..registers import LOG2_E
from .writer import UnitsWriter


class Forward(UnitsWriter):
    def kernel(self) -> Kernel:
        """Queries against all keys, with a softmax that is corrected as larger scores appear."""
        code, t, shape = self.code, self.sizes, self.shape
        with self.body(t.m, heaviest_last=True):
            self.source(0, "head", (t.heads, t.m, t.depth))
            self.key_sources()
            self.tiles("queries", shape.rows, t.depth)
            self.tiles("keys", shape.columns, t.depth, 2)
            self.tiles("values", shape.columns, t.width, 2)
            self.sums("sums", t.width)
            code.line(f"float top[{shape.pieces}][2], total[{shape.pieces}][2];")
            with self.each(p=shape.pieces, h=2):
                code.line(f"top[p][h] = {LEAST};")
                code.line("total[p][h] = 0.0f;")
            self.load("queries[0]", 0, (t.heads, t.m, t.depth), "first", shape.rows)
            with self.against_keys():
                self._softmax()
                self.add("sums", "scores", "values[stage]", t.width)
            with self.each(p=shape.pieces, h=2):
                code.line("total[p][h] = QUAD_SUM(total[p][h]);")
                code.line("total[p][h] = total[p][h] > 0.5f ? total[p][h] : 0.5f;")
            self.store(0, "sums", "head", (t.heads, t.m, t.width), "1.0f / total[p][h]")
            self.store_levels("top[p][h]")
        return self.finish("attention")

    def _softmax(self) -> None:
        """From scores to weights, whose sums are with those before."""
        code, shape = self.code, self.shape
        with self.each(p=shape.pieces, h=2):
            code.line("float peak = top[p][h];")
            with self.each(j=shape.columns // 8, e=2):
                code.line("peak = scores[p][j][2 * h + e] > peak ? scores[p][j][2 * h + e] : peak;")
            code.line("peak = QUAD_MAX(peak);")
            code.line(f"const float factor = EXP2((top[p][h] - peak) * {LOG2_E});")
            code.line("top[p][h] = peak;")
            code.line("total[p][h] *= factor;")
            with self.each(j=shape.columns // 8, e=2):
                code.line(f"const float weight = EXP2((scores[p][j][2 * h + e] - peak) * {LOG2_E});")
                code.line("total[p][h] += weight;")
                code.line("scores[p][j][2 * h + e] = weight;")
            with self.each(x=self.sizes.width // 8, e=2):
                code.line("sums[p][x][2 * h + e] *= factor;")
