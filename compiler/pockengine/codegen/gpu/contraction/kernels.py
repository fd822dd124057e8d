"""Kernels of contractions: in tiles, on a GPU's matrix units where a format of theirs is wanted, or of f16 without.

Thin results (few rows or columns, as of depthwise convolutions) have a few threads for each element instead. Where a
product has fewer blocks than a GPU has multiprocessors, others make parts of its sums: see `pace.cut`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

from ....ir import DType, Node, RegionKind
from ....plan.program import SCRATCH, WHOLE, Call, Grid, Kernel, Lowered, Product
from ....targets import Gpu, Target
from ...common.index_maps import Access, Contraction, contractions_of
from ...common.region import anchor_of, body_of, bytes_of, elementwise_pairs, flops_of
from ..pace import F32_BYTES, LATENCY, Cut, Pace, cuts, gpu_of, resident, start_cycles, tails
from ..source import THREADS, blocks_of
from . import groups, halves, libraries, matrix, specialised, streamed, texels, thin, tiled, winograd
from .rings import can_be_copied
from .straight import E4M3
from .sums import sums
from .writer import Writer, multiplied, unpacked


@dataclass(frozen=True)
class Pick:
    """How one product is made.

    way    the template, and what a block of it makes
    parts  that its sums are cut in
    tail   it is those of its last tiles alone"""

    way: str
    parts: int
    tail: bool = False

    def describe(self) -> str:
        """For a person."""
        cut = f", sums{' of the last tiles' if self.tail else ''} in {self.parts} parts"
        return self.way if self.parts == 1 else self.way + cut


@dataclass(frozen=True)
class Products:
    """The choice for a contraction region: a pick for each of the products that share its result."""

    parts: tuple[Pick, ...]
    multiplies_in: str

    @property
    def library(self) -> str | None:
        """What may make one of them."""
        return libraries.NAME if any(pick.way.startswith(libraries.NAME) for pick in self.parts) else None

    def to_plain(self) -> Any:
        """See Choice."""
        return [asdict(pick) for pick in self.parts]

    def describe(self) -> str:
        """See Choice."""
        return "; ".join(dict.fromkeys(pick.describe() for pick in self.parts))


@dataclass(frozen=True)
class _Way:
    """A template that makes a product, with its blocks, where sums are whole, and threads of one.

    format    that it multiplies in
    role      blocks of this shape make several of the tiles that others have a block for each of
    product   what a library may do in the place of the kernel, whose sums are whole
    filtered  how a convolution is computed whose products it makes
    unlikely  nothing speaks for it on this GPU: it is for those who measure all"""

    name: str
    made: Callable[[Writer], Kernel]
    blocks: int
    threads: int
    pace: Pace
    format: str = "f32"
    role: specialised.RoleShape | None = None
    product: Product | None = None
    filtered: winograd.Filtered | None = None
    unlikely: bool = False

    @property
    def apart(self) -> bool:
        """Whether whole sums go to scratch memory, and a kernel more makes results of them."""
        return self.product is not None and self.product.of_kernel

    def cuts(self, terms: int, result_bytes: int, limit: int, gpu: Gpu) -> list[Cut]:
        """The ways to cut its sums, the quickest first."""
        found, role = cuts(self.blocks, terms, self.pace, result_bytes, limit, gpu), self.role
        if role is not None:
            tiles, turn = self.blocks // role.together, gpu.multiprocessors // role.together
            shape = (role.joint.rows, role.joint.columns)
            found += tails(tiles, turn, shape, terms, self.pace, limit, gpu) if turn else []
        return sorted(found, key=lambda cut: cut.cycles)

    def kernel(self, writer: Writer) -> Kernel:
        """What makes it."""
        made = self.made(writer)
        return made if self.product is None else libraries.with_product(made, self.product)

    def grid(self, cut: Cut, trips: int, gpu: Gpu) -> Grid:
        """How it is started."""
        if self.role is None:
            return Grid(self.blocks * cut.parts, self.threads, trips)
        return specialised.grid(self.role, cut, self.blocks // self.role.together, trips, gpu)

    def sums(self, writer: Writer) -> Kernel:
        """What adds up parts of sums."""
        return sums(writer) if self.role is None else specialised.summed(writer, self.role)


_Option = tuple[_Way, Cut]


def choices(node: Node, target: Target, wide: bool) -> list[tuple[Products, float]]:
    """How a region can be made, with the cycles that the model expects, the model's choice first: each template with
    sums in as many parts as suits it best; `wide` has all numbers of parts."""
    found: dict[Products, float] = {}
    spaces = [_options(node, part, target, bytes_of(node), wide) for part in contractions_of(anchor_of(node))]
    for options in zip_longest(*spaces):  # products of one region choose alike: each its next best
        ways = [one or space[-1] for one, space in zip(options, spaces, strict=True)]
        picks = tuple(_pick(*one) for one in ways)
        formats = {way.format for way, _ in ways}
        products = Products(picks, next((one for one in (E4M3, target.compute) if one in formats), "f32"))
        found.setdefault(products, sum(cut.cycles for _, cut in ways))
    return list(found.items())


@dataclass(frozen=True)
class Reported:
    """What a compiler says of a kernel: registers of a thread, and bytes that it keeps in memory for lack of them."""

    registers: int
    spill_bytes: int


def appraised(node: Node, target: Target, choice: Products, report: Callable[[Kernel], Reported]) -> float | None:
    """The cycles of a way as the model has them, with as many blocks of a multiprocessor as its registers suffice for;
    None where a kernel spills. What a library or several kernels make stays as it is."""
    anchor, gpu, limit, total = anchor_of(node), gpu_of(target), bytes_of(node), 0.0
    for part, pick in zip(contractions_of(anchor), choice.parts, strict=True):
        way, best = next(one for one in _options(node, part, target, limit, True) if _pick(*one) == pick)
        if way.product is None and way.filtered is None:
            said = report(way.kernel(Writer(node, anchor, part, best, way.format == E4M3)))
            if said.spill_bytes:
                return None
            fits = max(1, resident(said.registers, way.threads))
            way = replace(way, pace=replace(way.pace, resident=min(way.pace.resident, fits)))
            batch, m, n, k = part.sizes()
            found = way.cuts(k, batch * m * n * anchor.output.type.dtype.numpy.itemsize, limit, gpu)
            best = next(one for one in found if (one.parts, one.tail) == (best.parts, best.tail))
        total += best.cycles
    return total


def _options(node: Node, part: Contraction, target: Target, limit: int, every: bool) -> list[_Option]:
    """The ways to make a part of a node, the quickest first; `every`: unlikely ones and all cuts of each, behind the
    quickest ones."""
    anchor, gpu = anchor_of(node), gpu_of(target)
    batch, m, n, k = part.sizes()
    results = batch * m * n * anchor.output.type.dtype.numpy.itemsize
    first: list[_Option] = []
    rest: list[_Option] = []
    whole: list[_Option] = []
    for way in _ways(node, part, target.compute, gpu):
        if way.unlikely and not every:
            continue
        found = best, *others = way.cuts(k, results, limit, gpu)
        (rest if way.unlikely else first).append((way, best))
        rest += [(way, other) for other in others if every]
        whole += [(way, one) for one in found if one.parts == 1]
    first.sort(key=_cycles)
    writer = Writer(node, anchor, part, Cut(1, k, 0.0))
    first += _by_library(writer, min(whole, key=_cycles), first[0][1].cycles, limit, gpu)
    first += _by_filtering(node, writer, target)
    return [*sorted(first, key=_cycles), *sorted(rest, key=_cycles)]


def _by_library(writer: Writer, option: _Option, best: float, limit: int, gpu: Gpu) -> list[_Option]:
    """The way of a library, whose kernel is that of `option`: expected to be as quick as the best of ours, behind which
    it goes."""
    (way, cut), (batch, m, n, _) = option, writer.part.sizes()
    product = libraries.product_of(writer, way.format, limit) if gpu.has_matrix_units else None
    if product is None:
        return []
    later = start_cycles(gpu) + 2 * batch * m * n * F32_BYTES / gpu.bytes_per_cycle if product.of_kernel else 0.0
    return [
        (replace(way, name=f"{libraries.NAME}, else {way.name}", product=product), replace(cut, cycles=best + later))
    ]


def _by_filtering(node: Node, writer: Writer, target: Target) -> Iterator[_Option]:
    """The ways of minimal filtering, on the usual units."""
    allowed = node.attrs.get(SCRATCH)
    assert allowed is None or isinstance(allowed, int)
    for one in winograd.filtered(writer, allowed) if target.compute == "f32" else ():
        (part,), limit = contractions_of(anchor_of(one.products)), bytes_of(one.products)
        limit = limit if allowed is None else min(limit, allowed - one.places[-1])
        way, cut = _options(one.products, part, target, limit, False)[0]
        cycles = one.cycles(cut.cycles, gpu_of(target))
        yield replace(way, name=one.name + way.name, filtered=one), replace(cut, cycles=cycles)


def _cycles(option: _Option) -> float:
    return option[1].cycles


def _pick(way: _Way, cut: Cut) -> Pick:
    return Pick(way.name, cut.parts, cut.tail is not None)


def lower(node: Node, target: Target, choice: Products | None = None) -> Lowered:
    """Kernels of a contraction region, whose products of f32 are made in the format `target.compute`, as is chosen;
    default: as the model does. Those that are cut take no more memory than the region's operands and results, and no
    more than its attribute SCRATCH allows: what is chosen may not fit into that."""
    if node.outputs[0].type.size == 0:
        return Lowered(())
    anchor, limit = anchor_of(node), bytes_of(node)
    allowed = node.attrs.get(SCRATCH, limit)
    assert isinstance(allowed, int)
    parts = contractions_of(anchor)
    work = max(1, sum(math.prod(part.sizes()) for part in parts))
    calls: list[Call] = []
    scratch = 0
    picks = choice.parts if choice is not None else ()
    for part, pick in zip_longest(parts, picks):
        options = _options(node, part, target, min(limit, allowed), pick is not None)
        option = next((one for one in options if pick == _pick(*one)), options[0])
        made, nbytes = _calls(node, part, option, math.prod(part.sizes()) / work, gpu_of(target))
        calls += made
        scratch = max(scratch, nbytes)
    return Lowered(tuple(calls), scratch, elementwise_pairs(node, multiplied(node)))


def rounds(node: Node, target: Target) -> DType | None:
    """The 16-bit format to which a contraction region's operands are rounded; None where they are not, and where matrix
    units multiply 8-bit floats."""
    if node.region_kind is not RegionKind.CONTRACTION or target.compute not in ("bf16", "f16"):
        return None
    anchor = anchor_of(node)
    parts = contractions_of(anchor)
    suited = all(min(part.sizes()[1:3]) >= thin.LEAST and matrix.suits(part) for part in parts)
    if not suited or anchor.output.type.dtype is not DType.F32:
        return None
    writers = (Writer(node, anchor, part, Cut(1, 1, 0.0)) for part in parts)
    of_codes = any(_multiplies_codes(writer, gpu_of(target)) for writer in writers)
    return None if of_codes else DType(target.compute)


def _calls(node: Node, part: Contraction, option: _Option, share: float, gpu: Gpu) -> tuple[list[Call], int]:
    """What computes a part of a node, which is so much of its work, and the scratch memory that it takes."""
    way, best = option
    anchor = anchor_of(node)
    if way.filtered is not None:
        inner, writer = way.filtered.products, Writer(node, anchor, part, Cut(1, 1, 0.0))
        (products,) = contractions_of(anchor_of(inner))
        steps, taken = _calls(inner, products, (replace(way, filtered=None), best), 1.0, gpu)
        return winograd.calls(node, way.filtered, Lowered(tuple(steps), taken), writer)
    itemsize, (batch, m, n, k) = anchor.output.type.dtype.numpy.itemsize, part.sizes()
    writers = partial(Writer, node, anchor, part, best, way.format == E4M3, way.apart)
    made, workspace = way.kernel(writers()), way.product.used + way.product.bytes if way.product is not None else 0
    terms = best.terms if best.tail is None else k
    trips = round(-(-min(k, terms) // way.pace.deep) * way.pace.latency / LATENCY)
    operands = (*node.inputs, *node.outputs)
    grid = replace(way.grid(best, max(1, trips), gpu), cycles=best.making)
    flops, nbytes = int(flops_of(node) * share), int(bytes_of(node) * share)
    if best.parts == 1 and not way.apart:
        return [Call(made, operands, WHOLE if way.product is not None else (), grid, flops, nbytes)], workspace
    size = batch * m * n if best.tail is None else best.tail.size
    scratch = best.parts * size * itemsize
    given = nbytes - int(share * sum(value.type.nbytes for value in multiplied(node)))
    later, last = int(given * min(1.0, size / (batch * m * n))), Grid(blocks_of(size), THREADS)
    added = way.sums(writers())
    return [
        Call(made, operands, WHOLE, grid, flops, nbytes - later + scratch),
        Call(added, operands, WHOLE, last, scratch // itemsize, later + scratch),
    ], max(scratch, workspace)


def _ways(node: Node, part: Contraction, compute: str, gpu: Gpu) -> Iterator[_Way]:
    anchor, (batch, m, n, k) = anchor_of(node), part.sizes()
    if min(m, n) < thin.LEAST:
        for lanes in thin.lanes_of(part):
            blocks = blocks_of(batch * m * n, lanes.results)
            yield _Way(lanes.name, partial(thin.thin, how=lanes), blocks, THREADS, lanes.pace())
        return
    dtype, sizes = anchor.output.type.dtype, (_size(node, part.left), _size(node, part.right))
    narrow = compute != "f32" and dtype is DType.F32 and matrix.suits(part)
    writer = Writer(node, anchor, part, Cut(1, k, 0.0))
    if gpu.compiles_itself:
        yield from _without_units(writer, compute if narrow else "f32", gpu, sizes)
        return
    if narrow:
        yield from _on_units(writer, E4M3 if _multiplies_codes(writer, gpu) else compute, gpu, sizes)
        return
    streams = gpu.copies_apart and streamed.suits(node, anchor)
    for tile in tiled.TILES:
        pace = tile.pace(gpu, streams, sizes)
        made = partial(tiled.tiled, tile=tile, streams=streams)
        yield _Way(tile.name, made, batch * tile.blocks(m, n), tiled.BLOCK, pace)


def _without_units(writer: Writer, compute: str, gpu: Gpu, sizes: tuple[float, float]) -> Iterator[_Way]:
    """Those of a GPU that compiles kernels itself; `sizes`: see _size."""
    batch, m, n, _ = writer.part.sizes()
    images = writer.anchor.output.type.dtype is DType.F32 and bool(texels.readings(writer))
    for by_texels in sorted({False, images}, reverse=gpu.image_reads):
        unlikely = by_texels and not gpu.image_reads
        for tile in tiled.TILES:
            blocks, name = batch * tile.blocks(m, n), f"{tile.name} by images" if by_texels else tile.name
            if compute == "f32":
                made = partial(tiled.tiled, tile=tile, streams=False, by_texels=by_texels)
                pace = tile.pace(gpu, False, sizes)
            else:
                made, name = partial(halves.tiled, tile=tile, by_texels=by_texels), f"{name} {compute}"
                pace = halves.pace(tile, gpu, sizes)
            yield _Way(name, made, blocks, tiled.BLOCK, pace, compute, unlikely=unlikely)


def _multiplies_codes(writer: Writer, gpu: Gpu) -> bool:
    """Whether both operands are 8-bit floats that matrix units multiply as they are: on Hopper by warpgroups alone."""
    if gpu.has_warpgroup_units:
        return any(groups.shapes(writer, E4M3, gpu))
    return gpu.has_fp8_units and can_be_copied(writer, E4M3)


def _on_units(writer: Writer, compute: str, gpu: Gpu, sizes: tuple[float, float]) -> Iterator[_Way]:
    """Those of matrix units; `sizes`: see _size."""
    batch, m, n, _ = writer.part.sizes()
    for role in specialised.shapes(writer, compute, gpu):
        made = partial(specialised.tiled, shape=role, compute=compute, gpu=gpu)
        count, pace = batch * role.joint.blocks(m, n) * role.together, role.group_pace(compute, gpu)
        yield _Way(f"{role.name} {compute}", made, count, role.started, pace, compute, role)
    for group in groups.shapes(writer, compute, gpu):
        made, blocks = partial(groups.tiled, shape=group, compute=compute), batch * group.blocks(m, n)
        yield _Way(f"{group.name} {compute}", made, blocks, group.threads, group.group_pace(compute, gpu), compute)
    if compute == E4M3 and gpu.has_warpgroup_units:
        return  # which a warp alone can only multiply as 16-bit floats
    rings = gpu.copies_apart and can_be_copied(writer, compute)
    for shape in matrix.shapes(rings, compute, gpu):
        pace = shape.pace(compute, gpu, rings, sizes)
        made = partial(matrix.tiled, shape=shape, compute=compute, gpu=gpu)
        yield _Way(f"{shape.name} {compute}", made, batch * shape.blocks(m, n), shape.threads, pace, compute)


def _size(node: Node, access: Access) -> float:
    """Bytes in memory of a number of an operand."""
    anchor = anchor_of(node)
    operand = anchor.inputs[access.operand]
    made = unpacked(body_of(node), anchor).get(operand)
    lies = [operand] if made is None else made.inputs
    return sum(value.type.nbytes for value in lies) / max(1, operand.type.size)
