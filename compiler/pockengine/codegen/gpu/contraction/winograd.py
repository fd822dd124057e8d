"""Convolutions by Winograd's minimal filtering, where products are made on a GPU's usual units.

Four kernels, whose arrays lie in scratch memory: the image's tiles and the taps are transformed, a product for each
point of a tile, and what comes of it is transformed to results, with the region's epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ....ir import DType, Node, TensorType, Value
from ....plan.program import Call, Grid, Kernel, Lowered
from ....targets import Gpu
from ...common.index_maps import Access
from ...common.region import as_region, bytes_of
from ...common.scratch import aligned
from ...common.winograd.filtering import Filtering, can_be_filtered
from ...common.winograd.transforms import TAPS, Row, combination
from ..dialect import GPU_C
from ..pace import start_cycles
from ..source import THREADS, Code, blocks_of, kernel, kernel_body
from .writer import Writer

OUTPUTS = (2, 4)
MARGIN = 1.3
"""How much cheaper than a direct product it must seem, as on processors: the model of transforms is rough."""
MOST = 4
"""Times the bytes of operands and results that its arrays may take: they are larger than the image by (m + 2)^2 / m^2,
and than the taps by (m + 2)^2 / 9."""


@dataclass(frozen=True)
class Filtered(Filtering):
    """A convolution by F(m x m, 3 x 3)."""

    anchor: Node
    size: int

    @property
    def outputs(self) -> int:
        """See Filtering."""
        return self.size

    @property
    def name(self) -> str:
        """What it is called in front of how the products are made."""
        return f"Winograd F({self.size} x {self.size}, 3 x 3), "

    @cached_property
    def products(self) -> Node:
        """A product for each point of a tile: [points, tiles, channels] by [points, channels, results]."""
        points = self.transforms.points
        left, right, made = (
            Value(name, TensorType(DType.F32, (points, *shape)))
            for name, shape in (
                ("tiles", (self.tiles, self.depth)),
                ("taps", (self.depth, self.width)),
                ("sums", (self.tiles, self.width)),
            )
        )
        attrs = {"trans_a": False, "trans_b": False}
        return as_region(Node("matmul", (left, right), (made,), attrs, origin=self.anchor.origin))

    @property
    def values(self) -> tuple[Value, ...]:
        """The arrays: the image's tiles, the taps, and the sums of products."""
        return (*self.products.inputs, *self.products.outputs)

    @property
    def places(self) -> list[int]:
        """Where each begins in scratch memory, and where the last one ends."""
        found = [0]
        for value in self.values:
            found.append(aligned(found[-1] + value.type.nbytes))
        return found

    def cycles(self, products: float, gpu: Gpu) -> float:
        """With so many for its products: the others only move numbers, and a kernel starts for each."""
        image, taps, sums = (value.type.nbytes for value in self.values)
        read = sum(value.type.nbytes for value in (*self.anchor.inputs, *self.anchor.outputs))
        moved = (read + image + taps + sums) / gpu.bytes_per_cycle
        return MARGIN * (max(products, (image + taps + sums) / gpu.bytes_per_cycle) + moved + 3 * start_cycles(gpu))


def filtered(writer: Writer, limit: int | None) -> list[Filtered]:
    """The ways for an anchor, whose arrays take at most `limit` bytes; None: as many as they usually may."""
    anchor = writer.anchor
    if not can_be_filtered(anchor) or not _is_readable(writer):
        return []
    most = MOST * sum(value.type.nbytes for value in (*anchor.inputs, *anchor.outputs)) if limit is None else limit
    return [one for one in (Filtered(anchor, size) for size in OUTPUTS) if one.places[-1] <= most]


def _is_readable(writer: Writer) -> bool:
    """Whether the image lies in memory as f32, and the weight as numbers."""
    image, weight = _accesses(writer)
    return writer.lies(image).dtype is DType.F32 and writer.lies(weight).dtype in (DType.F32, *GPU_C.widened)


def _accesses(writer: Writer) -> list[Access]:
    """Of the image and of the weight."""
    return sorted((writer.part.left, writer.part.right), key=lambda access: access.operand)


def calls(node: Node, one: Filtered, products: Lowered, writer: Writer) -> tuple[list[Call], int]:
    """What computes a node, whose products are made so, and the scratch memory that it takes."""
    image, taps, sums, end = one.places
    places = dict(zip(one.values, (image, taps, sums), strict=True))
    source, weight = (node.inputs[writer.place_of(access)] for access in _accesses(writer))
    made = [
        _moving(_image(one), (source,), (image,), one.values[0], one.transforms.points),
        _moving(_taps(one, weight.type), (weight,), (taps,), one.values[1], one.transforms.points),
    ]
    for call in products.calls:
        inner = tuple(places[value] for value in call.operands) + tuple(end + at for at in call.workspace)
        made.append(Call(call.kernel, (), inner, call.launch, call.flops, call.bytes))
    last, moved = Grid(blocks_of(one.tiles * one.width), THREADS), bytes_of(node) + one.values[2].type.nbytes
    operands = (*node.inputs, *node.outputs)
    made.append(Call(_results(one, writer), operands, (sums,), last, one.values[2].type.size * 2, moved))
    return made, end + products.workspace_bytes


