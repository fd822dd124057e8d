"""Products on the matrix units of NVIDIA's Hopper GPUs, whose tiles are copied by an engine of the GPU's (TMA).

The threads of a block have one of two roles ("warp specialisation"). One thread of the last warpgroup begins copies of
boxes; the other warpgroups multiply them, and are never asked to copy. Two barriers of each pair of tiles say that it
is full and that it is free. A block makes one tile of the result after the other: while the results of one are written,
those of the operands for the next are on their way. These words of GPU-C are only for languages that have such an
engine (PTX ISA 8.7, "cp.async.bulk.tensor", "mbarrier", "setmaxnreg"):

    KERNEL_OF(threads)         KERNEL, which is started with so many threads
    TENSOR_MAP(name)           parameter of a kernel: how boxes of an operand are found (`Kernel.maps`)
    TENSOR_COPY(to, map, full, c...)
                               begins to copy the box at these coordinates, the innermost first, to lines of 128 bytes,
                               whose pieces change places as they do in groups.py; zeros beyond the tensor. The barrier
                               `full` counts its bytes
    MBARRIER_INIT(b, count)    the barrier `b`, eight bytes of shared memory, waits for so many arrivals in each phase
    MBARRIERS_SEEN             barriers that the thread has made ready are seen by the engine
    MBARRIER_ARRIVE(b)         the thread arrives
    MBARRIER_EXPECT(b, bytes)  the thread arrives, and so many bytes belong to this phase
    MBARRIER_WAIT(b, parity)   until the phase of this parity is over. The first one has parity 0; the one before it is
                               over
    REGISTERS_LESS(n)          each thread of the warpgroup has n registers from here on; REGISTERS_MORE(n) likewise"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from ....plan.program import Kernel, TensorMap
from ....targets import Gpu
from ...common.indexing import collapse, digits
from ..pace import LATENCY, Pace
from ..source import kernel_body
from .groups import ACROSS, GROUP, LINE, PIECE, GroupShape, Lined, declare, multiply, sides_of
from .groups import shapes as copied_by_threads
from .matrix import pieces, place, results
from .rings import SIDES
from .writer import Writer

MOST_RANK = 5
COPYING, MULTIPLYING = 40, 232
"""Registers of a thread where there are three warpgroups, one of which copies: 65,536 in all, in multiples of 8."""


@dataclass(frozen=True)
class RoleShape(GroupShape):
    """A block's part of the result: `threads` are those that multiply.

    stages_kept  of tiles: one more than are on their way"""

    @property
    def name(self) -> str:
        """See Shape."""
        return f"{self.rows} x {self.columns} by {self.threads // GROUP} warpgroups and a copying one"

    @property
    def nbytes(self) -> int:
        """See GroupShape: with two barriers a stage."""
        return super().nbytes + self.stages_kept * 16

    @property
    def started(self) -> int:
        """Threads of a block."""
        return self.threads + GROUP

    def group_pace(self, compute: str, gpu: Gpu) -> Pace:
        """See GroupShape."""
        return replace(super().group_pace(compute, gpu), latency=LATENCY / (self.stages_kept - 1), resident=1)


SHAPES = RoleShape(8, 1, 1, 32, 4), RoleShape(8, 1, 1, 16, 6), RoleShape(4, 1, 1, 32, 5), RoleShape(4, 1, 1, 16, 8)
"""128 x 256 results, 128 x 128, 64 x 256, 64 x 128."""


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
    able = any(copied_by_threads(writer, compute, gpu)) and all(
        map(partial(_boxes, writer), sides_of(writer, SHAPES[0], compute))
    )
    return SHAPES if able else ()


def tiled(writer: Writer, shape: RoleShape, compute: str, gpu: Gpu) -> Kernel:
    """Each block makes every so many tiles of the result."""
    code, stages, sides = writer.code, shape.stages_kept, sides_of(writer, shape, compute)
    boxes = [_boxes(writer, side) for side in sides]
    maps = [one.map for one in boxes if one is not None]
    parameters = [f"TENSOR_MAP({side.name}_map)" for side in sides]
    word, operands = f"KERNEL_OF({shape.started})", [*writer.operands, *writer.scratch()]
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
    return writer.kernel(f"{compute}_specialised", shape.nbytes, maps)


def blocks(pieces: int, gpu: Gpu) -> int:
    """That are started for so many tiles: one for each multiprocessor."""
    return min(pieces, gpu.multiprocessors)


def _make_barriers(writer: Writer, shape: RoleShape) -> None:
    """A tile is full when one thread has asked for its copies, and they are there; free when each warp has read it."""
    code = writer.code
    with code.block("if (THREAD == 0)"):
        with code.loop("i", shape.stages_kept):
            code.line("MBARRIER_INIT(&full[i], 1);")
            code.line(f"MBARRIER_INIT(&empty[i], {shape.threads // 32});")
        code.line("MBARRIERS_SEEN;")
    code.line("BARRIER;")


def _each_tile(writer: Writer, shape: RoleShape, gpu: Gpu) -> tuple[str, str, str, str]:
    """The loop over the block's tiles of the result."""
    count = pieces(writer, shape) * writer.cut.parts
    return "piece", str(count), "BLOCK", str(blocks(count, gpu))


