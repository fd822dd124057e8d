"""Kernels of contractions: tiles of the result that a block computes from tiles of both operands in shared memory.

Thin results (few rows or columns, as of depthwise convolutions) have a thread for each element instead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...ir import Node, Value
from ...plan.program import Grid, Kernel, Lowered
from ..common.c_dialect import c_type
from ..common.expressions import Body
from ..common.index_maps import Access, Axis, Contraction, contractions_of, element_offset, inside
from ..common.indexing import broadcast_strides, digits
from ..common.mathlib import functions
from ..common.region import anchor_of, body_of, elementwise_pairs, needed
from .dialect import GPU_C
from .source import THREADS, Code, blocks_of, call, kernel, kernel_body, operands_of

SIDE = 16
"""A block's threads form a square of this side."""
DEPTH = 16
"""Products that a tile in shared memory is deep."""
THIN = 8
"""Rows or columns below which no tile is made."""


@dataclass(frozen=True)
class Tile:
    """Results that a thread computes: `m` rows, `n` columns, each SIDE apart."""

    m: int
    n: int

    @property
    def rows(self) -> int:
        return self.m * SIDE

    @property
    def columns(self) -> int:
        return self.n * SIDE

    def padded(self, m: int, n: int) -> int:
        """Elements that tiles over m x n have."""
        return -(-m // self.rows) * self.rows * -(-n // self.columns) * self.columns


TILES = (Tile(4, 4), Tile(4, 2), Tile(2, 4), Tile(4, 1), Tile(2, 2), Tile(1, 4), Tile(2, 1), Tile(1, 2), Tile(1, 1))
"""The largest first: they read the least for each product."""


def tile_for(m: int, n: int) -> Tile:
    """The largest tile that wastes at most a quarter more than the one that wastes least."""
    least = min(tile.padded(m, n) for tile in TILES)
    return next(tile for tile in TILES if tile.padded(m, n) <= 1.25 * least)


def lower(node: Node) -> Lowered:
    """Kernels of a contraction region."""
    if node.outputs[0].type.size == 0:
        return Lowered(())
    anchor = anchor_of(node)
    parts = contractions_of(anchor)
    work = max(1, sum(math.prod(part.sizes()) for part in parts))
    calls = []
    for part in parts:
        batch, m, n, _ = part.sizes()
        writer = _Writer(node, anchor, part)
        if min(m, n) < THIN:
            made, grid = writer.thin(), Grid(blocks_of(batch * m * n), THREADS)
        else:
            tile = tile_for(m, n)
            made = writer.tiled(tile)
            grid = Grid(batch * -(-m // tile.rows) * -(-n // tile.columns), SIDE * SIDE)
        calls.append(call(node, made, grid, math.prod(part.sizes()) / work))
    return Lowered(tuple(calls), 0, elementwise_pairs(node, anchor.inputs))


class _Writer:
    def __init__(self, node: Node, anchor: Node, part: Contraction) -> None:
        self.anchor, self.part, self.graph = anchor, part, body_of(node)
        self.type = c_type(anchor.output.type.dtype)
        self.code, self.operands = Code(), operands_of(node)
        self.body = Body(GPU_C, self.graph)

    def thin(self) -> Kernel:
        """A thread for each element, its neighbours along the shorter axis beside it."""
        code, (batch, m, n, k) = self.code, self.part.sizes()
        with kernel_body(code, self.operands), code.each("i", batch * m * n):
            code.line(f"const ptrdiff_t b = i / {m * n};")
            if n <= m:
                code.line(f"const ptrdiff_t m = i % {m * n} / {n}, n = i % {n};")
            else:
                code.line(f"const ptrdiff_t m = i % {m}, n = i % {m * n} / {m};")
            self._digits("b", self.part.b)
            self._digits("m", self.part.m)
            self._digits("n", self.part.n)
            code.line(f"{self.type} sum = 0;")
            with code.loop("k", k):
                self._digits("k", self.part.k)
                conditions = [*inside(self.part.left), *inside(self.part.right)]
                left, right = (self._element(access) for access in (self.part.left, self.part.right))
                with _guarded(code, conditions):
                    code.line(f"sum += {left} * {right};")
            self._finish("sum", "b", "m", "n")
        return self._kernel("thin")

    def tiled(self, tile: Tile) -> Kernel:
        """Blocks go through the tiles of the result by rows."""
        code, (_, m, n, k) = self.code, self.part.sizes()
        across, down = -(-n // tile.columns), -(-m // tile.rows)
        with kernel_body(code, self.operands):
            code.line(f"SHARED {self.type} left_tile[{DEPTH}][{tile.rows}];")
            code.line(f"SHARED {self.type} right_tile[{DEPTH}][{tile.columns}];")
            code.line(f"const ptrdiff_t b = BLOCK / {across * down};")
            code.line(f"const ptrdiff_t m0 = BLOCK / {across} % {down} * {tile.rows};")
            code.line(f"const ptrdiff_t n0 = BLOCK % {across} * {tile.columns};")
            code.line(f"const int tx = THREAD % {SIDE}, ty = THREAD / {SIDE};")
            self._digits("b", self.part.b)
            code.line(f"{self.type} sums[{tile.m}][{tile.n}] = {{{{0}}}};")
            with code.loop("k0", k, step=DEPTH):
                self._load("left", self.part.left, self.part.m, "m", tile.rows, m)
                self._load("right", self.part.right, self.part.n, "n", tile.columns, n)
                code.line("BARRIER;")
                with code.block(f"for (int kk = 0; kk < {DEPTH}; ++kk)"):
                    for i in range(tile.m):
                        code.line(f"const {self.type} l{i} = left_tile[kk][ty + {i * SIDE}];")
                    for j in range(tile.n):
                        code.line(f"const {self.type} r{j} = right_tile[kk][tx + {j * SIDE}];")
                    for i in range(tile.m):
                        for j in range(tile.n):
                            code.line(f"sums[{i}][{j}] += l{i} * r{j};")
                code.line("BARRIER;")
            with (
                code.block(f"for (int i = 0; i < {tile.m}; ++i)"),
                code.block(f"for (int j = 0; j < {tile.n}; ++j)"),
            ):
                code.line(f"const ptrdiff_t m = m0 + ty + i * {SIDE}, n = n0 + tx + j * {SIDE};")
                with code.block(f"if (m < {m} && n < {n})"):
                    self._finish("sums[i][j]", "b", "m", "n")
        return self._kernel("product")

    def _load(self, side: str, access: Access, axis: Axis, flat: str, width: int, extent: int) -> None:
        """Every thread brings some elements of a tile; neighbours in memory come to neighbouring threads."""
        code, k = self.code, self.part.sizes()[3]
        along_k = self._is_run(access, self.part.k) and not self._is_run(access, axis)
        with code.block(f"for (int e = THREAD; e < {DEPTH * width}; e += {SIDE * SIDE})"):
            if along_k:
                code.line(f"const int kk = e % {DEPTH}, x = e / {DEPTH};")
            else:
                code.line(f"const int x = e % {width}, kk = e / {width};")
            code.line(f"const ptrdiff_t {flat} = {flat}0 + x, k = k0 + kk;")
            code.line(f"{self.type} element = 0;")
            with code.block(f"if ({flat} < {extent} && k < {k})"):
                self._digits(flat, axis)
                self._digits("k", self.part.k)
                with _guarded(code, inside(access)):
                    code.line(f"element = {self._element(access)};")
            code.line(f"{side}_tile[kk][x] = element;")

    def _is_run(self, access: Access, axis: Axis) -> bool:
        """Whether neighbours along an axis are neighbours in memory, its last digit's at least."""
        if not axis:
            return False
        name = axis[-1].name
        steps = access.strides.get(name, 0) + sum(
            factor * window.stride for window in access.windows for term, factor in window.terms if term == name
        )
        return steps == 1

    def _digits(self, flat: str, axis: Axis) -> None:
        """Declare the digits of a flat index."""
        for digit, text in zip(axis, digits(flat, [digit.extent for digit in axis]), strict=True):
            self.code.line(f"const ptrdiff_t at_{digit.name} = {text};")

    def _element(self, access: Access) -> str:
        """Expression of an element of an operand, at the digits that are declared."""
        name = self.operands[self.graph.inputs.index(self.anchor.inputs[access.operand])][0]
        return f"{name}[{element_offset(access)}]"

    def _finish(self, total: str, b: str, m: str, n: str) -> None:
        """The region's epilogue on one element of the product, and its results."""
        code, names, results = self.code, dict(self.body.names), list(self.graph.outputs.values())
        nodes = needed(results, self.graph, [self.anchor.output])
        read = {value for node in nodes for value in node.inputs}
        self.body.names[self.anchor.output] = total
        for value, (name, _, _) in zip(self.graph.inputs, self.operands, strict=False):
            if value in read:
                code.line(f"const {c_type(value.type.dtype)} x{name[2:]} = {name}[{self._place(value, b, m, n)}];")
                self.body.names[value] = f"x{name[2:]}"
        self.body.compute(code, nodes)
        for value, (name, _, _) in zip(results, self.operands[len(self.graph.inputs) :], strict=True):
            code.line(f"{name}[{self._place(value, b, m, n)}] = {self.body.names[value]};")
        self.body.names = names

    def _place(self, value: Value, b: str, m: str, n: str) -> str:
        """Expression of the offset of what belongs to element (b, m, n) of the product."""
        part = self.part
        strides = broadcast_strides(value.type.shape, part.shape)
        steps = part.steps(strides)
        base = sum(start * stride for start, stride in zip(part.origin, strides, strict=False))
        terms = []
        for flat, axis in ((b, part.b), (m, part.m), (n, part.n)):
            for digit, text in zip(axis, digits(flat, [digit.extent for digit in axis]), strict=True):
                if steps.get(digit.name, 0):
                    terms.append(f"({text}) * {steps[digit.name]}")
        return " + ".join([*terms, str(base)])

    def _kernel(self, stem: str) -> Kernel:
        types = ", ".join(str(value.type) for value in self.anchor.inputs)
        title = f"{self.anchor.op}({types}): b, m, n, k = {self.part.sizes()}"
        return kernel(f"{stem}_{self.anchor.op}", title, self.code.text(), functions(self.body.needs))


@contextmanager
def _guarded(code: Code, conditions: Sequence[str]) -> Iterator[None]:
    """A block if there are conditions."""
    if not conditions:
        yield
        return
    with code.block(f"if ({' && '.join(conditions)})"):
        yield