def _moving(made: Kernel, read: tuple[Value, ...], places: tuple[int, ...], given: Value, points: int) -> Call:
    """A transform: a thread for each `points` numbers of what it gives, which takes some operations for each."""
    count, moved = given.type.size // points, given.type.nbytes + sum(value.type.nbytes for value in read)
    return Call(made, read, places, Grid(blocks_of(count), THREADS), 4 * given.type.size, moved)


def _image(one: Filtered) -> Kernel:
    """[image, height, width, channels] -> [points, tiles, channels]: zeros beyond the image."""
    code, side, (top, left), (height, width) = Code(), one.transforms.side, one.offset, one.source
    source, tiles = one.anchor.inputs[0].type, one.values[0].type
    with kernel_body(code, [("image", source, False), ("tiles", tiles, True)]), code.each("i", one.tiles * one.depth):
        code.line(f"const ptrdiff_t channel = i % {one.depth}, tile = i / {one.depth};")
        _tile(code, one)
        code.line(f"float window[{side}][{side}];")
        with code.neighbours("r", side), code.neighbours("s", side):
            code.line(f"const ptrdiff_t y = down * {one.size} - {top} + r, x = along * {one.size} - {left} + s;")
            inside = f"y >= 0 && y < {height} && x >= 0 && x < {width}"
            place = f"((picture * {height} + y) * {width} + x) * {one.depth} + channel"
            code.line(f"window[r][s] = {inside} ? image[{place}] : 0.0f;")
        _both_ways(code, one.transforms.image, side)
        _store(code, "tiles", side, f"{one.tiles * one.depth}")
    return kernel("filter_image", f"tiles of {source} for F({one.size} x {one.size}), pad {one.offset}", code.text())


def _taps(one: Filtered, weight: TensorType) -> Kernel:
    """[results, channels, 3, 3] -> [points, channels, results]; for a gradient [channels, results, 3, 3], turned."""
    code, side, taps = Code(), one.transforms.side, one.values[1].type
    with kernel_body(code, [("weight", weight, False), ("taps", taps, True)]), code.each("i", one.depth * one.width):
        code.line(f"const ptrdiff_t result = i % {one.width}, channel = i / {one.width};")
        first = f"channel * {one.width} + result" if one.gradient else f"result * {one.depth} + channel"
        code.line(f"float window[{TAPS}][{TAPS}];")
        with code.neighbours("r", TAPS), code.neighbours("s", TAPS):
            turned = f"{TAPS * TAPS - 1} - ({TAPS} * r + s)" if one.gradient else f"{TAPS} * r + s"
            stored = f"weight[({first}) * {TAPS * TAPS} + {turned}]"
            code.line(f"window[r][s] = {GPU_C.widened.get(weight.dtype, '{}').format(stored)};")
        _both_ways(code, one.transforms.taps, TAPS)
        _store(code, "taps", side, f"{one.depth * one.width}")
    title = f"taps of {weight} for F({one.size} x {one.size}){', turned' if one.gradient else ''}"
    return kernel("filter_taps", title, code.text())


def _results(one: Filtered, writer: Writer) -> Kernel:
    """[points, tiles, results] -> the region's results."""
    code, side, (height, width) = writer.code, one.transforms.side, one.result
    with (
        kernel_body(code, [*writer.operands, ("sums", one.values[2].type, False)]),
        code.each("i", one.tiles * one.width),
    ):
        code.line(f"const ptrdiff_t b = 0, n = i % {one.width}, tile = i / {one.width};")
        _tile(code, one)
        code.line(f"float window[{side}][{side}];")
        with code.neighbours("r", side), code.neighbours("s", side):
            code.line(f"window[r][s] = sums[(r * {side} + s) * (ptrdiff_t){one.tiles * one.width} + i];")
        _both_ways(code, one.transforms.result, side)
        with code.neighbours("r", one.size), code.neighbours("s", one.size):
            code.line(f"const ptrdiff_t y = down * {one.size} + r, x = along * {one.size} + s;")
            with code.block(f"if (y < {height} && x < {width})"):
                code.line(f"const ptrdiff_t m = (picture * {height} + y) * {width} + x;")
                code.line("(void)b;")
                writer.finish("made[r][s]")
    return writer.kernel(f"filtered{one.size}")


def _tile(code: Code, one: Filtered) -> None:
    """Where a tile lies."""
    down, along = one.grid
    code.line(f"const ptrdiff_t along = tile % {along}, down = tile / {along} % {down};")
    code.line(f"const ptrdiff_t picture = tile / {down * along};")


def _both_ways(code: Code, matrix: Sequence[Row], columns: int) -> None:
    """`made` = matrix `window` matrix^T."""
    rows = len(matrix)
    code.line(f"float half_made[{rows}][{columns}], made[{rows}][{rows}];")
    with code.neighbours("s", columns):
        for r, row in enumerate(matrix):
            code.line(f"half_made[{r}][s] = {combination(row, [f'window[{k}][s]' for k in range(columns)])};")
    with code.neighbours("r", rows):
        for s, row in enumerate(matrix):
            code.line(f"made[r][{s}] = {combination(row, [f'half_made[r][{k}]' for k in range(columns)])};")


def _store(code: Code, name: str, side: int, step: str) -> None:
    """`made` to an array, whose points are so many numbers apart."""
    with code.neighbours("r", side), code.neighbours("s", side):
        code.line(f"{name}[(r * {side} + s) * (ptrdiff_t){step} + i] = made[r][s];")
