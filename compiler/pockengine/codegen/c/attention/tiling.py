"""The parts of which attention's kernels are made: sizes of blocks, products, transposition of queries, masks.

A block of scores lies as [key][query]. So the softmax over keys is arithmetic on vectors of queries, and every product
reads keys, values, weights and gradients where they are. Only blocks of queries and of the result's gradient are
transposed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

from ....ir import DType, Node, Value
from ....targets import Target
from ...common.attention import place_of, sizes_of
from ...common.c_dialect import c_type, literal
from ...common.indexing import broadcast_strides, dot
from ..contraction import microkernel
from ..contraction.formats import Format, f32
from ..contraction.packers import transposition
from ..emit.source import Code

QUERIES, KEYS = 64, 64
"""Of a block: its scores and operands fit into the first-level cache."""


@dataclass(frozen=True)
class Tiling:
    """Sizes of an attention, of the blocks in which it is computed, and of their register tile.

    batch, heads, key_heads, m, n   queries are [batch, heads, m, depth], keys [batch, key heads, n, depth]
    inside                          they are [batch, m, heads, depth] and [batch, n, key heads, depth] instead
    depth, width                    elements of a query or key, and of a value
    queries, keys                   of a block of scores; `queries` is a multiple of `columns`
    rows, vectors, lanes            the register tile"""

    batch: int
    heads: int
    key_heads: int
    m: int
    n: int
    depth: int
    width: int
    queries: int
    keys: int
    rows: int
    vectors: int
    lanes: int
    scale: float
    softcap: float
    causal: bool
    inside: bool
    format: Format = field(repr=False)

    @classmethod
    def of(cls, node: Node, target: Target) -> Tiling:
        batch, heads, key_heads, m, n, depth, width = sizes_of(node)
        lanes = target.vector_bytes // 4
        vectors = min(4 if target.registers >= 32 else 2, -(-m // lanes))
        columns = vectors * lanes
        queries = columns * max(1, min(QUERIES // columns, -(-m // columns)))
        rows = (target.registers - 1 - vectors) // vectors
        attrs = node.attrs
        return cls(
            batch, heads, key_heads, m, n, depth, width, queries, min(KEYS, n), rows, vectors, lanes,
            float(attrs["scale"]), float(attrs.get("softcap", 0.0)), bool(attrs["causal"]),
            bool(attrs.get("heads_inside")), f32(target),
        )  # fmt: skip

    @property
    def title(self) -> str:
        """All of it in one line, for the reader of a kernel."""
        sizes = ", ".join(f"{one.name}={getattr(self, one.name)}" for one in fields(self) if one.repr)
        return f"Blocks({sizes})"

    def padded(self, size: int) -> int:
        """Rounded up to whole vectors."""
        return -(-size // self.lanes) * self.lanes

    def row(self, heads: int, size: int) -> int:
        """Elements between rows of `size` of the same head."""
        return heads * size if self.inside else size

    def place(self, head: str, heads: int, rows: int, size: int, row: str = "0") -> str:
        """C expression of where a row of a head begins; `head` counts those of all samples."""
        return place_of(head, heads, rows, size, row, inside=self.inside)

    @property
    def group(self) -> int:
        """Heads that share a key head."""
        return self.heads // self.key_heads

    @property
    def query_counts(self) -> set[int]:
        """How many queries a block may have."""
        return {min(self.queries, self.m), self.m % self.queries} - {0}

    @property
    def key_counts(self) -> set[int]:
        return {self.keys, self.n % self.keys} - {0}


@dataclass(frozen=True)
class Product:
    """c [rows, width] += a [rows, depth] * b [depth, width], with these strides in elements; `counts` are the numbers
    of rows it is called with."""

    name: str
    counts: frozenset[int]
    width: int
    a_row: int
    a_k: int
    b_k: int
    c_row: int

    def emit(self, code: Code, tiling: Tiling) -> None:
        """Define `void NAME(ptrdiff_t rows, ptrdiff_t depth, const float *a, const float *b, float *c, int more)`."""
        full, rest = divmod(self.width // tiling.lanes, tiling.vectors)
        panels = ([(tiling.vectors, full)] if full else []) + ([(rest, 1)] if rest else [])
        heights = {tiling.rows for count in self.counts if count >= tiling.rows}
        heights |= {count % tiling.rows for count in self.counts} - {0}
        tiles = {
            (height, vectors): microkernel.Tile(
                height, vectors, tiling.lanes, self.a_row, self.a_k, self.b_k, self.c_row
            )
            for height in sorted(heights, reverse=True)
            for vectors, _ in panels
        }
        for tile in tiles.values():
            code.line(microkernel.define(tile, tiling.format).replace(tile.name, f"{self.name}_{tile.name}"))
            code.line()
        header = f"static void\n{self.name}(ptrdiff_t rows, ptrdiff_t depth, const float *a, const float *b, float *c, "
        with code.block(header + "int more)"), code.block(f"for (ptrdiff_t m = 0; m < rows; m += {tiling.rows})"):
            code.line(f"const ptrdiff_t left = rows - m < {tiling.rows} ? rows - m : {tiling.rows};")
            start = 0
            for vectors, count in panels:
                step = vectors * tiling.lanes
                with code.block(f"for (ptrdiff_t n = {start}; n < {start + count * step}; n += {step})"):
                    for height in sorted(heights, reverse=True):
                        call = f"{self.name}_{tiles[height, vectors].name}(depth, a + m * {self.a_row}, b + n, "
                        code.line(f"if (left == {height})")
                        code.line(f"    {call}c + m * {self.c_row} + n, more);")
                start += count * step
        code.line()


def emit_products(code: Code, tiling: Tiling, products: Iterable[Product]) -> None:
    """Define the vector type and the products."""
    code.line(microkernel.vector_type(tiling.lanes))
    code.line()
    for product in products:
        product.emit(code, tiling)


def emit_turn(code: Code, tiling: Tiling, depths: Iterable[int]) -> None:
    """Define, for each depth, `void turn_DEPTH(const float *from, ptrdiff_t rows, float factor, float *to)`: a head's
    rows of that length become columns of a block, times a factor; columns beyond `rows` become zeros."""
    code.line(transposition(tiling.lanes))
    code.line()
    lanes, queries = tiling.lanes, tiling.queries
    for depth in sorted(set(depths)):
        whole, row = depth // lanes * lanes, tiling.row(tiling.heads, depth)
        header = f"static void\nturn_{depth}(const float *from, ptrdiff_t rows, float factor, float *to)"
        with code.block(header), code.block(f"for (ptrdiff_t q = 0; q < {queries}; q += {lanes})"):
            code.line(f"const ptrdiff_t done = q + {lanes} <= rows ? {whole} : 0;")
            with code.block(f"for (ptrdiff_t d = 0; d < done; d += {lanes})"):
                code.line(f"vec block[{lanes}];")
                with code.loop("i", lanes):
                    code.line(f"block[i] = *(const vec *)(from + (q + i) * {row} + d) * factor;")
                code.line("transpose(block);")
                with code.loop("i", lanes):
                    code.line(f"*(vec *)(to + (d + i) * {queries} + q) = block[i];")
            with code.loop("d", depth, "done"), code.loop("i", lanes):
                code.line(f"to[d * {queries} + q + i] = q + i < rows ? from[(q + i) * {row} + d] * factor : 0.0f;")
        code.line()


def emit_widen(code: Code) -> None:
    """Define `void widen(const float *from, ptrdiff_t row, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step, float
    *to)`: rows that lie `row` apart are put together, padded with zeros to whole vectors."""
    header = "static void\nwiden(const float *from, ptrdiff_t row, ptrdiff_t rows, ptrdiff_t width, ptrdiff_t step,"
    header += "\n    float *to)"
    with code.block(header), code.loop("i", "rows"), code.loop("j", "step"):
        code.line("to[i * step + j] = j < width ? from[i * row + j] : 0.0f;")
    code.line()


def emit_adjust(code: Code, tiling: Tiling, masks: Sequence[tuple[int, Value]]) -> set[str]:
    """Define `void adjust(void *const *arg, ptrdiff_t batch, ptrdiff_t head, ptrdiff_t q0, ptrdiff_t queries, ptrdiff_t
    key0, ptrdiff_t keys, float *s, float *bound)`: softcap, masks and triangle on a block of products; `bound` gets the
    tangents of a softcap. `masks` come with their argument index. Returns the math functions it needs."""
    header = "static void\nadjust(void *const *arg, ptrdiff_t batch, ptrdiff_t head, ptrdiff_t q0, ptrdiff_t queries,"
    header += "\n    ptrdiff_t key0, ptrdiff_t keys, float *s, float *bound)"
    with code.block(header):
        if tiling.softcap:
            cap, inverse = (literal(x, DType.F32) for x in (tiling.softcap, 1.0 / tiling.softcap))
            with code.loop("i", f"keys * {tiling.queries}", vectorize=True):
                code.line(f"bound[i] = pock_tanh(s[i] * {inverse});")
                code.line(f"s[i] = {cap} * bound[i];")
        for index, mask in masks:
            _emit_mask(code, tiling, index, mask)
        if tiling.causal:
            ahead = tiling.n - tiling.m
            with (
                code.block(f"if (key0 + keys - 1 > q0 + {ahead})"),
                code.loop("key", "keys"),
                code.loop("q", tiling.queries, vectorize=True),
            ):
                hidden = f"key0 + key > q0 + q + {ahead}"
                code.line(
                    f"s[key * {tiling.queries} + q] = {hidden} ? -__builtin_inff() : s[key * {tiling.queries} + q];"
                )
    code.line()
    return {"tanh"} if tiling.softcap else set()


def _emit_mask(code: Code, tiling: Tiling, index: int, mask: Value) -> None:
    *outer, query, key = broadcast_strides(mask.type.shape, (tiling.batch, tiling.heads, tiling.m, tiling.n))
    start = dot(["batch", "head", "q0", "key0"], [*outer, query, key])
    type = c_type(mask.type.dtype)
    with code.block(""):
        code.line(f"const {type} *const mask = (const {type} *)arg[{index}] + {start};")
        with code.loop("key", "keys"):
            code.line(f"float *const row = s + key * {tiling.queries};")
            with code.loop("q", "queries", vectorize=True):
                seen = f"mask[{dot(['key', 'q'], [key, query])}]"
                hides = mask.type.dtype is DType.BOOL
                code.line(f"row[q] = {seen} ? row[q] : -__builtin_inff();" if hides else f"row[q] += {seen};")
