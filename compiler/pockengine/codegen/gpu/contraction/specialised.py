"""Products on the matrix units of NVIDIA's Hopper GPUs, whose tiles are copied by an engine of the GPU's (TMA).

One warpgroup of a block copies, the others multiply (hopper/engine.py). A block makes one tile of the result after the
other: while the results of one are written, those of the operands for the next are on their way. Two blocks that run
together ("cluster") may make tiles one below the other: each copies half of the right operand's tile to both, so that
less comes from the GPU's cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from ....plan.program import Grid, Kernel, TensorMap
from ....targets import Gpu
from ...common.indexing import collapse, digits
from ..hopper.engine import COPYING, MOST_RANK, MULTIPLYING, next_stage
from ..hopper.units import ACROSS, GROUP, LINE, PIECE
from ..pace import LATENCY, Cut, Pace
from ..source import kernel_body
from .groups import GroupShape, Lined, declare, multiply, sides_of
from .groups import shapes as copied_by_threads
from .matrix import Shape, place, results, tiles
from .rings import SIDES
from .sums import sums
from .writer import Writer


@dataclass(frozen=True)
class RoleShape(GroupShape):
    """A block's part of the result: `threads` are those that multiply.

    stages_kept  of tiles: one more than are on their way
    in_pairs     two blocks share tiles of the right operand"""

    in_pairs: bool = False

    @property
    def name(self) -> str:
        """See Shape."""
        pairs = ", in pairs" if self.in_pairs else ""
        return f"{self.rows} x {self.columns} by {self.threads // GROUP} warpgroups and a copying one{pairs}"

    @property
    def nbytes(self) -> int:
        """See GroupShape: with two barriers a stage."""
        return super().nbytes + self.stages_kept * 16

    @property
    def started(self) -> int:
        """Threads of a block."""
        return self.threads + GROUP

    @property
    def together(self) -> int:
        """Blocks that share tiles."""
        return 2 if self.in_pairs else 1

    @property
    def joint(self) -> Shape:
        """What these make together."""
        return replace(self, down=self.down * self.together)

    def own_width(self, side: Lined) -> int:
        """Rows or columns of a tile that a block copies."""
        return side.width // self.together if side.name == SIDES[1] else side.width

    @property
    def read_bytes(self) -> int:
        """See GroupShape."""
        return (self.rows + self.columns // self.together) * LINE

    def group_pace(self, compute: str, gpu: Gpu) -> Pace:
        """See GroupShape."""
        return replace(super().group_pace(compute, gpu), latency=LATENCY / (self.stages_kept - 1), resident=1)


SHAPES = (
    RoleShape(8, 1, 1, 32, 4, True), RoleShape(8, 1, 1, 32, 4), RoleShape(8, 1, 1, 16, 6, True),
    RoleShape(8, 1, 1, 16, 6), RoleShape(4, 1, 1, 32, 5), RoleShape(4, 1, 1, 16, 8),
)  # fmt: skip
"""128 x 256 results, 128 x 128, each also in pairs; 64 x 256, 64 x 128."""


@dataclass(frozen=True)
class _Boxes:
    """An operand as the engine reads it: its map, and where the box of a tile lies, by expressions of `m0` or `n0`, of
    `k0` and of `b`."""

    map: TensorMap
    at: Sequence[str]


class _Dimension(NamedTuple):
    """Of a tensor as the engine reads it: from a number to the next, numbers, those of a box, and the first of them."""

    stride: int
    extent: int
    box: int
    at: str


def shapes(writer: Writer, compute: str, gpu: Gpu) -> Iterable[RoleShape]:
    """What a block may make; nothing where a GPU has no such units, or the engine cannot read an operand."""
    if not any(copied_by_threads(writer, compute, gpu)):
        return ()
    if not all(_boxes(writer, side, side.width) for side in sides_of(writer, SHAPES[0], compute)):
        return ()
    _, m, _, _ = writer.part.sizes()
    return [shape for shape in SHAPES if not shape.in_pairs or m > shape.rows]


def tiled(writer: Writer, shape: RoleShape, compute: str, gpu: Gpu) -> Kernel:
    """Each block makes every so many tiles of the result."""
    code, stages, sides = writer.code, shape.stages_kept, sides_of(writer, shape, compute)
    boxes = [_boxes(writer, side, shape.own_width(side)) for side in sides]
    maps = [one.map for one in boxes if one is not None]
    parameters = [f"TENSOR_MAP({side.name}_map)" for side in sides]
    word, operands = (
        f"{'KERNEL_IN_PAIRS' if shape.in_pairs else 'KERNEL_OF'}({shape.started})",
        [*writer.operands, *writer.scratch()],
    )
    with kernel_body(code, operands, word, parameters):
        for side, map in zip(sides, maps, strict=True):
            code.line(f"/* {side.name}_map: {map} */")
        first = declare(writer, sides, stages)
        code.line(f"uint64_t *const full = (uint64_t *)(POOL_LINES + {first}), *const empty = full + {stages};")
        _make_barriers(writer, shape)
        code.line("int stage = 0, parity = 0;")
        with code.block(f"if (THREAD / {GROUP} == {shape.threads // GROUP})"):
            _copy_all(writer, shape, sides, [one.at for one in boxes if one is not None], gpu)
        with code.block("else"):
            _multiply_all(writer, shape, sides, compute, gpu)
        if shape.in_pairs:
            code.line("CLUSTER_BARRIER; /* the other block may write to this one's memory until then */")
    return writer.kernel(f"{compute}_specialised", shape.nbytes, maps)


def _pieces(cut: Cut, tiles: int) -> int:
    """Of work, where there are so many tiles."""
    return tiles * cut.parts if cut.tail is None else cut.tail.first + cut.tail.tiles * cut.parts


def grid(shape: RoleShape, cut: Cut, tiles: int, trips: int, gpu: Gpu) -> Grid:
    """How the kernel is started for so many tiles, each of `shape.joint`."""
    count = _pieces(cut, tiles) * shape.together
    return Grid(blocks(count, gpu, shape.together), shape.started, trips, pieces=count)


def blocks(tiles: int, gpu: Gpu, together: int) -> int:
    """That are started for so many tiles, of which some are made together: one for each multiprocessor."""
    return min(tiles, max(1, gpu.multiprocessors // together) * together)


def _make_barriers(writer: Writer, shape: RoleShape) -> None:
    """A tile is full when one thread has asked for its copies, and they are there; free when each warp that reads it
    has: of both blocks of a pair, since each copies to both."""
    code = writer.code
    with code.block("if (THREAD == 0)"):
        with code.loop("i", shape.stages_kept):
            code.line("MBARRIER_INIT(&full[i], 1);")
            code.line(f"MBARRIER_INIT(&empty[i], {shape.threads // 32 * shape.together});")
        code.line("MBARRIERS_SEEN;")
    code.line("CLUSTER_BARRIER;" if shape.in_pairs else "BARRIER;")


@contextmanager
def _each_tile(writer: Writer, shape: RoleShape, gpu: Gpu) -> Iterator[None]:
    """The loop over the block's tiles of the result."""
    together, whole = shape.together, tiles(writer, shape.joint)
    count = _pieces(writer.cut, whole)
    first, step = ("BLOCK / 2" if shape.in_pairs else "BLOCK"), blocks(count * together, gpu, together) // together
    with writer.code.loop("piece", count, first, step):
        writer.piece("(int)piece", whole)
        place(writer, shape.joint, f" + BLOCK % 2 * {shape.rows}" if shape.in_pairs else "")
        yield


