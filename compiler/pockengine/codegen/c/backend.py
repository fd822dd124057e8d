"""The C backend: which template computes a node."""

from __future__ import annotations

from ... import ops
from ...ir import DType, Node
from ...targets import Target
from ..backend import Lowered
from . import (
    columns,
    contraction,
    depthwise,
    elementwise,
    expressions,
    lookup,
    movement,
    ordering,
    pooling,
    random,
    rowwise,
)
from .contraction_plan import anchor_of
from .region import as_region, body_of, unsupported_types

ANCHORS = frozenset(("matmul", "conv2d", "conv2d_dx", "conv2d_dw"))


class CBackend:
    """Turns legal nodes into C kernels. Bare elementwise, reduction and contraction nodes count as regions of one
    node."""

    name = "c"

    def unsupported(self, node: Node) -> str | None:
        """Why this node cannot be lowered, or None."""
        reason = unsupported_types((*node.inputs, *node.outputs))
        if reason:
            return reason
        if node.op in pooling.OPS:
            floats = all(value.type.dtype is DType.F32 for value in node.inputs)
            return None if floats else f"the C backend has {node.op} of f32 only"
        if node.op in movement.OPS | lookup.OPS | ordering.OPS | random.OPS:
            return None
        if node.op == "region":
            return next((reason for inner in body_of(node).nodes if (reason := _unsupported_inside(inner))), None)
        if ops.get(node.op).kind in ("elementwise", "reduction", "contraction"):
            return _unsupported_inside(node)
        return f"the C backend has no template for {node.op}"

    def lower(self, node: Node, target: Target, threads: int) -> Lowered:
        """The kernels of one node, with workspaces for at most `threads` tasks."""
        if node.op in movement.OPS:
            return movement.lower(node)
        if node.op in lookup.OPS:
            return lookup.lower(node)
        if node.op in ordering.OPS:
            return ordering.lower(node)
        if node.op in pooling.OPS:
            return pooling.lower(node)
        if node.op in random.OPS:
            return random.lower(node)
        region = as_region(node)
        kind = region.attrs["kind"]
        if kind == "contraction":
            if depthwise.fits(anchor_of(region)):
                return depthwise.lower(region, target, threads)
            return contraction.lower(region, target, threads)
        if kind == "row":
            return rowwise.lower(region, threads)
        if kind == "column":
            return columns.lower(region, threads)
        return elementwise.lower(region)


def _unsupported_inside(node: Node) -> str | None:
    reason = unsupported_types((*node.inputs, *node.outputs))
    if reason:
        return reason
    if node.op in ANCHORS:
        floats = all(value.type.dtype is DType.F32 for value in node.inputs)
        return None if floats else f"the C backend has {node.op} of f32 only, not of {node.inputs[0].type.dtype.value}"
    if node.op.startswith("reduce_"):
        return "the C backend does not reduce bool" if node.inputs[0].type.dtype is DType.BOOL else None
    return expressions.unsupported(node)
