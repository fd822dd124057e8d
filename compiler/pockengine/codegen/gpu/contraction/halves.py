"""Products of f16 numbers on a GPU's usual units, for devices without matrix units, or whose language has none.

A tile in shared memory is of words of two neighbours along k. Threads widen them: a product of two f16 numbers is exact
in f32, and sums are f32 from the first term on. Arithmetic in f16 is not used: sums of 8 terms in it have nearly twice
the error of rounding the operands, and of numbers as small as gradients are ten times that, as products of two f16
numbers below 2^-14 lose their bits (docs/reference/gpu.md)."""

from __future__ import annotations

from ....plan.program import Kernel
from ....targets import Gpu
from ..pace import Pace
from .straight import numbers_of, word
from .streamed import goes_along_k
from .texels import readings
from .tiled import BLOCK, DEPTH, SIDE, Tile, result
from .writer import Writer

COMPUTE = "f16"
NUMBERS = numbers_of(COMPUTE)
WORDS = DEPTH // NUMBERS
"""Along k of a tile."""


def pace(tile: Tile, gpu: Gpu, sizes: tuple[float, float]) -> Pace:
    """Of a block; see Tile.pace."""
    return tile.pace(gpu, False, sizes, NUMBERS)


def tiled(writer: Writer, tile: Tile, by_texels: bool) -> Kernel:
    """A block computes a tile of the result. `by_texels`: operands that can be are read so."""
    code, read = writer.code, readings(writer) if by_texels else []
    loads = {one.name: one.load for one in read}
    with (
        result(writer, tile, f"uint32_t {{}}_tile[{WORDS}]", read),
        code.loop("k0", "end", "first", DEPTH),
    ):
        for side, width in tile.widths.items():
            if side in loads:
                loads[side](writer, width, DEPTH, NUMBERS, BLOCK)
            else:
                _load(writer, side, width)
        code.line("BARRIER;")
        _multiply(writer, tile)
        code.line("BARRIER;")
    return writer.kernel(COMPUTE, maps=[one.map for one in read])


def _load(writer: Writer, side: str, width: int) -> None:
    """Every thread brings some words; neighbours in memory come to neighbouring threads."""
    code, (access, axis, _, _) = writer.code, writer.side(side)
    with code.block(f"for (int e = THREAD; e < {WORDS * width}; e += {BLOCK})"):
        if goes_along_k(writer, access, axis):
            code.line(f"const int kk = e % {WORDS}, x = e / {WORDS};")
        else:
            code.line(f"const int x = e % {width}, kk = e / {width};")
        code.line(f"{side}_tile[kk][x] = {word(writer, side, COMPUTE)};")


def _multiply(writer: Writer, tile: Tile) -> None:
    """A tile by a tile."""
    code = writer.code
    with code.block(f"for (int kk = 0; kk < {WORDS}; ++kk)"):
        for i in range(tile.m):
            _widen(writer, f"l{i}", f"left_tile[kk][ty + {i * SIDE}]")
        for j in range(tile.n):
            _widen(writer, f"r{j}", f"right_tile[kk][tx + {j * SIDE}]")
        for half in ("low", "high"):
            for i in range(tile.m):
                for j in range(tile.n):
                    code.line(f"sums[{i}][{j}] += l{i}_{half} * r{j}_{half};")


def _widen(writer: Writer, name: str, place: str) -> None:
    """Declare both numbers of a word."""
    code = writer.code
    code.line(f"const uint32_t {name} = {place};")
    code.line(f"const float {name}_low = WIDEN_F16((uint16_t){name});")
    code.line(f"const float {name}_high = WIDEN_F16((uint16_t)({name} >> 16));")
