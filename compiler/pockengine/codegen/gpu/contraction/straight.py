"""Operands that lie in memory in the 16-bit format in which matrix units multiply them: frozen weights, and what is
stored rounded.

Their bits go to shared memory as they are, in the background. A tile lies as the operand does: words of two neighbours
along k, or rows of neighbours along the other axis. Knows nothing of how the other operand comes."""

from __future__ import annotations

from .streamed import Side, goes_along_k
from .writer import Writer

DEPTH = 32
"""Numbers along k of a tile."""
APART = 8
"""Numbers between two rows of a tile, so that the threads of a warp read from 32 banks."""
PITCH = (DEPTH + APART) // 2
"""Words from one row to the next of a tile of words along k."""
STAGES = 2


def is_multiplied_as_stored(writer: Writer, name: str, compute: str) -> bool:
    """Whether the `left` or `right` operand lies in memory in this format."""
    access, _, _, _ = writer.side(name)
    return writer.lies(access).dtype.value == compute


def along_k(writer: Writer, name: str) -> bool:
    """Whether neighbours of the `left` or `right` operand in memory are so along k."""
    access, axis, _, _ = writer.side(name)
    return goes_along_k(writer, access, axis)


def copied(writer: Writer, name: str, width: int, compute: str) -> Side | None:
    """The tiles of an operand whose bits can be copied as they are, at least 4 bytes at once; None for any other."""
    if not is_multiplied_as_stored(writer, name, compute):
        return None
    side = Side(name, width, DEPTH, along_k(writer, name), itemsize=2)
    return side if side.vector(writer) else None
