"""Kernels of attention and its gradient, after T. Dao, "FlashAttention-2" (2023), algorithms 1 and 2.

The scores are never there as a whole: a block of queries x keys is made, used and overwritten. The gradient makes each
block again, from the log-sum-exp of each row that the forward kernel saved.

Forward, threads share batch x heads x blocks of queries. Backward, they share batch x key heads: the gradient of a key
head is a sum over all queries to it."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir import DType, Node
from ....plan.program import Kernel, Lowered
from ....targets import Target
from ...common.attention import LEAST, masks_of
from ...common.c_dialect import literal
from ...common.mathlib import functions
from ...common.scratch import aligned
from ..emit.calls import call
from ..emit.source import SIGNATURE, Code, declare, kernel
from .tiling import Product, Tiling, emit_adjust, emit_products, emit_turn, emit_widen


def lower(node: Node, target: Target, threads: int) -> Lowered:
    """The kernel of one node."""
    tiling = Tiling.of(node, target)
    writer = _Forward(node, tiling) if node.op == "attention" else _Backward(node, tiling)
    return Lowered((call(node, writer.kernel(), workspace=True),), writer.area.total * threads)


class _Area:
    """A task's part of the workspace, cut into named arrays of floats."""

    def __init__(self) -> None:
        self.total = 0
        self._offsets: dict[str, int] = {}

    def add(self, name: str, elements: int) -> None:
        self._offsets[name] = self.total
        self.total += aligned(4 * elements)

    def declare(self, code: Code, argument: int) -> None:
        code.line(f"char *const own = (char *)arg[{argument}] + task * (ptrdiff_t){self.total};")
        for name, offset in self._offsets.items():
            code.line(f"float *const {name} = (float *)(void *)(own + {offset});")


@dataclass
class _Writer:
    """What both kernels have in common."""

    node: Node
    tiling: Tiling

    def __post_init__(self) -> None:
        self.code, self.area = Code(), _Area()
        self.wide_depth, self.wide_width = (self.tiling.padded(size) for size in (self.tiling.depth, self.tiling.width))
        self.key_row, self.value_row = (
            self.tiling.row(self.tiling.key_heads, size) for size in (self.tiling.depth, self.tiling.width)
        )
        self.pads = (self.wide_depth, self.wide_width) != (self.tiling.depth, self.tiling.width) or self.tiling.inside

    @property
    def _adjusts(self) -> bool:
        return bool(masks_of(self.node) or self.tiling.softcap or self.tiling.causal)

    def _helpers(self, products: list[Product], depths: list[int], widens: bool) -> set[str]:
        """Functions before the kernel; returns the math functions that they need."""
        emit_products(self.code, self.tiling, products)
        emit_turn(self.code, self.tiling, depths)
        if widens:
            emit_widen(self.code)
        if not self._adjusts:
            return {"exp"}
        places = [(self.node.inputs.index(mask), mask) for mask in masks_of(self.node)]
        return {"exp"} | emit_adjust(self.code, self.tiling, places)

    def _declare(self, inputs: list[str], outputs: list[str]) -> None:
        named = [(name, value.type, False) for name, value in zip(inputs, self.node.inputs, strict=False)]
        code, first = self.code, len(self.node.inputs)
        declare(code, named)
        for index, (name, value) in enumerate(zip(outputs, self.node.outputs, strict=True), first):
            code.line(f"float *{name} = arg[{index}]; /* {value.type} */")
        self.area.declare(code, first + len(outputs))

    def _scores(self) -> None:
        """The block's scores in `s`, as [key][query]."""
        b = self.tiling
        self.code.line(f"const ptrdiff_t keys = {b.n} - key0 < {b.keys} ? {b.n} - key0 : {b.keys};")
        self.code.line(f"score(keys, {b.depth}, key + key0 * {self.key_row}, turned, s, 0);")
        if self._adjusts:
            bound = "bound" if b.softcap else "NULL"
            self.code.line(f"adjust(arg, batch, head % {b.heads}, q0, queries, key0, keys, s, {bound});")

    def _start_block(self) -> None:
        b = self.tiling
        self.code.line(f"const ptrdiff_t queries = {b.m} - q0 < {b.queries} ? {b.m} - q0 : {b.queries};")
        self.code.line(f"const float *const query = q + {b.place('head', b.heads, b.m, b.depth, 'q0')};")
        self.code.line(f"turn_{b.depth}(query, queries, {literal(b.scale, DType.F32)}, turned);")

    @property
    def _visible(self) -> str:
        """The loop over the blocks of keys of which some query sees any."""
        b = self.tiling
        seen = f" && key0 < q0 + queries + {b.n - b.m}" if b.causal else ""
        return f"for (ptrdiff_t key0 = 0; key0 < {b.n}{seen}; key0 += {b.keys})"

    def _title(self) -> str:
        shapes = ", ".join(str(value.type) for value in self.node.inputs)
        return f"{self.node.op}({shapes}) {dict(self.node.attrs)}: {self.tiling.title}"


