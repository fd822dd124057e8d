"""What a block of threads makes of an attention on matrix units."""

from __future__ import annotations

from dataclasses import dataclass

from ..registers import PIECE
from ..sizes import Sizes

APART = 16
"""Bytes between two rows of a tile, so that the threads of a warp read from 32 banks."""
WARPS = 4
THREADS = 32 * WARPS
MOST_FORWARD, MOST_BACKWARD = 256, 128
"""Elements of a query, key or value: of more, the sums of a row do not fit a thread's registers."""
_FULL = 128
"""Elements up to which a warp has two pieces of rows: it reads each tile of the others once for both."""


@dataclass(frozen=True)
class Shape:
    """
    pieces   of 16 rows, that a warp has
    columns  of scores that it makes at a time"""

    pieces: int
    columns: int

    @property
    def rows(self) -> int:
        """Of a block."""
        return WARPS * self.pieces * PIECE

    @property
    def threads(self) -> int:
        """Of a block."""
        return THREADS

    def fits(self, kept: int, read: int, itemsize: int, room: int) -> bool:
        """Whether so many bytes of shared memory have room for tiles of the block's rows, of `kept` numbers in all, and
        for those that they meet, of `read` numbers, in two stages."""
        own, others = kept * itemsize + 2 * APART, read * itemsize + 2 * APART
        return self.rows * own + 2 * self.columns * (others + 12) <= room


def shapes(sizes: Sizes, forward: bool, compute: str, room: int) -> tuple[Shape, ...] | None:
    """Of the forward kernel: queries against keys. Of the gradients: queries against keys, keys against queries. None
    where heads are not made of whole pieces, or too wide for a thread's registers or the block's shared memory."""
    itemsize, most = 4 if compute == "tf32" else 2, MOST_FORWARD if forward else MOST_BACKWARD
    both, wide = sizes.depth + sizes.width, max(sizes.depth, sizes.width)
    suits = sizes.depth % PIECE == sizes.width % PIECE == 0 and wide <= most
    ways = [Shape(2, 32), Shape(1, 32), Shape(1, 16)][0 if forward and wide <= _FULL else 1 :] if suits else []
    kept = sizes.depth if forward else both
    found = next((way for way in ways if way.fits(kept, both, itemsize, room)), None)
    if found is None:
        return None
    return (found,) if forward else (found, found)
