"""What a block of threads makes of an attention where warpgroups multiply."""

from __future__ import annotations

from dataclasses import dataclass

from .....ir import Node
from .....ops.attention import WITH_HEADS
from .....targets import Gpu
from ....common.attention import masks_of
from ...hopper.units import ACROSS, GROUP, GROUP_ROWS, LINE, LINES
from ..registers import PIECE
from ..sizes import Sizes

MOST_FORWARD, MOST_BACKWARD = 256, 128
"""Elements of a query, key or value: of more, the sums of a row do not fit a thread's registers."""
LEVELS = 2
"""Numbers that the gradients keep of each query."""
_FULL = 128
"""Elements up to which there is room for scores of as many keys beside them; of more, of half as many. So it is
where masks take registers, too."""
_GRADIENTS = (64, 128, 80), (96, 96, 64), (MOST_BACKWARD, 96, 48)
"""Elements up to which gradients of queries meet so many keys at a time, and those of keys so many queries: of more,
NVIDIA's compiler has too few registers for products that go on beside others, and lets each wait for the one before."""
BARRIER = 8
"""Bytes of one."""


@dataclass(frozen=True)
class GroupShape:
    """
    groups   warpgroups that multiply, each of which has 64 rows
    columns  of scores that they make at a time
    stages   places for tiles of those"""

    groups: int
    columns: int
    stages: int = 2

    @property
    def pieces(self) -> int:
        """See RegisterShape."""
        return 1

    @property
    def rows(self) -> int:
        """Of a block."""
        return self.groups * GROUP_ROWS

    @property
    def threads(self) -> int:
        """Of a block: with the warpgroup that copies."""
        return (self.groups + 1) * GROUP

    @property
    def level_bytes(self) -> int:
        """Of what gradients of keys know of the queries that they meet."""
        return 4 * LEVELS * self.stages * self.columns

    def fits(self, kept: int, read: int, room: int) -> bool:
        """Whether so many bytes of shared memory have room for tiles of the block's rows, of `kept` lines each, and for
        those that they meet, of `read` lines, with all barriers."""
        tiles = (self.rows * kept + self.stages * self.columns * read) * LINE
        return LINE * LINES + tiles + BARRIER * (4 + 4 * self.stages) + self.level_bytes <= room


def lines_of(length: int) -> int:
    """Of a row of so many numbers."""
    return -(-length // ACROSS)


def is_raw(node: Node) -> bool:
    """Whether only the causal limit comes between the products of queries and keys and the softmax."""
    return not masks_of(node) and not node.attrs.get("softcap") and float(node.attrs["scale"]) > 0


def shapes(node: Node, sizes: Sizes, compute: str, gpu: Gpu) -> tuple[GroupShape, ...] | None:
    """Of the forward kernel: queries against keys. Of the gradients: queries against keys, keys against queries. None
    where a GPU has no such units, heads are too wide or not made of whole pieces, the engine cannot copy what is not
    stored in the format of the products, or a gradient is of more than raw scores."""
    forward, wide = node.op == "attention", max(sizes.depth, sizes.width)
    suits = gpu.has_warpgroup_units and sizes.depth % PIECE == sizes.width % PIECE == 0
    if not suits or any(node.inputs[at].type.dtype.value != compute for at in WITH_HEADS[node.op]):
        return None
    if wide > (MOST_FORWARD if forward else MOST_BACKWARD) or not (forward or is_raw(node)):
        return None
    depth, both = lines_of(sizes.depth), lines_of(sizes.depth) + lines_of(sizes.width)
    ways = [(sizes.m, sizes.n, *_forward_columns(node, wide))]
    if not forward:
        of_queries, of_keys = next(columns for most, *columns in _GRADIENTS if wide <= most)
        ways = [(sizes.m, sizes.n, of_queries, 64), (sizes.n, sizes.m, of_keys, min(of_keys, 64))]
    found = [_shape(way, depth if forward else both, both, gpu) for way in ways]
    return None if None in found else tuple(one for one in found if one)


def _forward_columns(node: Node, wide: int) -> tuple[int, int]:
    most = (128 if wide <= _FULL else 64) // (2 if masks_of(node) else 1)
    return most, min(most, 64)


def _shape(way: tuple[int, int, int, int], kept: int, read: int, gpu: Gpu) -> GroupShape | None:
    """Of so many rows against others, with so many columns at a time, or fewer; see GroupShape.fits."""
    rows, others, most, few = way
    found = (
        GroupShape(2 if rows > GROUP_ROWS else 1, columns) for columns in (most, few) if others > few or columns == few
    )
    return next((one for one in found if one.fits(kept, read, gpu.block_shared_bytes)), None)
