"""What the kernels of attention have in common in which warpgroups multiply: tiles, copies of them, products."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .....ir import DType
from .....plan.program import Kernel, TensorMap
from ....common.c_dialect import literal
from ...hopper.engine import COPYING, MULTIPLYING
from ...hopper.units import ACROSS, GROUP, GROUP_ROWS, LINE, LINES, PIECE
from ...source import Operands
from ..registers import COLUMNS, RegisterWriter
from ..registers import PIECE as TERMS
from ..sizes import Sizes
from .shapes import BARRIER, GroupShape, is_raw, lines_of

_ITEMSIZE = 2
_REGISTERS = {2: (COPYING, MULTIPLYING)}
"""Of a thread that copies and of one that multiplies, by the number of warpgroups that multiply. One alone needs none
of the other's."""


@dataclass(frozen=True)
class Tile:
    """Rows of an operand's heads in shared memory, `stages` times: in lines, those of 64 numbers of all rows behind
    each other.

    name     of the tiles
    operand  by its place among the node's inputs
    size     number of its heads, of rows, and their length
    rows     of a tile
    threads  that write beside the engine what belongs to a tile"""

    name: str
    operand: int
    size: tuple[int, int, int]
    rows: int
    stages: int = 1
    threads: int = 0

    @property
    def lines(self) -> int:
        """Of a row."""
        return lines_of(self.size[2])

    @property
    def nbytes(self) -> int:
        """Of one."""
        return self.rows * self.lines * LINE

    def map(self, sizes: Sizes) -> TensorMap:
        """A box is one line of all rows of a tile."""
        heads, rows, length = self.size
        step, dense = length * _ITEMSIZE, sizes.batch * heads
        if sizes.inside:
            extents, strides = (length, heads, rows, sizes.batch), (step, heads * step, rows * heads * step)
            return TensorMap(self.operand, 0, _ITEMSIZE, extents, strides, (ACROSS, 1, self.rows, 1))
        return TensorMap(self.operand, 0, _ITEMSIZE, (length, rows, dense), (step, rows * step), (ACROSS, self.rows, 1))


