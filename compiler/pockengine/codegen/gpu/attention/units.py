"""Products of tiles in shared memory on matrix units: numbers are f32 there, and rounded when they are multiplied.

The words of GPU-C are those of contraction/matrix.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..pace import WARP
from ..source import Code
from .tiles import LANES, PIECE, Tiles

Element = Callable[[str, str], str]
"""Expression of an element of a tile, of its row or column and its term."""
COLUMNS = 8
"""Of a piece."""


@dataclass(frozen=True)
class Product:
    """Pieces of a product in registers: `name`, of a result with `columns` columns."""

    units: Units
    name: str
    columns: int

    def store(self, into: str) -> None:
        """To a tile in shared memory."""
        with self.units.pieces(self.columns):
            for s in range(4):
                place = f"[row + {s // 2 * 8}][edge + 2 * t + {s % 2}]"
                self.units.code.line(f"{into}{place} = {self.name}[p][{s}];")


class Units:
    """Of a block with a tile of scores."""

    def __init__(self, code: Code, tiles: Tiles) -> None:
        self.code, self.tiles = code, tiles
        self._numbers = 1 if tiles.format == "tf32" else 2
        self._made = 0

    def declare(self) -> None:
        """Which part of a piece is the thread's."""
        self.code.line("const int g = THREAD % 32 / 4, t = THREAD % 4;")

    def product(self, columns: int, terms: int, left: Element, right: Element) -> Product:
        """Declare the product of a tile of `side` rows and one of so many columns."""
        code, made = self.code, Product(self, f"product{self._made}", columns)
        self._made += 1
        code.line(f"float {made.name}[{self._share(columns)}][4] = {{{{0}}}};")
        with self.pieces(columns), code.block(f"for (int k = 0; k < {terms}; k += {8 * self._numbers})"):
            code.line("uint32_t l[4], w[2];")
            for number, (rows, words) in enumerate(((0, 0), (8, 0), (0, 4), (8, 4))):
                code.line(f"l[{number}] = {self._word(left, f'row + {rows}', words)};")
            for number, words in enumerate((0, 4)):
                code.line(f"w[{number}] = {self._word(right, 'edge + g', words)};")
            code.line(f"MMA_{self.tiles.format.upper()}({made.name}[p], l, w);")
        return made

    @contextmanager
    def pieces(self, columns: int) -> Iterator[None]:
        """For each of the warp's pieces `p`: the thread's first `row`, and the piece's first column `edge`. Where there
        are fewer pieces than warps, some make the same."""
        code, across = self.code, columns // COLUMNS
        count = self.tiles.side // PIECE * across
        code.line("#pragma unroll")
        with code.block(f"for (int p = 0; p < {self._share(columns)}; ++p)"):
            code.line(f"const int turn = THREAD / {WARP} + p * {self._warps};")
            code.line(f"const int piece = turn < {count} ? turn : {count - 1};")
            code.line(f"const int row = piece / {across} * {PIECE} + g, edge = piece % {across} * {COLUMNS};")
            yield

    @property
    def _warps(self) -> int:
        return self.tiles.side * LANES // WARP

    def _share(self, columns: int) -> int:
        """Pieces of a warp."""
        return -(-(self.tiles.side // PIECE * columns // COLUMNS) // self._warps)

    def _word(self, element: Element, place: str, words: int) -> str:
        """The thread's word of a row or column, rounded."""
        first = f"k + (t + {words}) * {self._numbers}"
        if self._numbers == 1:
            return f"TF32({element(place, first)})"
        return f"PACK_{self.tiles.format.upper()}({element(place, first)}, {element(place, f'{first} + 1')})"
