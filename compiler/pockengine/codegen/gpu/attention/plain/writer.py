"""What the kernels without matrix units have in common: tiles, scores, sums."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .....ir import Node
from ...source import kernel_body
from ..writer import AttentionWriter
from .tiles import LANES, Tiles


class Writer(AttentionWriter):
    """`r` is the thread's row of the tile, `lane` which of its eight it is."""

    def __init__(self, node: Node, tiles: Tiles) -> None:
        super().__init__(node, tiles.sizes)
        self.side = tiles.side

    @contextmanager
    def body(self, rows: int, **shared: int) -> Iterator[None]:
        """The function; `first` is the tile's first of `rows`, `head` its head. `shared` are the widths of tiles."""
        code = self.code
        count = -(-rows // self.side)
        with kernel_body(code, self.operands):
            for name, width in shared.items():
                code.line(f"SHARED float {name}[{self.side}][{width + 1}];")
            code.line(f"const int r = THREAD / {LANES}, lane = THREAD % {LANES};")
            code.line(f"const ptrdiff_t head = BLOCK / {count}, first = BLOCK % {count} * {self.side};")
            yield

    def load(self, into: str, source: str, head: str, heads: int, size: tuple[int, int], first: str) -> None:
        """A tile of rows from `first`, zeros beyond the last; `size` is the number of rows and their length."""
        code, (rows, length), t = self.code, size, self.sizes
        with code.block(f"for (int e = THREAD; e < {self.side * length}; e += {self.side * LANES})"):
            code.line(f"const int x = e / {length}, at = e % {length};")
            place = t.row(head, heads, rows, length, f"{first} + x")
            code.line(f"{into}[x][at] = {first} + x < {rows} ? {source}[{place} + at] : 0.0f;")

    def dot(self, name: str, left: str, right: str, length: int) -> None:
        """`name` becomes the product of two rows in shared memory."""
        self.code.line(f"float {name} = 0.0f;")
        with self.code.block(f"for (int i = 0; i < {length}; ++i)"):
            self.code.line(f"{name} += {left}[i] * {right}[i];")

    def limited(self, head: str, query: str, key: str) -> None:
        """See `score`; `seen` is -inf where there is no such key, and where it comes later."""
        self.score(head, query, key)
        limit = f"{key} >= {self.sizes.n}" + (f" || {self.is_later(query, key)}" if self.causal else "")
        self.code.line(f"seen = {limit} ? -__builtin_inff() : seen;")

    @contextmanager
    def each_column(self) -> Iterator[None]:
        """For each column `c` of the thread's row of scores, the `j`-th of its own."""
        with self.code.block(f"for (int j = 0; j < {self.side // LANES}; ++j)"):
            self.code.line(f"const int c = lane + j * {LANES};")
            yield

    @contextmanager
    def tiles_of(self, index: str, start: str, end: str) -> Iterator[None]:
        """For the first row of each tile from `start` to `end`; all threads wait before one is overwritten."""
        with self.code.loop(index, end, start, self.side):
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
            with code.block(f"for (int c = 0; c < {self.side}; ++c)"):
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
        place = self.sizes.row("head", heads, rows, length, "(first + r)")
        with self.code.block(f"if (first + r < {rows})"), self.parts(length):
            self.code.line(f"{target}[{place} + at] = {name}[i];")
