"""The kernel of attention without matrix units."""

from __future__ import annotations

from .....plan.program import Kernel
from ....common.attention import LEAST
from .writer import Writer


class Forward(Writer):
    def kernel(self) -> Kernel:
        """A tile of queries against all keys, with a softmax that is corrected as larger scores appear."""
        code, t = self.code, self.sizes
        with self.body(t.m, queries=t.depth, others=max(t.depth, t.width), weights=self.side):
            self.key_head()
            self.load("queries", "in0", "head", t.heads, (t.m, t.depth), "first")
            self.sums("sums", t.width)
            code.line(f"float top = {LEAST}, total = 0.0f;")
            with self.tiles_of("key0", "0", self.last_key(self.side)):
                self.load("others", "in1", "key_head", t.key_heads, (t.n, t.depth), "key0")
                code.line("BARRIER;")
                with self.each_column():
                    self.dot("s", "queries[r]", "others[c]", t.depth)
                    self.limited("head", "(first + r)", "(key0 + c)")
                    code.line("weights[r][c] = seen;")
                code.line("BARRIER;")
                code.line("float peak = top;")
                with code.block(f"for (int c = 0; c < {self.side}; ++c)"):
                    code.line("peak = weights[r][c] > peak ? weights[r][c] : peak;")
                code.line("BARRIER;")
                with self.each_column():
                    code.line("weights[r][c] = pock_exp(weights[r][c] - peak);")
                self.load("others", "in2", "key_head", t.key_heads, (t.n, t.width), "key0")
                code.line("BARRIER;")
                code.line("const float factor = pock_exp(top - peak);")
                code.line("total *= factor;")
                with code.block(f"for (int c = 0; c < {self.side}; ++c)"):
                    code.line("total += weights[r][c];")
                code.line("top = peak;")
                self.add("sums", t.width, "weights", "others", "factor")
            code.line("total = total > 0.5f ? total : 0.5f;")
            with self.parts(t.width):
                code.line("sums[i] /= total;")
            self.store(0, "sums", t.heads, (t.m, t.width))
            levels = self.operands[len(self.node.inputs) + 1][0]
            with code.block(f"if (lane == 0 && first + r < {t.m})"):
                code.line(f"{levels}[(head * {t.m} + first + r) * 2] = top;")
                code.line(f"{levels}[(head * {t.m} + first + r) * 2 + 1] = pock_log(total);")
        return self.finish("attention")
