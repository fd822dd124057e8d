"""Kernels of attention and its gradient, after T. Dao, "FlashAttention-2" (2023), algorithms 1 and 2.

A block of threads has a tile of queries (of keys, for their gradients) and goes through those of the others. Scores are
never there as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ....ir import DType, Node
from ....plan.program import WHOLE, Call, Grid, Kernel, Lowered
from ....targets import Target
from ...common.attention import OPS, pays
from ...common.attention import unsupported as unsupported_anywhere
from ...common.region import bytes_of, flops_of
from ..pace import gpu_of
from ..source import THREADS
from . import groups, plain, units
from .registers import RegisterShape, RegisterWriter
from .sizes import Sizes

__all__ = ["OPS", "claims", "lower", "rounds", "unsupported"]


def unsupported(node: Node) -> str | None:
    """Why this node has no kernel, or None."""
    reason = unsupported_anywhere(node, "a GPU", (DType.F32, DType.BF16, DType.F16))
    if reason is None and plain.Tiles.of(node) is None:
        return f"a GPU has no {node.op} of heads as wide as {node.inputs[0].type}"
    return reason


def claims(node: Node) -> bool:
    """Whether it is lowered whole."""
    return node.op in OPS and pays(node) and unsupported(node) is None


def rounds(node: Node, target: Target) -> DType | None:
    """The 16-bit format in which matrix units multiply what the node reads; None where they do not."""
    if node.op not in OPS or target.compute not in ("bf16", "f16") or _shapes(node, target) is None:
        return None
    return DType(target.compute)


def lower(node: Node, target: Target) -> Lowered:
    """The kernels of one node: on matrix units, in the format `target.compute`, where they suit; by warpgroups where
    those do."""
    by_warps, sizes, compute = _shapes(node, target), Sizes.of(node), target.compute
    if by_warps is None:
        return _plain(node)
    by_groups = groups.shapes(node, sizes, compute, gpu_of(target))
    made = (
        _made(node, _OF_WARPS[node.op], by_warps, compute)
        if by_groups is None
        else _made(node, _OF_GROUPS[node.op], by_groups, compute)
    )
    if node.op == "attention":
        ((kernel, grid),) = made
        return Lowered((_call(node, kernel, grid, 1.0),))
    count = sizes.batch * sizes.heads * sizes.m
    deltas = units.Deltas(node, sizes, by_warps[0], compute).kernel()
    made = [(deltas, Grid(-(-count // units.ROWS), THREADS)), *made]
    parts = zip(made, (0.0, 3 / 7, 4 / 7), strict=True)
    return Lowered(tuple(_call(node, kernel, grid, share, True) for (kernel, grid), share in parts), 4 * count)


S = TypeVar("S", bound=RegisterShape)
Writers = Sequence[Callable[[Node, Sizes, S, str], RegisterWriter[S]]]
"""Of the kernel of attention, or of those of its gradients: for queries, then for keys."""
_OF_WARPS: Mapping[str, Writers[units.Shape]] = {
    "attention": (units.Forward,), "attention_backward": (units.QueryGradient, units.KeyGradients),
}  # fmt: skip
_OF_GROUPS: Mapping[str, Writers[groups.GroupShape]] = {
    "attention": (groups.Forward,), "attention_backward": (groups.QueryGradient, groups.KeyGradients),
}  # fmt: skip


def _made(node: Node, writers: Writers[S], shapes: Sequence[S], compute: str) -> list[tuple[Kernel, Grid]]:
    """Kernels, and how they are started."""
    sizes, found = Sizes.of(node), list[tuple[Kernel, Grid]]()
    for keys, (writer, shape) in enumerate(zip(writers, shapes, strict=True)):
        grid = _grid(sizes, shape.rows, shape.threads, bool(keys))
        found.append((writer(node, sizes, shape, compute).kernel(), grid))
    return found


def _plain(node: Node) -> Lowered:
    tiles, sizes = plain.Tiles.of(node), Sizes.of(node)
    assert tiles is not None, "it was refused"
    threads = tiles.side * plain.LANES
    by_queries, by_keys = (_grid(sizes, tiles.side, threads, keys) for keys in (False, True))
    if node.op == "attention":
        return Lowered((_call(node, plain.Forward(node, tiles).kernel(), by_queries, 1.0),))
    queries, keys = plain.QueryGradient(node, tiles), plain.KeyGradients(node, tiles)
    return Lowered(
        (_call(node, queries.kernel(), by_queries, 0.4), _call(node, keys.kernel(), by_keys, 0.6)),
    )


def _shapes(node: Node, target: Target) -> tuple[units.Shape, ...] | None:
    """What blocks make on matrix units: of the forward kernel, or of both gradients. None where they do not suit."""
    sizes, gpu = Sizes.of(node), gpu_of(target)
    if target.compute == "f32" or not gpu.copies_apart:
        return None
    return units.shapes(sizes, node.op == "attention", target.compute, gpu.block_shared_bytes)


def _grid(sizes: Sizes, side: int, threads: int, keys: bool = False) -> Grid:
    """A block for each tile of queries, or of keys, of each head."""
    rows, heads = (sizes.n, sizes.key_heads) if keys else (sizes.m, sizes.heads)
    return Grid(sizes.batch * heads * -(-rows // side), threads)


def _call(node: Node, made: Kernel, grid: Grid, share: float, workspace: bool = False) -> Call:
    """With all operands of the node, and this share of its work."""
    operands = (*node.inputs, *node.outputs)
    return Call(
        made, operands, WHOLE if workspace else (), grid, int(flops_of(node) * share), int(bytes_of(node) * share)
    )
