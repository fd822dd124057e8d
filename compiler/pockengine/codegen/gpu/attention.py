"""Kernels of attention and its gradient, after T. Dao, "FlashAttention-2" (2023), algorithms 1 and 2, in f32.

A block of threads has a tile of queries (of keys, for their gradients) and goes through those of the others. Eight
neighbours share a row of the tile: each has every eighth score of it, and every eighth element of its result. The
gradient makes scores again from the levels that the forward kernel saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...ir import DType, Node, TensorType
from ...ops.attention import HEADS
from ...plan.program import Call, Grid, Kernel, Lowered
from ..common.attention import LEAST, OPS, masks_of, pays
from ..common.attention import unsupported as unsupported_anywhere
from ..common.c_dialect import literal
from ..common.indexing import broadcast_strides
from ..common.mathlib import functions
from ..common.region import bytes_of, flops_of
from .source import Code, kernel, kernel_body, operands_of

__all__ = ["OPS", "claims", "lower", "unsupported"]

LANES = 8
"""Threads of a row."""
SIDES = (32, 16, 8)
"""Rows and columns of a tile of scores, the largest first."""
SHARED_BYTES = 32 << 10
"""That every GPU gives a block: the least of OpenCL's full profile (OpenCL 1.2 specification, table 4.3)."""


def unsupported(node: Node) -> str | None:
    """Why this node has no kernel, or None."""
    reason = unsupported_anywhere(node, "a GPU")
    if reason is None and Tiles.of(node) is None:
        return f"a GPU has no {node.op} of heads as wide as {node.inputs[0].type}"
    return reason


def claims(node: Node) -> bool:
    """Whether it is lowered whole."""
    return node.op in OPS and pays(node) and unsupported(node) is None


def lower(node: Node) -> Lowered:
    """The kernels of one node."""
    tiles = Tiles.of(node)
    assert tiles is not None, "it was refused"
    if node.op == "attention":
        return Lowered((_call(node, tiles, _Forward(node, tiles).kernel(), tiles.m, tiles.heads, 1.0),))
    queries, keys = _QueryGradient(node, tiles), _KeyGradients(node, tiles)
    return Lowered(
        (
            _call(node, tiles, queries.kernel(), tiles.m, tiles.heads, 0.4),
            _call(node, tiles, keys.kernel(), tiles.n, tiles.key_heads, 0.6),
        )
    )


