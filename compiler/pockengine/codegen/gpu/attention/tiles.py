"""Sizes of an attention, and how it is cut in tiles."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir import Node
from ...common.attention import place_of, sizes_of

LANES = 8
"""Threads of a row."""
SIDES = (32, 16, 8)
"""Rows and columns of a tile of scores, the largest first."""
SHARED_BYTES = 32 << 10
"""That every GPU gives a block: the least of OpenCL's full profile (OpenCL 1.2 specification, table 4.3)."""
UNITS_BYTES = 48 << 10
"""The same of GPUs with matrix units, which are NVIDIA's."""
PIECE = 16
"""Rows that matrix units multiply together, and terms of 16 bits."""


@dataclass(frozen=True)
class Tiles:
    """Sizes of an attention, and the side of its tiles of scores.

    batch, heads, key_heads, m, n   queries are [batch, heads, m, depth], keys [batch, key heads, n, depth]
    inside                          they are [batch, m, heads, depth] and [batch, n, key heads, depth] instead
    depth, width                    elements of a query or key, and of a value
    format                          in which tiles are multiplied on matrix units; f32: without them"""

    batch: int
    heads: int
    key_heads: int
    m: int
    n: int
    depth: int
    width: int
    inside: bool
    side: int
    format: str

    @classmethod
    def of(cls, node: Node, compute: str = "f32") -> Tiles | None:
        """None where not even the smallest tiles fit a block's memory."""
        sizes = sizes_of(node)
        depth, width = sizes[-2:]
        kept = depth + max(depth, width) if node.op == "attention" else 2 * (depth + width)
        ways = [(side, "f32", SHARED_BYTES) for side in SIDES]
        if compute != "f32" and depth % PIECE == width % PIECE == 0:
            ways = [*((side, compute, UNITS_BYTES) for side in SIDES if side % PIECE == 0), *ways]
        for side, format, most in ways:
            floats = side * (kept + 4) + 2 * side * (side + 1) + 3 * side
            if 4 * floats <= most:
                return cls(*sizes, bool(node.attrs.get("heads_inside")), side, format)
        return None

    @property
    def group(self) -> int:
        """Heads that share a key head."""
        return self.heads // self.key_heads

    def row(self, head: str, heads: int, rows: int, size: int, row: str) -> str:
        """Expression of where a row of a head begins; `head` counts those of all samples."""
        return place_of(head, heads, rows, size, row, inside=self.inside)
