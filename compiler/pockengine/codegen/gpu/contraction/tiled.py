"""Products of any type of number: a block computes a tile of the result from tiles of the operands in shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....plan.program import Kernel
from ....targets import Gpu
from ...common.index_maps import Access, Axis, inside
from ..pace import CACHE_BYTES, LATENCY, WARP, Pace
from .streamed import Side, stages_for, steps
from .writer import Writer, guarded, is_run

SIDE = 16
"""A block's threads form a square of this side."""
BLOCK = SIDE * SIDE
DEPTH = 16
"""Products that a tile in shared memory is deep."""


@dataclass(frozen=True)
class Tile:
    """Results that a thread computes: `m` rows, `n` columns, each SIDE apart."""

    m: int
    n: int

    @property
    def name(self) -> str:
        """For people and for stores of choices."""
        return f"{self.rows} x {self.columns}"

    @property
    def rows(self) -> int:
        return self.m * SIDE

    @property
    def columns(self) -> int:
        return self.n * SIDE

    def blocks(self, m: int, n: int) -> int:
        """Tiles over m x n."""
        return -(-m // self.rows) * -(-n // self.columns)

    @property
    def stages(self) -> int:
        """Of tiles of f32 that are copied in the background."""
        return stages_for((self.rows + self.columns) * DEPTH * 4)

    def pace(self, gpu: Gpu, streams: bool, sizes: tuple[float, float], numbers: int = 1) -> Pace:
        """Of a block: the slowest of arithmetic, of reading operands, whose numbers have `sizes` in bytes, and of
        reading the tiles in shared memory, whose words have so many `numbers`."""
        flops = 2 * self.rows * self.columns * DEPTH / gpu.f32_per_cycle
        read = (self.rows * sizes[0] + self.columns * sizes[1]) * DEPTH / CACHE_BYTES
        shared = BLOCK // WARP * DEPTH // numbers * (self.m + self.n)
        return Pace(DEPTH, max(flops, read, shared), LATENCY / (self.stages - 1 if streams else 1), resident=2)


TILES = (Tile(4, 4), Tile(4, 2), Tile(2, 4), Tile(4, 1), Tile(2, 2), Tile(1, 4), Tile(2, 1), Tile(1, 2), Tile(1, 1))
"""The largest first: they read the least for each product."""


def tiled(writer: Writer, tile: Tile, streams: bool) -> Kernel:
    """From tiles of whole numbers. `streams`: operands are copied in the background."""
    code, (_, m, n, _) = writer.code, writer.part.sizes()
    stages = f"[{tile.stages}]" if streams else ""
    with result(writer, tile, f"{writer.type} {{}}_tile{stages}[{DEPTH}]"):
        if streams:
            _streamed(writer, tile)
        else:
            with code.loop("k0", "end", "first", DEPTH):
                _load(writer, "left", writer.part.left, writer.part.m, "m", tile.rows, m)
                _load(writer, "right", writer.part.right, writer.part.n, "n", tile.columns, n)
                code.line("BARRIER;")
                _multiply(writer, tile, "")
                code.line("BARRIER;")
    return writer.kernel("streamed" if streams else "product")


@contextmanager
def result(writer: Writer, tile: Tile, tiles: str) -> Iterator[None]:
    """The function around what adds to the thread's `sums`. Blocks go through the tiles of the result by rows. `tiles`
    declares those of an operand, of the side {}, but for how wide they are."""
    code, (batch, m, n, _) = writer.code, writer.part.sizes()
    across, down = -(-n // tile.columns), -(-m // tile.rows)
    with writer.function(batch * across * down):
        for side, width in (("left", tile.rows), ("right", tile.columns)):
            code.line(f"SHARED {tiles.format(side)}[{width}] __attribute__((aligned(16)));")
        code.line(f"const ptrdiff_t b = block / {across * down};")
        code.line(f"const ptrdiff_t m0 = block / {across} % {down} * {tile.rows};")
        code.line(f"const ptrdiff_t n0 = block % {across} * {tile.columns};")
        code.line(f"const int tx = THREAD % {SIDE}, ty = THREAD / {SIDE};")
        writer.digits("b", writer.part.b)
        code.line(f"{writer.type} sums[{tile.m}][{tile.n}] = {{{{0}}}};")
        yield
        with (
            code.block(f"for (int i = 0; i < {tile.m}; ++i)"),
            code.block(f"for (int j = 0; j < {tile.n}; ++j)"),
        ):
            code.line(f"const ptrdiff_t m = m0 + ty + i * {SIDE}, n = n0 + tx + j * {SIDE};")
            with code.block(f"if (m < {m} && n < {n})"):
                writer.give("sums[i][j]")


def _streamed(writer: Writer, tile: Tile) -> None:
    left, right = Side("left", tile.rows, DEPTH, False), Side("right", tile.columns, DEPTH, False)

    def load() -> None:
        for side in (left, right):
            side.load(writer, BLOCK)

    steps(writer.code, DEPTH, tile.stages, load, lambda: _multiply(writer, tile, "[stage]"))


def _multiply(writer: Writer, tile: Tile, stage: str) -> None:
    """A tile by a tile."""
    code = writer.code
    with code.block(f"for (int kk = 0; kk < {DEPTH}; ++kk)"):
        for i in range(tile.m):
            code.line(f"const {writer.type} l{i} = left_tile{stage}[kk][ty + {i * SIDE}];")
        for j in range(tile.n):
            code.line(f"const {writer.type} r{j} = right_tile{stage}[kk][tx + {j * SIDE}];")
        for i in range(tile.m):
            for j in range(tile.n):
                code.line(f"sums[{i}][{j}] += l{i} * r{j};")


def _load(writer: Writer, side: str, access: Access, axis: Axis, flat: str, width: int, extent: int) -> None:
    """Every thread brings some elements of a tile; neighbours in memory come to neighbouring threads."""
    code, k = writer.code, writer.part.sizes()[3]
    along_k = is_run(access, writer.part.k) and not is_run(access, axis)
    with code.block(f"for (int e = THREAD; e < {DEPTH * width}; e += {BLOCK})"):
        if along_k:
            code.line(f"const int kk = e % {DEPTH}, x = e / {DEPTH};")
        else:
            code.line(f"const int x = e % {width}, kk = e / {width};")
        code.line(f"const ptrdiff_t {flat} = {flat}0 + x, k = k0 + kk;")
        code.line(f"{writer.type} element = 0;")
        with code.block(f"if ({flat} < {extent} && k < {k})"):
            writer.digits(flat, axis)
            writer.digits("k", writer.part.k)
            with guarded(code, inside(access)):
                code.line(f"element = {writer.element(access)};")
        code.line(f"{side}_tile[kk][x] = element;")
