"""Tiles of a product's operands in shared memory that are filled in the background, and how a warp reads tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...common.lines import Lines
from .straight import APART, PITCH, WORDS, along_k, copied, numbers_of
from .streamed import Side
from .writer import Writer

SIDES = ("left", "right")
STREAMED_WORDS, STREAMED_PITCH = 8, 12
"""Words along k that a tile of f32 is deep, and from one of its rows to the next: the threads of a warp read from 32
banks."""


def words_of(compute: str) -> int:
    """Along k that a tile of a ring is deep."""
    return STREAMED_WORDS if compute == "tf32" else WORDS


def pitch_of(compute: str) -> int:
    """Words from one row of a tile of a ring to the next."""
    return STREAMED_PITCH if compute == "tf32" else PITCH


@dataclass(frozen=True)
class Tile:
    """A tile of words along k in shared memory. `rounds`: its words are f32, which are rounded to tf32."""

    name: str
    pitch: int
    rounds: bool = False

    def load(self, code: Lines, words: str, row: str) -> None:
        """The thread's words of 16 rows from `row` on, 8 words from `kk` on."""
        code.line(f"FRAGMENT({words}, &{self.name}[{row}][kk], {self.pitch});")
        if self.rounds:
            code.line("#pragma unroll")
            with code.block("for (int w = 0; w < 4; ++w)"):
                code.line(f"{words}[w] = TF32(SAME_BITS(uint32_t, float, {words}[w]));")


Loads = Callable[[Lines, str, str], None]
"""`Tile.load`, or what does the same where a tile lies otherwise."""


@dataclass(frozen=True)
class Ring:
    """Tiles of an operand that are copied in the background, `stages` of them, from `first` on in the block's pool.

    rounds  they are f32, which are rounded to tf32 when they are multiplied"""

    side: Side
    stages: int
    rounds: bool = False
    first: int = 0

    @property
    def rows(self) -> int:
        """Of a tile."""
        return self.side.width if self.side.by_k else self.side.deep

    @property
    def pitch(self) -> int:
        """Elements from one row of a tile to the next."""
        if self.rounds:
            return STREAMED_PITCH
        return PITCH if self.side.by_k else self.side.width + APART

    @property
    def type(self) -> str:
        """Of the elements."""
        return "float" if self.rounds else "uint32_t" if self.side.by_k else "uint16_t"

    @property
    def nbytes(self) -> int:
        """Of all tiles."""
        return self.stages * self.rows * self.pitch * (4 if self.side.by_k else 2)

    def declare(self, code: Lines, pooled: bool = False) -> None:
        """As an array of tiles: of its own, or `pooled` in the block's pool."""
        name, tile = f"{self.side.name}_tile", f"[{self.rows}][{self.pitch}]"
        if pooled:
            code.line(f"{self.type} (*const {name}){tile} = ({self.type} (*){tile})(POOL + {self.first});")
        else:
            code.line(f"SHARED {self.type} {name}[{self.stages}]{tile} __attribute__((aligned(16)));")

    def load(self, code: Lines, words: str, row: str) -> None:
        """See Tile."""
        name = f"{self.side.name}_tile[stage]"
        if self.side.by_k:
            Tile(name, self.pitch, self.rounds).load(code, words, row)
        else:
            code.line(f"FRAGMENT_ACROSS({words}, &{name}[2 * kk][{row}], {self.pitch});")


def can_be_copied(writer: Writer, compute: str) -> bool:
    """Whether both operands can: f32 for tf32, what is stored in the format of the product for others."""
    if compute == "tf32":
        return writer.is_f32
    return all(copied(writer, name, 0, compute) is not None for name in SIDES)


def rings_of(writer: Writer, widths: Mapping[str, int], stages: int, compute: str) -> list[Ring]:
    """Of both operands, where both can be copied and there is room for two tiles of each."""
    if stages < 2 or not can_be_copied(writer, compute):
        return []
    tf32, numbers = compute == "tf32", numbers_of(compute)
    deep, itemsize = words_of(compute) * numbers, 4 // numbers
    left, right = (
        Ring(Side(name, widths[name], deep, tf32 or along_k(writer, name), itemsize), stages, tf32) for name in SIDES
    )
    return [left, replace(right, first=left.nbytes)]
