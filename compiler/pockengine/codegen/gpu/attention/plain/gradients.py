"""The kernels of attention's gradient: scores are made again from the levels that the forward kernel saved."""

from __future__ import annotations

from .....ir import DType
from .....plan.program import Kernel
from ....common.attention import LEAST
from ....common.c_dialect import literal
from .writer import Writer


class Gradient(Writer):
    """Inputs are q, k, v, the result, its levels, the result's gradient, and masks."""

    def slope(self, head: str, query: str, key: str, dots: tuple[str, ...], row: tuple[str, ...]) -> None:
        """`weight` of a query and a key, and `ds`, the slope of their product. `dots` are the query, the key, the
        result's gradient and the value in shared memory; `row` the query's levels and its sum of result times
        gradient."""
        code, t = self.code, self.sizes
        top, log, delta = row
        self.dot("s", dots[0], dots[1], t.depth)
        self.limited(head, query, key)
        self.dot("dp", dots[2], dots[3], t.width)
        code.line(f"const float weight = pock_exp((seen - {top}) - {log});")
        code.line(f"float ds = weight * (dp - {delta}) * {literal(self.scale, DType.F32)};")
        self.softcap_slope()

    def row(self, head: str, query: str, inside: str) -> None:
        """Declare a query's `top`, `log` and `delta`; of one that there is not, such that its weights are zero."""
        code, t = self.code, self.sizes
        code.line(f"float top = {LEAST}, log = 0.0f, delta = 0.0f;")
        with code.block(f"if ({inside})"):
            code.line(f"top = in4[(({head}) * {t.m} + {query}) * 2];")
            code.line(f"log = in4[(({head}) * {t.m} + {query}) * 2 + 1];")
            place = t.row(head, t.heads, t.m, t.width, query)
            code.line(f"const ptrdiff_t place = {place};")
            with code.block(f"for (int i = 0; i < {t.width}; ++i)"):
                code.line("delta += in3[place + i] * in5[place + i];")


class QueryGradient(Gradient):
    def kernel(self) -> Kernel:
        """A tile of queries against all keys."""
        code, t = self.code, self.sizes
        tiles = {"queries": t.depth, "slopes": t.width, "keys": t.depth, "values": t.width, "products": self.side}
        with self.body(t.m, **tiles):
            self.key_head()
            self.load("queries", "in0", "head", t.heads, (t.m, t.depth), "first")
            self.load("slopes", "in5", "head", t.heads, (t.m, t.width), "first")
            self.row("head", "(first + r)", f"first + r < {t.m}")
            self.sums("sums", t.depth)
            with self.tiles_of("key0", "0", self.last_key(self.side)):
                self.load("keys", "in1", "key_head", t.key_heads, (t.n, t.depth), "key0")
                self.load("values", "in2", "key_head", t.key_heads, (t.n, t.width), "key0")
                code.line("BARRIER;")
                with self.each_column():
                    dots, row = ("queries[r]", "keys[c]", "slopes[r]", "values[c]"), ("top", "log", "delta")
                    self.slope("head", "(first + r)", "(key0 + c)", dots, row)
                    code.line("products[r][c] = ds;")
                code.line("BARRIER;")
                self.add("sums", t.depth, "products", "keys")
            self.store(0, "sums", t.heads, (t.m, t.depth))
        return self.finish("attention_dq")


class KeyGradients(Gradient):
    def kernel(self) -> Kernel:
        """A tile of keys against all queries to them, of each head that they serve."""
        code, t = self.code, self.sizes
        tiles = {"keys": t.depth, "values": t.width, "queries": t.depth, "slopes": t.width}
        with self.body(t.n, **tiles, weights=self.side, products=self.side, levels=2):
            self.load("keys", "in1", "head", t.key_heads, (t.n, t.depth), "first")
            self.load("values", "in2", "head", t.key_heads, (t.n, t.width), "first")
            self.sums("dk", t.depth)
            self.sums("dv", t.width)
            with code.block(f"for (int member = 0; member < {t.group}; ++member)"):
                code.line(f"const ptrdiff_t query_head = {self.member_head()};")
                with self.tiles_of("query0", self.first_query(self.side), str(t.m)):
                    self.load("queries", "in0", "query_head", t.heads, (t.m, t.depth), "query0")
                    self.load("slopes", "in5", "query_head", t.heads, (t.m, t.width), "query0")
                    with code.block(f"if (THREAD < {self.side})"):
                        self.row("query_head", "(query0 + THREAD)", f"query0 + THREAD < {t.m}")
                        for place, name in enumerate(("top", "log", "delta")):
                            code.line(f"levels[THREAD][{place}] = {name};")
                    code.line("BARRIER;")
                    with self.each_column():
                        dots = ("queries[c]", "keys[r]", "slopes[c]", "values[r]")
                        row = ("levels[c][0]", "levels[c][1]", "levels[c][2]")
                        self.slope("query_head", "(query0 + c)", "(first + r)", dots, row)
                        code.line(f"const int there = query0 + c < {t.m};")
                        code.line("weights[r][c] = there ? weight : 0.0f;")
                        code.line("products[r][c] = there ? ds : 0.0f;")
                    code.line("BARRIER;")
                    self.add("dk", t.depth, "products", "queries")
                    self.add("dv", t.width, "weights", "slopes")
            self.store(1, "dk", t.key_heads, (t.n, t.depth))
            self.store(2, "dv", t.key_heads, (t.n, t.width))
        return self.finish("attention_dkv")
