"""Products on the matrix units of NVIDIA's Hopper GPUs, which read both operands from shared memory by themselves.

A block goes on while they multiply (hopper/units.py): it begins to copy later tiles. Both operands lie in memory as
they are multiplied (rings.py), and 16 bytes of them side by side. Tiles are 64 terms deep, of 8-bit floats 128."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ....plan.program import Kernel
from ....targets import Gpu
from ..hopper.units import ACROSS, GROUP, GROUP_ROWS, LINE, LINES, PIECE, TERMS_BYTES
from ..pace import CACHE_BYTES, LATENCY, Pace
from .matrix import Shape, begin, results
from .rings import SIDES
from .straight import E4M3, along_k, is_multiplied_as_stored, numbers_of
from .streamed import Side
from .writer import Writer

SHARED_CYCLE = 128
"""Bytes that a multiprocessor reads of its shared memory in a cycle."""


@dataclass(frozen=True)
class GroupShape(Shape):
    """A block's part of the result, of warps one above the other: each four have 64 rows.

    stages_kept  of tiles: two more than are on their way"""

    stages_kept: int = 4

    @property
    def name(self) -> str:
        """For people and for stores of choices."""
        return f"{self.rows} x {self.columns} by {self.threads // GROUP} warpgroups"

    @property
    def nbytes(self) -> int:
        """Of shared memory."""
        return self.stages_kept * (self.rows + self.columns) * LINE + LINE * LINES

    @property
    def read_bytes(self) -> int:
        """Of a step: tiles from the GPU's cache."""
        return (self.rows + self.columns) * LINE

    def group_pace(self, compute: str, gpu: Gpu) -> Pace:
        """Of a block: the slowest of arithmetic, of reading operands, and of reading the tiles in shared memory."""
        deep = deep_of(compute)
        flops = 2 * self.rows * self.columns * deep / (gpu.matrix_flops_per_cycle(compute) / gpu.multiprocessors)
        read = self.read_bytes / CACHE_BYTES
        shared = (self.rows + self.threads // GROUP * self.columns) * LINE / SHARED_CYCLE
        resident = max(1, gpu.block_shared_bytes // self.nbytes)
        return Pace(deep, max(flops, read, shared), LATENCY / (self.stages_kept - 2), resident)


SHAPES = GroupShape(8, 1, 1, 32), GroupShape(8, 1, 1, 16, 3), GroupShape(4, 1, 1, 16), GroupShape(4, 1, 1, 8)
"""128 x 256 results, 128 x 128, 64 x 128, 64 x 64."""


@dataclass(frozen=True)
class Lined(Side):
    """Tiles in lines."""

    @property
    def place(self) -> str:
        """See Side: bytes of a tile."""
        if self.by_k:
            return f"[x * {LINE} + (kk / {PIECE // self.itemsize} ^ x % {LINES}) * {PIECE}]"
        return f"[x / {ACROSS} * {self.deep * LINE} + kk * {LINE} + (x % {ACROSS} / 8 ^ kk % {LINES}) * {PIECE}]"


def deep_of(compute: str) -> int:
    """Numbers along k of a tile: a line of them."""
    return LINE * numbers_of(compute) // 4


def shapes(writer: Writer, compute: str, gpu: Gpu) -> Iterable[GroupShape]:
    """What a block may make; nothing where a GPU has no such units, or an operand cannot be copied in pieces of 16
    bytes."""
    suits = gpu.has_warpgroup_units and compute in ("bf16", "f16", E4M3)
    both = all(is_multiplied_as_stored(writer, name, compute) and _copies(writer, name, compute) for name in SIDES)
    return SHAPES if suits and both else ()


def _copies(writer: Writer, name: str, compute: str) -> bool:
    side = _side(writer, name, GROUP, compute)
    return side.vector(writer) * side.itemsize == PIECE


def _side(writer: Writer, name: str, width: int, compute: str) -> Lined:
    return Lined(name, width, deep_of(compute), along_k(writer, name), itemsize=4 // numbers_of(compute))


def tiled(writer: Writer, shape: GroupShape, compute: str) -> Kernel:
    """While tiles are multiplied, the next ones are copied."""
    code, stages, sides = writer.code, shape.stages_kept, sides_of(writer, shape, compute)
    deep = deep_of(compute)
    with begin(writer, shape):
        declare(writer, sides, stages)
        code.line(f"float sums[1][{shape.n}][4] = {{{{{{0}}}}}};")
        with code.loop("ahead", stages - 2):
            code.line(f"const ptrdiff_t k0 = first + ahead * {deep};")
            code.line("const int into = (int)ahead;")
            _load(writer, sides, shape)
        code.line("int stage = 0;")
        with code.loop("step", "end", "first", deep):
            code.line(f"COPIES_WAIT({stages - 3});")
            code.line("COPIES_SEEN;")
            code.line("BARRIER;")
            multiply(writer, sides, shape, compute)
            code.line(f"const ptrdiff_t k0 = step + {(stages - 2) * deep};")
            code.line(f"const int into = (stage + {stages - 2}) % {stages};")
            _load(writer, sides, shape)
            code.line("WGMMA_WAIT(1);")
            code.line(f"stage = (stage + 1) % {stages};")
        code.line("WGMMA_WAIT(0);")
        results(writer, shape)
    return writer.kernel(f"{compute}_groups", shape.nbytes)


def sides_of(writer: Writer, shape: Shape, compute: str) -> list[Lined]:
    """The tiles of both operands."""
    return [_side(writer, name, shape.widths[name], compute) for name in SIDES]


def declare(writer: Writer, sides: Iterable[Side], stages: int) -> int:
    """The tiles as arrays, and how many bytes they take."""
    first = 0
    for side in sides:
        nbytes = side.width * LINE
        writer.code.line(f"char (*const {side.name}_tile)[{nbytes}] = (char (*)[{nbytes}])(POOL_LINES + {first});")
        first += stages * nbytes
    return first


def _load(writer: Writer, sides: Iterable[Side], shape: Shape) -> None:
    """Begin the copies of the terms from `k0` on to the tiles `into`, if there are any."""
    with writer.code.block("if (k0 < end)"):
        for side in sides:
            side.load(writer, shape.threads)
    writer.code.line("COPIES_BEGUN;")


def multiply(writer: Writer, sides: Iterable[Lined], shape: Shape, compute: str) -> None:
    """Begin to multiply the tiles `stage`."""
    code, across = writer.code, [int(not side.by_k) for side in sides]
    code.line("WGMMA_BEGIN;")
    code.line("#pragma unroll")
    with code.block(f"for (int kk = 0; kk < {LINE // TERMS_BYTES}; ++kk)"):
        for side in sides:
            row = f" + THREAD / {GROUP} * {GROUP_ROWS * LINE}" if side.name == SIDES[0] else ""
            on = TERMS_BYTES if side.by_k else TERMS_BYTES // side.itemsize * LINE
            first = f"{side.name}_tile[stage]{row} + kk * {on}"
            further = PIECE if side.by_k else side.deep * LINE
            code.line(f"const uint64_t {side.name} = TILE({first}, {further}, {LINE * LINES});")
        word = f"WGMMA_{compute.upper()}_{shape.columns}"
        code.line(f"{word}(&sums[0][0][0], left, right, {across[0]}, {across[1]});")
    code.line("WGMMA_BEGUN;")
