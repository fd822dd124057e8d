"""Kernels of attention and its gradient, after T. Dao, "FlashAttention-2" (2023), algorithms 1 and 2.

A block of threads has a tile of queries (of keys, for their gradients) and goes through those of the others. Eight
neighbours share a row of the tile: each has every eighth score of it, and every eighth element of its result. Tiles are
multiplied in f32, or on matrix units (units.py)."""

from __future__ import annotations

from ....ir import Node
from ....plan.program import Call, Grid, Kernel, Lowered
from ...common.attention import OPS, pays
from ...common.attention import unsupported as unsupported_anywhere
from ...common.region import bytes_of, flops_of
from .forward import Forward
from .gradients import KeyGradients, QueryGradient
from .tiles import LANES, Tiles

__all__ = ["OPS", "claims", "lower", "unsupported"]


def unsupported(node: Node) -> str | None:
    """Why this node has no kernel, or None."""
    reason = unsupported_anywhere(node, "a GPU")
    if reason is None and Tiles.of(node) is None:
        return f"a GPU has no {node.op} of heads as wide as {node.inputs[0].type}"
    return reason


def claims(node: Node) -> bool:
    """Whether it is lowered whole."""
    return node.op in OPS and pays(node) and unsupported(node) is None


def lower(node: Node, compute: str) -> Lowered:
    """The kernels of one node, whose tiles are multiplied in the format `compute` where they are long enough."""
    tiles = Tiles.of(node, compute)
    assert tiles is not None, "it was refused"
    if node.op == "attention":
        return Lowered((_call(node, tiles, Forward(node, tiles).kernel(), tiles.m, tiles.heads, 1.0),))
    queries, keys = QueryGradient(node, tiles), KeyGradients(node, tiles)
    return Lowered(
        (
            _call(node, tiles, queries.kernel(), tiles.m, tiles.heads, 0.4),
            _call(node, tiles, keys.kernel(), tiles.n, tiles.key_heads, 0.6),
        )
    )


def _call(node: Node, tiles: Tiles, made: Kernel, rows: int, heads: int, share: float) -> Call:
    """With all operands of the node, a block for each tile of `rows` of each head."""
    grid = Grid(tiles.batch * heads * -(-rows // tiles.side), tiles.side * LANES)
    operands = (*node.inputs, *node.outputs)
    return Call(made, operands, False, grid, int(flops_of(node) * share), int(bytes_of(node) * share))
