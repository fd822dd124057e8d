"""How an attention is cut in tiles."""

from __future__ import annotations

from dataclasses import dataclass

from .....ir import Node
from ..sizes import Sizes

LANES = 8
"""Threads of a row."""
SIDES = (32, 16, 8)
"""Rows and columns of a tile of scores, the largest first."""
SHARED_BYTES = 32 << 10
"""That every GPU gives a block: the least of OpenCL's full profile (OpenCL 1.2 specification, table 4.3)."""


@dataclass(frozen=True)
class Tiles:
    """
    side  rows and columns of a tile of scores"""

    sizes: Sizes
    side: int

    @classmethod
    def of(cls, node: Node) -> Tiles | None:
        """None where not even the smallest tiles fit a block's memory."""
        sizes = Sizes.of(node)
        wide = max(sizes.depth, sizes.width)
        kept = sizes.depth + wide if node.op == "attention" else 2 * (sizes.depth + sizes.width)
        for side in SIDES:
            floats = side * (kept + 4) + 2 * side * (side + 1) + 3 * side
            if 4 * floats <= SHARED_BYTES:
                return cls(sizes, side)
        return None