def _call(node: Node, tiles: Tiles, made: Kernel, rows: int, heads: int, share: float) -> Call:
    """With all operands of the node, a block for each tile of `rows` of each head."""
    grid = Grid(tiles.batch * heads * -(-rows // tiles.side), tiles.side * LANES)
    operands = (*node.inputs, *node.outputs)
    return Call(made, operands, False, grid, int(flops_of(node) * share), int(bytes_of(node) * share))


@dataclass(frozen=True)
class Tiles:
    """Sizes of an attention, and the side of its tiles of scores.

    batch, heads, key_heads, m, n   queries are [batch, heads, m, depth], keys [batch, key heads, n, depth]
    inside                          they are [batch, m, heads, depth] and [batch, n, key heads, depth] instead
    depth, width                    elements of a query or key, and of a value"""

    batch: int
    heads: int
    key_heads: int
    m: int
    n: int
    depth: int
    width: int
    inside: bool
    side: int

    @classmethod
    def of(cls, node: Node) -> Tiles | None:
        """None where not even the smallest tiles fit a block's memory."""
        inside = bool(node.attrs.get("heads_inside"))
        q, k, v = (_outside(value.type, inside) for value in node.inputs[:3])
        depth, width = q[3], v[3]
        kept = depth + max(depth, width) if node.op == "attention" else 2 * (depth + width)
        for side in SIDES:
            floats = side * (kept + 4) + 2 * side * (side + 1) + 3 * side
            if 4 * floats <= SHARED_BYTES:
                return cls(q[0], q[1], k[1], q[2], k[2], depth, width, inside, side)
        return None

    @property
    def group(self) -> int:
        """Heads that share a key head."""
        return self.heads // self.key_heads

    def row(self, head: str, heads: int, rows: int, size: int, row: str) -> str:
        """Expression of where a row of a head begins; `head` counts those of all samples."""
        if self.inside:
            return f"(({head}) / {heads} * {rows} + {row}) * {heads * size} + ({head}) % {heads} * {size}"
        return f"(({head}) * {rows} + {row}) * {size}"


def _outside(type: TensorType, inside: bool) -> tuple[int, ...]:
    return tuple(type.shape[axis] for axis in HEADS) if inside else type.shape


class _Writer:
    """What the three kernels have in common. `r` is the thread's row of the tile, `lane` which of its eight it is."""

    def __init__(self, node: Node, tiles: Tiles) -> None:
        self.node, self.tiles = node, tiles
        self.code, self.operands = Code(), operands_of(node)
        attrs = node.attrs
        self.scale, self.causal = float(attrs["scale"]), bool(attrs["causal"])
        self.softcap = float(attrs.get("softcap", 0.0))

    def finish(self, stem: str) -> Kernel:
        """The kernel whose text was written."""
        shown = ", ".join(f"{name}={value}" for name, value in vars(self.tiles).items())
        return kernel(stem, f"{self.node.op}: {shown}", self.code.text(), functions({"exp", "log", "tanh"}))

    @contextmanager
    def body(self, rows: int, **shared: int) -> Iterator[None]:
        """The function; `first` is the tile's first of `rows`, `head` its head. `shared` are the widths of tiles."""
        code, t = self.code, self.tiles
        count = -(-rows // t.side)
        with kernel_body(code, self.operands):
            for name, width in shared.items():
                code.line(f"SHARED float {name}[{t.side}][{width + 1}];")
            code.line(f"const int r = THREAD / {LANES}, lane = THREAD % {LANES};")
            code.line(f"const ptrdiff_t head = BLOCK / {count}, first = BLOCK % {count} * {t.side};")
            yield

    def load(self, into: str, source: str, head: str, heads: int, size: tuple[int, int], first: str) -> None:
        """A tile of rows from `first`, zeros beyond the last; `size` is the number of rows and their length."""
        code, (rows, length), t = self.code, size, self.tiles
        with code.block(f"for (int e = THREAD; e < {t.side * length}; e += {t.side * LANES})"):
            code.line(f"const int x = e / {length}, at = e % {length};")
            place = t.row(head, heads, rows, length, f"{first} + x")
            code.line(f"{into}[x][at] = {first} + x < {rows} ? {source}[{place} + at] : 0.0f;")

    def dot(self, name: str, left: str, right: str, length: int) -> None:
        """`name` becomes the product of two rows in shared memory."""
        self.code.line(f"float {name} = 0.0f;")
        with self.code.block(f"for (int i = 0; i < {length}; ++i)"):
            self.code.line(f"{name} += {left}[i] * {right}[i];")

    def score(self, head: str, query: str, key: str) -> None:
        """From the product `s` of a query and a key to `bounded`, the score before masks, and `seen`, after them; -inf
        where there is no such key."""
        code, t = self.code, self.tiles
        code.line(f"const float scaled = s * {literal(self.scale, DType.F32)};")
        cap = literal(self.softcap, DType.F32)
        code.line(f"const float bounded = {f'{cap} * pock_tanh(scaled / {cap})' if self.softcap else 'scaled'};")
        code.line("float seen = bounded;")
        scores = (t.batch, t.heads, t.m, t.n)
        for mask in masks_of(self.node):
            name = self.operands[self.node.inputs.index(mask)][0]
            steps = broadcast_strides(mask.type.shape, scores)
            digits = (f"({head}) / {t.heads}", f"({head}) % {t.heads}", query, key)
            terms = [f"({digit}) * {step}" for digit, step in zip(digits, steps, strict=True) if step]
            hidden = f"{query} < {t.m} && {key} < {t.n}"
            with code.block(f"if ({hidden})"):
                place = f"{name}[{' + '.join(terms) or '0'}]"
                if mask.type.dtype is DType.BOOL:
                    code.line(f"seen = {place} ? seen : -__builtin_inff();")
                else:
                    code.line(f"seen += {place};")
        limit = f"{key} >= {t.n}" + (f" || {key} > {query} + {t.n - t.m}" if self.causal else "")
        code.line(f"seen = {limit} ? -__builtin_inff() : seen;")

    @contextmanager
    def each_column(self) -> Iterator[None]:
        """For each column `c` of the thread's row of scores, the `j`-th of its own."""
        with self.code.block(f"for (int j = 0; j < {self.tiles.side // LANES}; ++j)"):
            self.code.line(f"const int c = lane + j * {LANES};")
            yield

    @contextmanager
    def tiles_of(self, index: str, start: str, end: str) -> Iterator[None]:
        """For the first row of each tile from `start` to `end`; all threads wait before one is overwritten."""
        with self.code.loop(index, end, start, self.tiles.side):
            self.code.line("BARRIER;")
            yield

    def sums(self, name: str, length: int) -> None:
        """Declare the thread's part of a row of results."""
        self.code.line(f"float {name}[{-(-length // LANES)}] = {{0}};")

    def add(self, name: str, length: int, weights: str, rows: str, factor: str = "") -> None:
        """Add the row `r` of `weights` times the tile `rows` to the thread's part."""
        code = self.code
        with self.parts(length):
            code.line(f"float sum = {name}[i]{f' * {factor}' if factor else ''};")
            with code.block(f"for (int c = 0; c < {self.tiles.side}; ++c)"):
                code.line(f"sum += {weights}[r][c] * {rows}[c][at];")
            code.line(f"{name}[i] = sum;")

    @contextmanager
    def parts(self, length: int) -> Iterator[None]:
        """For each element `at` of the thread's part of a row, the `i`-th of its own."""
        with self.code.block(f"for (int i = 0; i < {-(-length // LANES)}; ++i)"):
            self.code.line(f"const int at = lane + i * {LANES};")
            with self.code.block(f"if (at < {length})"):
                yield

    def store(self, output: int, name: str, heads: int, size: tuple[int, int]) -> None:
        """Write the thread's part of row `first + r`."""
        rows, length = size
        target = self.operands[len(self.node.inputs) + output][0]
        place = self.tiles.row("head", heads, rows, length, "(first + r)")
        with self.code.block(f"if (first + r < {rows})"), self.parts(length):
            self.code.line(f"{target}[{place} + at] = {name}[i];")

    def key_head(self) -> None:
        """Declare which key head serves the head."""
        t = self.tiles
        self.code.line(f"const ptrdiff_t key_head = head / {t.heads} * {t.key_heads} + head % {t.heads} / {t.group};")

    def last_key(self) -> str:
        """Expression of the number of keys that the tile's queries may see."""
        t = self.tiles
        if not self.causal:
            return str(t.n)
        seen = f"first + {t.side + t.n - t.m}"
        return f"({seen} < {t.n} ? {seen} : {t.n})"


class _Forward(_Writer):
    def kernel(self) -> Kernel:
        """A tile of queries against all keys, with a softmax that is corrected as larger scores appear."""
        code, t = self.code, self.tiles
        with self.body(t.m, queries=t.depth, others=max(t.depth, t.width), weights=t.side):
            self.key_head()
            self.load("queries", "in0", "head", t.heads, (t.m, t.depth), "first")
            self.sums("sums", t.width)
            code.line(f"float top = {LEAST}, total = 0.0f;")
            with self.tiles_of("key0", "0", self.last_key()):
                self.load("others", "in1", "key_head", t.key_heads, (t.n, t.depth), "key0")
                code.line("BARRIER;")
                with self.each_column():
                    self.dot("s", "queries[r]", "others[c]", t.depth)
                    self.score("head", "(first + r)", "(key0 + c)")
                    code.line("weights[r][c] = seen;")
                code.line("BARRIER;")
                code.line("float peak = top;")
                with code.block(f"for (int c = 0; c < {t.side}; ++c)"):
                    code.line("peak = weights[r][c] > peak ? weights[r][c] : peak;")
                code.line("BARRIER;")
                with self.each_column():
                    code.line("weights[r][c] = pock_exp(weights[r][c] - peak);")
                self.load("others", "in2", "key_head", t.key_heads, (t.n, t.width), "key0")
                code.line("BARRIER;")
                code.line("const float factor = pock_exp(top - peak);")
                code.line("total *= factor;")
                with code.block(f"for (int c = 0; c < {t.side}; ++c)"):
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


class _Gradient(_Writer):
    """Inputs are q, k, v, the result, its levels, the result's gradient, and masks."""

    def slope(self, head: str, query: str, key: str, dots: tuple[str, ...], row: tuple[str, ...]) -> None:
        """`weight` of a query and a key, and `ds`, the slope of their product. `dots` are the query, the key, the
        result's gradient and the value in shared memory; `row` the query's levels and its sum of result times
        gradient."""
        code, t = self.code, self.tiles
        top, log, delta = row
        self.dot("s", dots[0], dots[1], t.depth)
        self.score(head, query, key)
        self.dot("dp", dots[2], dots[3], t.width)
        code.line(f"const float weight = pock_exp((seen - {top}) - {log});")
        code.line(f"float ds = weight * (dp - {delta}) * {literal(self.scale, DType.F32)};")
        if self.softcap:
            cap = literal(self.softcap, DType.F32)
            code.line(f"ds *= 1.0f - bounded / {cap} * (bounded / {cap});")

    def row(self, head: str, query: str, inside: str) -> None:
        """Declare a query's `top`, `log` and `delta`; of one that there is not, such that its weights are zero."""
        code, t = self.code, self.tiles
        code.line(f"float top = {LEAST}, log = 0.0f, delta = 0.0f;")
        with code.block(f"if ({inside})"):
            code.line(f"top = in4[(({head}) * {t.m} + {query}) * 2];")
            code.line(f"log = in4[(({head}) * {t.m} + {query}) * 2 + 1];")
            place = t.row(head, t.heads, t.m, t.width, query)
            code.line(f"const ptrdiff_t place = {place};")
            with code.block(f"for (int i = 0; i < {t.width}; ++i)"):
                code.line("delta += in3[place + i] * in5[place + i];")


class _QueryGradient(_Gradient):
    def kernel(self) -> Kernel:
        """A tile of queries against all keys."""
        code, t = self.code, self.tiles
        tiles = {"queries": t.depth, "slopes": t.width, "keys": t.depth, "values": t.width, "products": t.side}
        with self.body(t.m, **tiles):
            self.key_head()
            self.load("queries", "in0", "head", t.heads, (t.m, t.depth), "first")
            self.load("slopes", "in5", "head", t.heads, (t.m, t.width), "first")
            self.row("head", "(first + r)", f"first + r < {t.m}")
            self.sums("sums", t.depth)
            with self.tiles_of("key0", "0", self.last_key()):
                self.load("keys", "in1", "key_head", t.key_heads, (t.n, t.depth), "key0")
                self.load("values", "in2", "key_head", t.key_heads, (t.n, t.width), "key0")
                code.line("BARRIER;")
                with self.each_column():
                    dots = ("queries[r]", "keys[c]", "slopes[r]", "values[c]")
                    self.slope("head", "(first + r)", "(key0 + c)", dots, ("top", "log", "delta"))
                    code.line("products[r][c] = ds;")
                code.line("BARRIER;")
                self.add("sums", t.depth, "products", "keys")
            self.store(0, "sums", t.heads, (t.m, t.depth))
        return self.finish("attention_dq")


class _KeyGradients(_Gradient):
    def kernel(self) -> Kernel:
        """A tile of keys against all queries to them, of each head that they serve."""
        code, t = self.code, self.tiles
        tiles = {"keys": t.depth, "values": t.width, "queries": t.depth, "slopes": t.width}
        with self.body(t.n, **tiles, weights=t.side, products=t.side, levels=2):
            self.load("keys", "in1", "head", t.key_heads, (t.n, t.depth), "first")
            self.load("values", "in2", "head", t.key_heads, (t.n, t.width), "first")
            self.sums("dk", t.depth)
            self.sums("dv", t.width)
            with code.block(f"for (int member = 0; member < {t.group}; ++member)"):
                code.line(
                    f"const ptrdiff_t query_head = head / {t.key_heads} * {t.heads} + "
                    f"head % {t.key_heads} * {t.group} + member;"
                )
                with self.tiles_of("query0", self._first_query(), str(t.m)):
                    self.load("queries", "in0", "query_head", t.heads, (t.m, t.depth), "query0")
                    self.load("slopes", "in5", "query_head", t.heads, (t.m, t.width), "query0")
                    with code.block(f"if (THREAD < {t.side})"):
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

    def _first_query(self) -> str:
        """Expression of the first query that may see the tile's keys, rounded down to a tile."""
        t = self.tiles
        if not self.causal:
            return "0"
        seeing = f"first - {t.n - t.m}"
        return f"({seeing} > 0 ? ({seeing}) / {t.side} * {t.side} : 0)"
