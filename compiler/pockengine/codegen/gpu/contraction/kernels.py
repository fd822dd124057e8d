"""Kernels of contractions: in tiles, on a GPU's matrix units where a format of theirs is wanted.

Thin results (few rows or columns, as of depthwise convolutions) have a few threads for each element instead. Where a
product has fewer blocks than a GPU has multiprocessors, others make parts of its sums: see `pace.cut`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from ....ir import DType, Node
from ....plan.program import SCRATCH, Call, Grid, Kernel, Lowered
from ....targets import Gpu, Target
from ...common.index_maps import Access, Contraction, contractions_of
from ...common.region import anchor_of, body_of, bytes_of, elementwise_pairs, flops_of
from ..pace import LATENCY, Pace, cut, gpu_of
from ..source import THREADS, blocks_of
from . import matrix, streamed, thin, tiled
from .sums import sums
from .writer import Writer, multiplied, unpacked


@dataclass(frozen=True)
class _Way:
    """A template that makes a product, with its blocks, where sums are whole, and threads of one."""

    made: Callable[[Writer], Kernel]
    blocks: int
    threads: int
    pace: Pace


def lower(node: Node, target: Target) -> Lowered:
    """Kernels of a contraction region, whose products of f32 are made in the format `target.compute`. Those that are
    cut take no more memory than the region's operands and results, and no more than its attribute SCRATCH allows."""
    if node.outputs[0].type.size == 0:
        return Lowered(())
    anchor, limit = anchor_of(node), bytes_of(node)
    allowed = node.attrs.get(SCRATCH, limit)
    assert isinstance(allowed, int)
    parts = contractions_of(anchor)
    work = max(1, sum(math.prod(part.sizes()) for part in parts))
    calls: list[Call] = []
    scratch = 0
    for part in parts:
        made, nbytes = _calls(node, part, target, min(limit, allowed), math.prod(part.sizes()) / work)
        calls += made
        scratch = max(scratch, nbytes)
    return Lowered(tuple(calls), scratch, elementwise_pairs(node, multiplied(node)))


def _calls(node: Node, part: Contraction, target: Target, limit: int, share: float) -> tuple[list[Call], int]:
    """What computes a part of a node, which is so much of its work, and the scratch memory that it takes."""
    anchor, gpu = anchor_of(node), gpu_of(target)
    itemsize, (batch, m, n, k) = anchor.output.type.dtype.numpy.itemsize, part.sizes()
    results = batch * m * n * itemsize
    ways = [(way, cut(way.blocks, k, way.pace, results, limit, gpu)) for way in _ways(node, part, target.compute, gpu)]
    way, best = min(ways, key=lambda one: one[1].cycles)
    made = way.made(Writer(node, anchor, part, best))
    trips = round(-(-min(k, best.terms) // way.pace.deep) * way.pace.latency / LATENCY)
    operands, grid = (*node.inputs, *node.outputs), Grid(way.blocks * best.parts, way.threads, max(1, trips))
    flops, nbytes = int(flops_of(node) * share), int(bytes_of(node) * share)
    if best.parts == 1:
        return [Call(made, operands, False, grid, flops, nbytes)], 0
    scratch = best.parts * results
    read = sum(value.type.nbytes for value in multiplied(node))
    last = Grid(blocks_of(batch * m * n), THREADS)
    return [
        Call(made, operands, True, grid, flops, int(read * share) + scratch),
        Call(sums(Writer(node, anchor, part, best)), operands, True, last, scratch // itemsize,
             scratch + nbytes - int(read * share)),
    ], scratch  # fmt: skip


def _ways(node: Node, part: Contraction, compute: str, gpu: Gpu) -> Iterator[_Way]:
    anchor, (batch, m, n, _) = anchor_of(node), part.sizes()
    if min(m, n) < thin.LEAST:
        for lanes in thin.lanes_of(part):
            blocks = blocks_of(batch * m * n, lanes.results)
            yield _Way(partial(thin.thin, how=lanes), blocks, THREADS, lanes.pace())
        return
    dtype, sizes = anchor.output.type.dtype, (_size(node, part.left), _size(node, part.right))
    streams = gpu.copies_apart and streamed.suits(node, anchor)
    if compute != "f32" and dtype is DType.F32 and matrix.suits(part):
        streams = streams and compute == "tf32"
        for shape in matrix.SHAPES:
            pace = shape.pace(compute, gpu, streams, sizes)
            made = partial(matrix.tiled, shape=shape, compute=compute, streams=streams, copies=gpu.copies_apart)
            yield _Way(made, batch * shape.blocks(m, n), shape.threads, pace)
        return
    for tile in tiled.TILES:
        pace = tile.pace(gpu, streams, sizes)
        made = partial(tiled.tiled, tile=tile, streams=streams)
        yield _Way(made, batch * tile.blocks(m, n), tiled.SIDE * tiled.SIDE, pace)


def _size(node: Node, access: Access) -> float:
    """Bytes in memory of a number of an operand."""
    anchor = anchor_of(node)
    operand = anchor.inputs[access.operand]
    made = unpacked(body_of(node), anchor).get(operand)
    lies = [operand] if made is None else made.inputs
    return sum(value.type.nbytes for value in lies) / max(1, operand.type.size)