class GroupsWriter(RegisterWriter[GroupShape]):
    """`tiles` are all that the kernel copies, in the order of their places in shared memory."""

    tiles: tuple[Tile, ...]

    @property
    def raw(self) -> bool:
        """Whether scores stay products of queries and keys, whose scale is a factor of the exponent."""
        return is_raw(self.node)

    @property
    def power(self) -> str:
        """Of 2, by which such a score is multiplied."""
        return literal(self.scale * math.log2(math.e), DType.F32)

    @property
    def kept(self) -> int:
        """Bytes of the pool, with the barriers."""
        return LINE * LINES + self._behind

    @property
    def _behind(self) -> int:
        """Bytes of tiles and barriers."""
        barriers = sum(2 * tile.stages for tile in self.tiles)
        return sum(tile.stages * tile.nbytes for tile in self.tiles) + BARRIER * barriers

    @property
    def behind(self) -> str:
        """Expression of the place behind them."""
        return f"POOL_LINES + {self._behind}"

    def finish(self, stem: str, shared: int = 0) -> Kernel:
        """See AttentionWriter."""
        made = super().finish(f"{stem}_{self.compute}_groups", shared or self.kept)
        return Kernel(made.symbol, made.source, made.shared, tuple(tile.map(self.sizes) for tile in self.tiles))

    @contextmanager
    def block(self, rows: int, scratch: Operands = (), heaviest_last: bool = False) -> Iterator[None]:
        """The function, with tiles and barriers made ready. See `body`."""
        code, places = self.code, [f"TENSOR_MAP({tile.name}_map)" for tile in self.tiles]
        with self.body(rows, scratch, heaviest_last, f"KERNEL_OF({self.shape.threads})", places):
            first = 0
            for tile in self.tiles:
                code.line(f"/* {tile.name}_map: {tile.map(self.sizes)} */")
                array = f"char (*const {tile.name})[{tile.nbytes}]"
                code.line(f"{array} = (char (*)[{tile.nbytes}])(POOL_LINES + {first});")
                first += tile.stages * tile.nbytes
            before = f"(uint64_t *)(POOL_LINES + {first})"
            for tile in self.tiles:
                code.line(f"uint64_t *const {tile.name}_full = {before};")
                before = f"{tile.name}_full + {tile.stages}"
                if tile.stages > 1:
                    code.line(f"uint64_t *const {tile.name}_empty = {before};")
                    before = f"{tile.name}_empty + {tile.stages}"
            with code.block("if (THREAD == 0)"):
                for tile in self.tiles:
                    with code.loop("i", tile.stages):
                        code.line(f"MBARRIER_INIT(&{tile.name}_full[i], {1 + tile.threads});")
                        if tile.stages > 1:
                            code.line(f"MBARRIER_INIT(&{tile.name}_empty[i], {self.shape.groups * GROUP // 32});")
                code.line("MBARRIERS_SEEN;")
            code.line("BARRIER;")
            yield

    @contextmanager
    def copying(self) -> Iterator[None]:
        """What the last warpgroup does."""
        registers = _REGISTERS.get(self.shape.groups)
        with self.code.block(f"if (THREAD / {GROUP} == {self.shape.groups})"):
            self.code.lines([f"REGISTERS_LESS({registers[0]});"] if registers else ())
            yield

    @contextmanager
    def engine(self) -> Iterator[None]:
        """What its one thread does that asks for copies."""
        with self.code.block(f"if (THREAD % {GROUP} == 0)"):
            yield

    @contextmanager
    def multiplying(self) -> Iterator[None]:
        """What the other warpgroups do."""
        registers = _REGISTERS.get(self.shape.groups)
        with self.code.block("else"):
            self.code.lines([f"REGISTERS_MORE({registers[1]});"] if registers else ())
            yield

    def copy(self, tile: Tile, stage: str, head: str, first: str) -> None:
        """Begin to copy a tile: the rows of a head from `first` on."""
        heads, name = tile.size[0], tile.name
        at = (
            f"(int)({head} % {heads}), {first}, (int)({head} / {heads})"
            if self.sizes.inside
            else f"{first}, (int){head}"
        )
        self.code.line(f"MBARRIER_EXPECT(&{name}_full[{stage}], {tile.nbytes});")
        for line in range(tile.lines):
            to = f"{name}[{stage}] + {line * tile.rows * LINE}"
            self.code.line(f"TENSOR_COPY({to}, {name}_map, &{name}_full[{stage}], {line * ACROSS}, {at});")

    def refill(self, tile: Tile, head: str, first: str) -> None:
        """The same in the place `stage`, when it is free."""
        self.code.line(f"MBARRIER_WAIT(&{tile.name}_empty[stage], parity ^ 1);")
        self.copy(tile, "stage", head, first)

    def give_back(self, tile: Tile, stage: str, known: str = "") -> None:
        """The warp reads a tile no more. `known`: an expression that is true, but only known when what it reads is
        computed. So no compiler puts that off until products that are waited for next are made."""
        with self.code.block(f"if ({' && '.join(['THREAD % 32 == 0', known][: 2 if known else 1])})"):
            self.code.line(f"MBARRIER_ARRIVE(&{tile.name}_empty[{stage}]);")

    def own_rows(self, name: str, tile: Tile) -> None:
        """Declare the description of the warpgroup's rows of a tile, as a left operand."""
        first = f"{tile.name}[0] + THREAD / {GROUP} * {GROUP_ROWS * LINE}"
        self.code.line(f"const uint64_t {name} = TILE({first}, {PIECE}, {LINE * LINES});")

    def made(self, name: str) -> None:
        """Declare what `products` makes."""
        self.code.line(f"float {name}[1][{self.shape.columns // COLUMNS}][4];")

    @contextmanager
    def begun(self) -> Iterator[None]:
        """The products within are a group."""
        self.code.line("WGMMA_BEGIN;")
        with self.code.block(""):
            yield
        self.code.line("WGMMA_BEGUN;")

    def products(self, name: str, left: tuple[str, Tile], right: Tile, stage: str) -> None:
        """Begin to make the products of the warpgroup's rows of a tile, whose description is the variable, and a tile's
        rows, whatever `name` was before."""
        code, (rows, tile) = self.code, left
        word, terms, line = f"{self.compute.upper()}_{right.rows}", tile.size[2] // TERMS, ACROSS // TERMS
        with self.begun():
            code.line(f"const uint64_t right = TILE({right.name}[{stage}], {PIECE}, {LINE * LINES});")
            code.line(f"WGMMA_NEW_{word}(&{name}[0][0][0], {rows}, right, 0, 0);")
            code.line("#pragma unroll")
            with code.block(f"for (int kk = 1; kk < {terms}; ++kk)"):
                on = [
                    f"kk / {line} * {one.rows * LINE // PIECE} + kk % {line} * {TERMS * _ITEMSIZE // PIECE}"
                    for one in (tile, right)
                ]
                code.line(f"WGMMA_{word}(&{name}[0][0][0], {rows} + ({on[0]}), right + ({on[1]}), 0, 0);")

    def words(self, name: str) -> None:
        """Declare scores as a left operand."""
        self.code.line(f"uint32_t {name}[{self.shape.columns // TERMS}][4];")

    def pack(self, words: str, weights: str) -> None:
        """Make words of a left operand of scores."""
        with self.each(p=1, kk=(self.shape.columns, TERMS)):
            for number, word in enumerate(self.left_words(weights)):
                self.code.line(f"{words}[kk / {TERMS}][{number}] = {word};")

    def add(self, sums: str, words: str, tile: Tile, stage: str) -> None:
        """Begin to add to sums what packed weights make with the rows of a tile."""
        word = f"WGMMA_HELD_{self.compute.upper()}_{tile.size[2]}"
        with self.begun():
            across = f"TILE({tile.name}[{stage}], {tile.rows * LINE}, {LINE * LINES})"
            self.code.line(f"const uint64_t across = {across};")
            with self.each(kk=tile.rows // TERMS):
                self.code.line(f"{word}(&{sums}[0][0][0], {words}[kk], across + kk * {TERMS * LINE // PIECE}, 1);")
