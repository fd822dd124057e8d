"""Products of any type of number: a block computes a tile of the result from tiles of the operands in shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ....plan.program import Kernel
from ....targets import Gpu
from ...common.index_maps import inside
from ..pace import CACHE_BYTES, LATENCY, WARP, Pace
from .streamed import Side, goes_along_k, stages_for, steps
from .texels import Reading, readings
from .writer import Writer, guarded

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

    @property
    def widths(self) -> dict[str, int]:
        """Rows or columns of the tiles of the left and the right operand."""
        return {"left": self.rows, "right": self.columns}

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


def tiled(writer: Writer, tile: Tile, streams: bool, by_texels: bool = False) -> Kernel:
    """From tiles of whole numbers. `streams`: operands are copied in the background; `by_texels`: those that can be are
    read so."""
    code, read = writer.code, readings(writer) if by_texels else []
    stages, loads = f"[{tile.stages}]" if streams else "", {one.name: one.load for one in read}
    with result(writer, tile, f"{writer.type} {{}}_tile{stages}[{DEPTH}]", read):
        if streams:
            _streamed(writer, tile)
        else:
            with code.loop("k0", "end", "first", DEPTH):
                for side, width in tile.widths.items():
                    if side in loads:
                        loads[side](writer, width, DEPTH, 1, BLOCK)
                    else:
                        _load(writer, side, width)
                code.line("BARRIER;")
                _multiply(writer, tile, "")
                code.line("BARRIER;")
    return writer.kernel("streamed" if streams else "product", maps=[one.map for one in read])


@contextmanager
def result(writer: Writer, tile: Tile, tiles: str, read: Sequence[Reading]) -> Iterator[None]:
    """The function around what adds to the thread's `sums`. Blocks go through the tiles of the result by rows. `tiles`
    declares those of an operand, of the side {}, but for how wide they are. Some are `read` by texels."""
    code, (batch, m, n, _) = writer.code, writer.part.sizes()
    across, down = -(-n // tile.columns), -(-m // tile.rows)
    with writer.function(batch * across * down, [one.parameter for one in read]):
        for one in read:
            code.line(f"/* {one.parameter}: {one.map} */")
        for side, width in tile.widths.items():
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


def _load(writer: Writer, side: str, width: int) -> None:
    """Every thread brings some elements of a tile; neighbours in memory come to neighbouring threads."""
    code, k = writer.code, writer.part.sizes()[3]
    access, axis, flat, extent = writer.side(side)
    along_k = goes_along_k(writer, access, axis)
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