def _copy_all(
    writer: Writer, shape: RoleShape, sides: Sequence[Lined], places: Sequence[Sequence[str]], gpu: Gpu
) -> None:
    code = writer.code
    if shape.threads > GROUP:
        code.line(f"REGISTERS_LESS({COPYING});")
    with (
        code.block(f"if (THREAD % {GROUP} == 0)"),
        _each_tile(writer, shape, gpu),
        code.loop("k0", "end", "first", sides[0].deep),
    ):
        code.line("MBARRIER_WAIT(&empty[stage], parity ^ 1);")
        code.line(f"MBARRIER_EXPECT(&full[stage], {(shape.rows + shape.columns) * LINE});")
        for side, at in zip(sides, places, strict=True):
            _copy(writer, shape, side, at)
        next_stage(code, shape.stages_kept)


def _copy(writer: Writer, shape: RoleShape, side: Lined, at: Sequence[str]) -> None:
    """The boxes of a tile, or of the block's part of it: one of all lines along k, or one of each 64 columns across
    it."""
    axis, own = "m0" if side.name == SIDES[0] else "n0", shape.own_width(side)
    parted, each = own < side.width, own if side.by_k else ACROSS
    line = LINE if side.by_k else side.deep * LINE // ACROSS
    for column in range(0, own, each):
        to = f"{side.name}_tile[stage] + {column * line}"
        where = [f"(int){one} + {column}" if one == axis else f"(int){one}" for one in at]
        if parted:
            to += f" + BLOCK % 2 * {own * line}"
            where = [f"{one} + BLOCK % 2 * {own}" if axis in one else one for one in where]
        word = "TENSOR_COPY_BOTH" if parted else "TENSOR_COPY"
        writer.code.line(f"{word}({to}, {side.name}_map, &full[stage], {', '.join(where)});")


