"""Sizes of an attention."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir import Node
from ...common.attention import place_of, sizes_of


@dataclass(frozen=True)
class Sizes:
    """
    batch, heads, key_heads, m, n   queries are [batch, heads, m, depth], keys [batch, key heads, n, depth]
    depth, width                    elements of a query or key, and of a value
    inside                          they are [batch, m, heads, depth] and [batch, n, key heads, depth] instead"""

    batch: int
    heads: int
    key_heads: int
    m: int
    n: int
    depth: int
    width: int
    inside: bool

    @classmethod
    def of(cls, node: Node) -> Sizes:
        """Those of an attention or its gradient."""
        return cls(*sizes_of(node), bool(node.attrs.get("heads_inside")))

    @property
    def group(self) -> int:
        """Heads that share a key head."""
        return self.heads // self.key_heads

    def stride(self, heads: int, size: int) -> int:
        """From one row of a head to the next."""
        return heads * size if self.inside else size

    def row(self, head: str, heads: int, rows: int, size: int, row: str) -> str:
        """Expression of where a row of a head begins; `head` counts those of all samples."""
        return place_of(head, heads, rows, size, row, inside=self.inside)
