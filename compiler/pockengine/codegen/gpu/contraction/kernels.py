"""Kernels of contractions: in tiles, on a GPU's matrix units where a format of theirs is wanted.

Thin results (few rows or columns, as of depthwise convolutions) have a thread for each element instead."""

from __future__ import annotations

import math

from ....ir import DType, Node
from ....plan.program import Grid, Kernel, Lowered
from ...common.index_maps import Contraction, contractions_of, inside
from ...common.region import anchor_of, elementwise_pairs
from ..source import THREADS, blocks_of, call, kernel_body
from . import matrix, tiled
from .writer import Writer, guarded

THIN = 8
"""Rows or columns below which no tile is made."""


def lower(node: Node, compute: str) -> Lowered:
    """Kernels of a contraction region, whose products of f32 are made in the format `compute`."""
    if node.outputs[0].type.size == 0:
        return Lowered(())
    anchor = anchor_of(node)
    parts = contractions_of(anchor)
    work = max(1, sum(math.prod(part.sizes()) for part in parts))
    calls = []
    for part in parts:
        made, grid = _made(Writer(node, anchor, part), part, compute)
        calls.append(call(node, made, grid, math.prod(part.sizes()) / work))
    return Lowered(tuple(calls), 0, elementwise_pairs(node, anchor.inputs))


def _made(writer: Writer, part: Contraction, compute: str) -> tuple[Kernel, Grid]:
    batch, m, n, _ = part.sizes()
    if min(m, n) < THIN:
        return thin(writer), Grid(blocks_of(batch * m * n), THREADS)
    if compute != "f32" and writer.anchor.output.type.dtype is DType.F32 and matrix.suits(part):
        shape = matrix.shape_for(m, n)
        return matrix.tiled(writer, shape, compute), Grid(batch * shape.blocks(m, n), shape.threads)
    tile = tiled.tile_for(m, n)
    return tiled.tiled(writer, tile), Grid(batch * tile.blocks(m, n), tiled.SIDE * tiled.SIDE)


def thin(writer: Writer) -> Kernel:
    """A thread for each element, its neighbours along the shorter axis beside it."""
    code, (batch, m, n, k) = writer.code, writer.part.sizes()
    with kernel_body(code, writer.operands), code.each("i", batch * m * n):
        code.line(f"const ptrdiff_t b = i / {m * n};")
        if n <= m:
            code.line(f"const ptrdiff_t m = i % {m * n} / {n}, n = i % {n};")
        else:
            code.line(f"const ptrdiff_t m = i % {m}, n = i % {m * n} / {m};")
        writer.digits("b", writer.part.b)
        writer.digits("m", writer.part.m)
        writer.digits("n", writer.part.n)
        code.line(f"{writer.type} sum = 0;")
        with code.loop("k", k):
            writer.digits("k", writer.part.k)
            conditions = [*inside(writer.part.left), *inside(writer.part.right)]
            left, right = (writer.element(access) for access in (writer.part.left, writer.part.right))
            with guarded(code, conditions):
                code.line(f"sum += {left} * {right};")
        writer.finish("sum", "b", "m", "n")
    return writer.kernel("thin")
