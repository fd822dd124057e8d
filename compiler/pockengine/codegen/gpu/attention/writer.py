"""What the kernels of attention have in common: tiles, scores, sums."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....ir import DType, Node
from ....plan.program import Kernel
from ...common.attention import masks_of
from ...common.c_dialect import literal
from ...common.indexing import broadcast_strides
from ...common.mathlib import functions
from ..source import Code, kernel, kernel_body, operands_of
from .tiles import LANES, Tiles
from .units import Units


class Writer:
    """What the three kernels have in common. `r` is the thread's row of the tile, `lane` which of its eight it is."""

    def __init__(self, node: Node, tiles: Tiles) -> None:
        self.node, self.tiles = node, tiles
        self.code, self.operands = Code(), operands_of(node)
        self.units = Units(self.code, tiles) if tiles.format != "f32" else None
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
            if self.units:
                self.units.declare()
            code.line(f"const ptrdiff_t head = BLOCK / {count}, first = BLOCK % {count} * {t.side};")
            yield

    def load(self, into: str, source: str, head: str, heads: int, size: tuple[int, int], first: str) -> None:
        """A tile of rows from `first`, zeros beyond the last; `size` is the number of rows and their length."""
        code, (rows, length), t = self.code, size, self.tiles
        with code.block(f"for (int e = THREAD; e < {t.side * length}; e += {t.side * LANES})"):
            code.line(f"const int x = e / {length}, at = e % {length};")
            place = t.row(head, heads, rows, length, f"{first} + x")
            code.line(f"{into}[x][at] = {first} + x < {rows} ? {source}[{place} + at] : 0.0f;")

    def products(self, into: str, left: str, right: str, length: int) -> None:
        """On matrix units, the tile `into` becomes the products of the rows of one tile with those of another."""
        if self.units:
            found = self.units.product(
                self.tiles.side, length, lambda x, k: f"{left}[{x}][{k}]", lambda x, k: f"{right}[{x}][{k}]"
            )
            found.store(into)
            self.code.line("BARRIER;")

    def dot(self, name: str, into: str, left: str, right: str, length: int) -> None:
        """`name` becomes the product of two rows in shared memory; on matrix units it is `into` a tile already."""
        if self.units:
            self.code.line(f"const float {name} = {into}[r][c];")
            return
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
        """Add the row `r` of `weights` times the tile `rows` to the thread's part. On matrix units the products lie in
        that tile after this."""
        code, before = self.code, f"{name}[i]{f' * {factor}' if factor else ''}"
        if self.units:
            found = self.units.product(
                length, self.tiles.side, lambda x, k: f"{weights}[{x}][{k}]", lambda x, k: f"{rows}[{k}][{x}]"
            )
            code.line("BARRIER;")
            found.store(rows)
            code.line("BARRIER;")
            with self.parts(length):
                code.line(f"{name}[i] = {before} + {rows}[r][at];")
            return
        with self.parts(length):
            code.line(f"float sum = {before};")
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
