"""Operands that lie in memory in the 16-bit format in which matrix units multiply them: frozen weights.

Their bits go to shared memory as they are, in the background, one step ahead of the product. A tile lies as the operand
does: words of two neighbours along k, or rows of neighbours along the other axis, of which two numbers make a word when
they are read. Knows nothing of how the other operand comes."""

from __future__ import annotations

from ...common.lines import Lines
from .streamed import Side, goes_along_k
from .writer import Writer

DEPTH = 32
"""Numbers along k of a tile."""
_APART = 8
"""Numbers between two rows of a tile, so that the threads of a warp read from 32 banks."""
PITCH = (DEPTH + _APART) // 2
"""Words from one row to the next of a tile of words along k."""
STAGES = 2


def is_multiplied_as_stored(writer: Writer, name: str, compute: str) -> bool:
    """Whether the `left` or `right` operand lies in memory in this format."""
    access, _, _, _ = writer.side(name)
    return writer.lies(access).dtype.value == compute


def copied(writer: Writer, name: str, width: int, compute: str) -> Side | None:
    """The tiles of an operand whose bits can be copied as they are, at least 4 bytes at once; None for any other."""
    if not is_multiplied_as_stored(writer, name, compute):
        return None
    access, axis, _, _ = writer.side(name)
    side = Side(name, width, DEPTH, goes_along_k(writer, access, axis), itemsize=2)
    return side if side.vector(writer) else None


def declare(writer: Writer, side: Side) -> None:
    """Declare the tiles."""
    by_k, across = ("uint32_t", side.width, PITCH), ("uint16_t", DEPTH, side.width + _APART)
    type, rows, pitch = by_k if side.by_k else across
    writer.code.line(f"SHARED {type} {side.name}_tile[{STAGES}][{rows}][{pitch}] __attribute__((aligned(16)));")


def load_across(side: Side, code: Lines, words: str, row: str) -> None:
    """A thread's words of 16 rows or columns from `row` on of the tile `stage`, which lies across k, as FRAGMENT gives
    them (matrix.py)."""
    tile = f"{side.name}_tile[stage]"
    for number, (further, word) in enumerate(((0, 0), (8, 0), (0, 4), (8, 4))):
        x, k = f"{row} + g + {further}", f"2 * (kk + t + {word})"
        code.line(f"{words}[{number}] = {tile}[{k}][{x}] | (uint32_t){tile}[{k} + 1][{x}] << 16;")