def _multiply_all(writer: Writer, shape: RoleShape, sides: Sequence[Lined], compute: str, gpu: Gpu) -> None:
    """A tile is free again when the product after the one that reads it has begun: only then is that one waited for."""
    code = writer.code
    if shape.threads > GROUP:
        code.line(f"REGISTERS_MORE({MULTIPLYING});")
    with _each_tile(writer, shape, gpu):
        code.line(f"float sums[1][{shape.n}][4] = {{{{{{0}}}}}};")
        with code.loop("k0", "end", "first", sides[0].deep):
            code.line("MBARRIER_WAIT(&full[stage], parity);")
            multiply(writer, sides, shape, compute)
            code.line("WGMMA_WAIT(1);")
            with code.block("if (k0 > first)"):
                _give_back(writer, shape)
            next_stage(code, shape.stages_kept)
        code.line("WGMMA_WAIT(0);")
        _give_back(writer, shape)
        if writer.cut.tail is None:
            results(writer, shape)
            return
        with code.block("if (later < 0)"):
            writer.whole = True
            results(writer, shape)
        with code.block("else"):
            writer.whole = False
            results(writer, shape)


def summed(writer: Writer, shape: RoleShape) -> Kernel:
    """Adds up parts of sums, in their order, and computes the epilogue."""
    code, tail = writer.code, writer.cut.tail
    if tail is None:
        return sums(writer)
    _, m, n, _ = writer.part.sizes()
    with kernel_body(code, [*writer.operands, *writer.scratch()]), code.each("i", tail.size):
        code.line(f"const int block = {tail.first} + (int)(i / {tail.rows * tail.columns});")
        place(writer, shape.joint)
        code.line(f"const ptrdiff_t m = m0 + i / {tail.columns} % {tail.rows}, n = n0 + i % {tail.columns};")
        with code.block(f"if (m < {m} && n < {n})"):
            code.line(f"{writer.type} sum = 0;")
            with code.loop("part", writer.cut.parts):
                code.line(f"sum += scratch[part * {tail.size} + i];")
            writer.finish("sum")
    return writer.kernel("sums")


def _give_back(writer: Writer, shape: RoleShape) -> None:
    """The tile before `stage`."""
    code, barrier = writer.code, f"&empty[(stage + {shape.stages_kept - 1}) % {shape.stages_kept}]"
    with code.block(f"if (THREAD % 32 < {shape.together})"):
        code.line(f"MBARRIER_ARRIVE_AT({barrier}, THREAD % 32);" if shape.in_pairs else f"MBARRIER_ARRIVE({barrier});")


def _boxes(writer: Writer, side: Lined, width: int) -> _Boxes | None:
    """Those of so many rows or columns at a time. None where the engine cannot read it: an axis is no single loop, a
    step is no multiple of 16 bytes and of the one before, its rows overlap, or it is an image."""
    access, axis, flat, extent = writer.side(side.name)
    k, (along_k, along_x) = writer.part.sizes()[3], (access.linear(writer.part.k), access.linear(axis))
    if access.windows or along_k is None or along_x is None or access.base * side.itemsize % PIECE:
        return None
    extents, (strides,) = collapse([digit.extent for digit in writer.part.b], [access.along(writer.part.b)])
    batch = zip(extents, strides, digits("b", extents), strict=True)
    dimensions = sorted([
        _Dimension(along_k, k, side.deep, "k0"),
        _Dimension(along_x, extent, width if along_k == 1 else ACROSS, f"{flat}0"),
        *(_Dimension(stride, count, 1, f"({digit})") for count, stride, digit in batch if stride),
    ])  # fmt: skip
    steps = tuple(one.stride * side.itemsize for one in dimensions[1:])
    if dimensions[0].stride != 1 or len(dimensions) > MOST_RANK:
        return None
    whole = (step * one.extent for step, one in zip((side.itemsize, *steps), dimensions, strict=True))
    if any(later % step for step, later in zip((PIECE, *steps), steps, strict=False)):
        return None
    if any(later < below for later, below in zip(steps, whole, strict=False)):
        return None
    counts, box = tuple(one.extent for one in dimensions), tuple(one.box for one in dimensions)
    found = TensorMap(writer.place_of(access), access.base * side.itemsize, side.itemsize, counts, steps, box)
    return _Boxes(found, [one.at for one in dimensions])