def _copy_all(
    writer: Writer, shape: RoleShape, sides: Sequence[Lined], places: Sequence[Sequence[str]], gpu: Gpu
) -> None:
    code = writer.code
    if shape.threads > GROUP:
        code.line(f"REGISTERS_LESS({COPYING});")
    with (
        code.block(f"if (THREAD % {GROUP} == 0)"),
        code.loop(*_each_tile(writer, shape, gpu)),
    ):
        writer.piece("(int)piece", pieces(writer, shape))
        place(writer, shape)
        with code.loop("k0", "end", "first", sides[0].deep):
            code.line("MBARRIER_WAIT(&empty[stage], parity ^ 1);")
            code.line(f"MBARRIER_EXPECT(&full[stage], {(shape.rows + shape.columns) * LINE});")
            for side, at in zip(sides, places, strict=True):
                _copy(writer, side, at)
            _next_stage(writer, shape)


def _copy(writer: Writer, side: Lined, at: Sequence[str]) -> None:
    """The boxes of a tile: one of all lines along k, or one of each 64 columns across it."""
    axis = "m0" if side.name == SIDES[0] else "n0"
    for column in range(0, side.width, side.width if side.by_k else ACROSS):
        to = f"{side.name}_tile[stage]" + (f" + {column // ACROSS * side.deep * LINE}" if column else "")
        where = [f"(int){one}" + (f" + {column}" if column and one == axis else "") for one in at]
        writer.code.line(f"TENSOR_COPY({to}, {side.name}_map, &full[stage], {', '.join(where)});")


def _multiply_all(writer: Writer, shape: RoleShape, sides: Sequence[Lined], compute: str, gpu: Gpu) -> None:
    """A tile is free again when the product after the one that reads it has begun: only then is that one waited for."""
    code, stages = writer.code, shape.stages_kept
    if shape.threads > GROUP:
        code.line(f"REGISTERS_MORE({MULTIPLYING});")
    with code.loop(*_each_tile(writer, shape, gpu)):
        writer.piece("(int)piece", pieces(writer, shape))
        place(writer, shape)
        code.line(f"float sums[1][{shape.n}][4] = {{{{{{0}}}}}};")
        with code.loop("k0", "end", "first", sides[0].deep):
            code.line("MBARRIER_WAIT(&full[stage], parity);")
            multiply(writer, sides, shape, compute)
            code.line("WGMMA_WAIT(1);")
            with code.block("if (k0 > first && THREAD % 32 == 0)"):
                code.line(f"MBARRIER_ARRIVE(&empty[(stage + {stages - 1}) % {stages}]);")
            _next_stage(writer, shape)
        code.line("WGMMA_WAIT(0);")
        with code.block("if (THREAD % 32 == 0)"):
            code.line(f"MBARRIER_ARRIVE(&empty[(stage + {stages - 1}) % {stages}]);")
        results(writer, shape)


def _next_stage(writer: Writer, shape: RoleShape) -> None:
    code = writer.code
    with code.block(f"if (++stage == {shape.stages_kept})"):
        code.line("stage = 0;")
        code.line("parity ^= 1;")


def _boxes(writer: Writer, side: Lined) -> _Boxes | None:
    """None where the engine cannot read it: an axis is no single loop, a step is no multiple of 16 bytes and of the one
    before, or it is an image."""
    access, axis, flat, extent = writer.side(side.name)
    k, (along_k, along_x) = writer.part.sizes()[3], (access.linear(writer.part.k), access.linear(axis))
    if access.windows or along_k is None or along_x is None or access.base * side.itemsize % PIECE:
        return None
    extents, (strides,) = collapse([digit.extent for digit in writer.part.b], [access.along(writer.part.b)])
    batch = zip(extents, strides, digits("b", extents), strict=True)
    dimensions = sorted([
        _Dimension(along_k, k, side.deep, "k0"),
        _Dimension(along_x, extent, side.width if along_k == 1 else ACROSS, f"{flat}0"),
        *(_Dimension(stride, count, 1, f"({digit})") for count, stride, digit in batch if stride),
    ])  # fmt: skip
    steps = tuple(one.stride * side.itemsize for one in dimensions[1:])
    if dimensions[0].stride != 1 or len(dimensions) > MOST_RANK:
        return None
    if any(later % step for step, later in zip((PIECE, *steps), steps, strict=False)):
        return None
    index = [one for one, _, _ in writer.operands].index(writer.pointer(access))
    counts, box = tuple(one.extent for one in dimensions), tuple(one.box for one in dimensions)
    found = TensorMap(index, access.base * side.itemsize, side.itemsize, counts, steps, box)
    return _Boxes(found, [one.at for one in dimensions])