class _Forward(_Writer):
    """Per row of a block: `peak` is the greatest score so far, `total` the sum of exponentials relative to it."""

    def kernel(self) -> Kernel:
        b, code = self.tiling, self.code
        score = Product("score", frozenset(b.key_counts), b.queries, self.key_row, 1, b.queries, b.queries)
        weigh = Product(
            "weigh", frozenset(b.query_counts), self.wide_width, 1, b.queries, self.wide_width, self.wide_width
        )
        for name, size in (
            ("turned", b.depth * b.queries),
            ("s", b.keys * b.queries),
            ("sum", b.queries * weigh.c_row),
        ):
            self.area.add(name, size)
        if b.softcap:
            self.area.add("bound", b.keys * b.queries)
        widens = self.wide_width != b.width or b.inside
        if widens:
            self.area.add("wide", b.n * self.wide_width)
        needs = self._helpers([score, weigh], [b.depth], widens) | {"log"}
        blocks = -(-b.m // b.queries)
        with code.block(SIGNATURE):
            self._declare(["q", "k", "v"], ["y", "levels"])
            if widens:
                code.line("ptrdiff_t widened = -1;")
            code.share(b.batch * b.heads * blocks)
            with code.loop("unit", "last", "first"):
                code.line(f"const ptrdiff_t head = unit / {blocks}, q0 = unit % {blocks} * {b.queries};")
                code.line(f"const ptrdiff_t batch = head / {b.heads};")
                code.line(f"const ptrdiff_t own = batch * {b.key_heads} + head % {b.heads} / {b.group};")
                code.line(f"const float *const key = k + {b.place('own', b.key_heads, b.n, b.depth)};")
                self._values(widens)
                self._start_block()
                self._block()
        return kernel("attention", self._title(), code.text(), functions(needs))

    def _values(self, widens: bool) -> None:
        b, code = self.tiling, self.code
        start = f"v + {b.place('own', b.key_heads, b.n, b.width)}"
        if not widens:
            code.line(f"const float *const value = {start};")
            return
        with code.block("if (widened != own)"):
            code.line(f"widen({start}, {self.value_row}, {b.n}, {b.width}, {self.wide_width}, wide);")
            code.line("widened = own;")
        code.line("const float *const value = wide;")

    def _block(self) -> None:
        b, code, wide = self.tiling, self.code, self.wide_width
        code.line(f"float peak[{b.queries}], total[{b.queries}], factor[{b.queries}];")
        with code.loop("i", b.queries):
            code.line(f"peak[i] = {LEAST};")
            code.line("total[i] = 0.0f;")
        with code.loop("i", b.queries * wide):
            code.line("sum[i] = 0.0f;")
        with code.block(self._visible):
            self._scores()
            self._weights()
            with code.block("if (key0)"), code.loop("i", "queries"), code.loop("j", wide, vectorize=True):
                code.line(f"sum[i * {wide} + j] *= factor[i];")
            code.line(f"weigh(queries, keys, s, value + key0 * {wide}, sum, 1);")
        with code.loop("i", "queries"):
            code.line("const float all = total[i] < 0.5f ? 0.5f : total[i], share = 1.0f / all;")
            code.line(f"float *const level = levels + 2 * (head * {b.m} + q0 + i);")
            code.line("level[0] = peak[i];")
            code.line("level[1] = pock_log(all);")
            code.line(f"float *const row = y + {b.place('head', b.heads, b.m, b.width, 'q0 + i')};")
            with code.loop("j", b.width, vectorize=True):
                code.line(f"row[j] = sum[i * {wide} + j] * share;")

    def _weights(self) -> None:
        """The scores become exponentials; what was summed up before is scaled to the new peak."""
        b, code = self.tiling, self.code
        with code.loop("i", b.queries, vectorize=True):
            code.line("factor[i] = peak[i];")
        with code.loop("j", "keys"), code.loop("i", b.queries, vectorize=True):
            code.line(f"const float score = s[j * {b.queries} + i];")
            code.line("peak[i] = score > peak[i] ? score : peak[i];")
        with code.loop("i", b.queries, vectorize=True):
            code.line("factor[i] = pock_exp(factor[i] - peak[i]);")
            code.line("total[i] *= factor[i];")
        with code.loop("j", "keys"), code.loop("i", b.queries, vectorize=True):
            code.line(f"const float weight = pock_exp(s[j * {b.queries} + i] - peak[i]);")
            code.line(f"s[j * {b.queries} + i] = weight;")
            code.line("total[i] += weight;")


class _Backward(_Writer):
    """Per row of a block: `level` is its log-sum-exp, `mean` the sum of its weights' gradients, each times its weight
    (D in the paper), which is the result's gradient times the result."""

    def kernel(self) -> Kernel:
        b, code = self.tiling, self.code
        keys, queries = frozenset(b.key_counts), frozenset(b.query_counts)
        same = b.depth == b.width
        products = [
            Product("score", keys, b.queries, self.key_row, 1, b.queries, b.queries),
            Product("add_depth", keys, self.wide_depth, b.queries, 1, self.wide_depth, self.wide_depth),
            Product("weigh", queries, self.wide_depth, 1, b.queries, self.wide_depth, self.wide_depth),
        ]
        if not same:
            products.append(Product("slope", keys, b.queries, self.value_row, 1, b.queries, b.queries))
            products.append(Product("add_width", keys, self.wide_width, b.queries, 1, self.wide_width, self.wide_width))
        self.slope, self.add_width = ("score", "add_depth") if same else ("slope", "add_width")
        self._reserve()
        needs = self._helpers(products, [b.depth, b.width], self.pads)
        with code.block(SIGNATURE):
            self._declare(["q", "k", "v", "y", "levels", "dy"], ["dq", "dk", "dv"])
            code.share(b.batch * b.key_heads)
            with code.loop("unit", "last", "first"):
                self._unit()
        return kernel("attention_backward", self._title(), code.text(), functions(needs))

    def _reserve(self) -> None:
        b, tile = self.tiling, self.tiling.keys * self.tiling.queries
        sizes = {"turned": b.depth * b.queries, "turned_dy": b.width * b.queries, "turned_y": b.width * b.queries}
        sizes |= {"s": tile, "d": tile} | ({"bound": tile} if b.softcap else {})
        if self.pads:
            sizes |= {"wide_k": b.n * self.wide_depth, "wide_q": b.queries * self.wide_depth}
            sizes |= {"wide_dy": b.queries * self.wide_width, "sum_dq": b.queries * self.wide_depth}
            sizes |= {"sum_dk": b.n * self.wide_depth, "sum_dv": b.n * self.wide_width}
        for name, size in sizes.items():
            self.area.add(name, size)

    def _unit(self) -> None:
        b, code = self.tiling, self.code
        code.line(f"const ptrdiff_t batch = unit / {b.key_heads};")
        for name, operand, size in (("key", "k", b.depth), ("value", "v", b.width)):
            code.line(f"const float *const {name} = {operand} + {b.place('unit', b.key_heads, b.n, size)};")
        places = {"dk": b.n * b.depth, "dv": b.n * b.width}
        if self.pads:
            code.line(f"widen(key, {self.key_row}, {b.n}, {b.depth}, {self.wide_depth}, wide_k);")
            code.line("float *const own_dk = sum_dk, *const own_dv = sum_dv;")
            code.line("const float *const key_rows = wide_k;")
        else:
            code.line(
                "float *const " + ", *const ".join(f"own_{n} = {n} + unit * {s}" for n, s in places.items()) + ";"
            )
            code.line("const float *const key_rows = key;")
        for name, wide in (("dk", self.wide_depth), ("dv", self.wide_width)):
            with code.loop("i", b.n * wide):
                code.line(f"own_{name}[i] = 0.0f;")
        first = f"batch * {b.heads} + unit % {b.key_heads} * {b.group}"
        each = f"for (ptrdiff_t q0 = 0; q0 < {b.m}; q0 += {b.queries})"
        with code.loop("head", f"{first} + {b.group}", first), code.block(each):
            self._start_block()
            self._block()
        if self.pads:
            for name, size, wide in (("dk", b.depth, self.wide_depth), ("dv", b.width, self.wide_width)):
                with code.loop("i", b.n):
                    code.line(f"float *const row = {name} + {b.place('unit', b.key_heads, b.n, size, 'i')};")
                    with code.loop("j", size):
                        code.line(f"row[j] = own_{name}[i * {wide} + j];")

    def _block(self) -> None:
        b, code = self.tiling, self.code
        code.line(f"const float *const slope_rows = dy + {b.place('head', b.heads, b.m, b.width, 'q0')};")
        code.line(f"turn_{b.width}(slope_rows, queries, 1.0f, turned_dy);")
        code.line(f"turn_{b.width}(y + {b.place('head', b.heads, b.m, b.width, 'q0')}, queries, 1.0f, turned_y);")
        query, slope, target = "query", "slope_rows", f"dq + {b.place('head', b.heads, b.m, b.depth, 'q0')}"
        if self.pads:
            code.line(f"widen(query, {b.row(b.heads, b.depth)}, queries, {b.depth}, {self.wide_depth}, wide_q);")
            code.line(f"widen(slope_rows, {b.row(b.heads, b.width)}, queries, {b.width}, {self.wide_width}, wide_dy);")
            query, slope, target = "wide_q", "wide_dy", "sum_dq"
        code.line(f"float *const own_dq = {target};")
        with code.loop("i", f"queries * {self.wide_depth}"):
            code.line("own_dq[i] = 0.0f;")
        self._rows()
        with code.block(self._visible):
            self._scores()
            self._weights()
            code.line(f"{self.slope}(keys, {b.width}, value + key0 * {self.value_row}, turned_dy, d, 0);")
            code.line(f"{self.add_width}(keys, queries, s, {slope}, own_dv + key0 * {self.wide_width}, 1);")
            self._slopes()
            code.line(f"add_depth(keys, queries, d, {query}, own_dk + key0 * {self.wide_depth}, 1);")
            code.line(f"weigh(queries, keys, d, key_rows + key0 * {self.wide_depth}, own_dq, 1);")
        if self.pads:
            with code.loop("i", "queries"):
                code.line(f"float *const row = dq + {b.place('head', b.heads, b.m, b.depth, 'q0 + i')};")
                with code.loop("j", b.depth):
                    code.line(f"row[j] = own_dq[i * {self.wide_depth} + j];")

    def _rows(self) -> None:
        b, code = self.tiling, self.code
        code.line(f"float peak[{b.queries}], level[{b.queries}], mean[{b.queries}];")
        with code.loop("i", b.queries):
            code.line(f"const float *const own = levels + 2 * (head * {b.m} + q0 + i);")
            code.line("peak[i] = i < queries ? own[0] : 0.0f;")
            code.line("level[i] = i < queries ? own[1] : 0.0f;")
            code.line("mean[i] = 0.0f;")
        with code.loop("j", b.width), code.loop("i", b.queries, vectorize=True):
            code.line(f"mean[i] += turned_dy[j * {b.queries} + i] * turned_y[j * {b.queries} + i];")

    def _weights(self) -> None:
        b, code = self.tiling, self.code
        with code.loop("j", "keys"), code.loop("i", b.queries, vectorize=True):
            code.line(f"s[j * {b.queries} + i] = pock_exp(s[j * {b.queries} + i] - peak[i] - level[i]);")

    def _slopes(self) -> None:
        """From the gradients of the weights to those of the products."""
        b, code = self.tiling, self.code
        at = f"[j * {b.queries} + i]"
        with code.loop("j", "keys"), code.loop("i", b.queries, vectorize=True):
            bent = f" * (1.0f - bound{at} * bound{at})" if b.softcap else ""
            code.line(f"d{at} = s{at} * (d{at} - mean[i]) * {literal(b.scale, DType.F32)}{bent};")
