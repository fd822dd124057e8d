"""Calls of C kernels on a node's operands, and the operands' names in C."""

from __future__ import annotations

from ....ir import Node
from ....plan.program import WHOLE, Call, Kernel, Tasks
from ...common.region import bytes_of, flops_of

PARALLEL_BYTES = 64 << 10
"""Kernels that move fewer bytes and compute less than twice as many operations run on the calling thread: handing work
out costs some microseconds."""


def input_names(node: Node) -> list[str]:
    """C names of the node's inputs, in order."""
    return [f"in{i}" for i in range(len(node.inputs))]


def output_names(node: Node) -> list[str]:
    """C names of the node's outputs, in order."""
    return [f"out{i}" for i in range(len(node.outputs))]


def call(node: Node, kernel: Kernel, workspace: bool = False, parallel: bool | None = None, share: float = 1.0) -> Call:
    """A call of `kernel` on all operands of the node. `share` is the part of the node's work this call does."""
    flops, moved = flops_of(node), bytes_of(node)
    if parallel is None:
        parallel = moved >= PARALLEL_BYTES or flops >= 2 * PARALLEL_BYTES
    operands = (*node.inputs, *node.outputs)
    return Call(kernel, operands, WHOLE if workspace else (), Tasks(parallel), int(flops * share), int(moved * share))
