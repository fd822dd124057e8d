"""What a program in C takes in memory beside its five blocks: machine code, tables, C library, stacks, file headers.

Told from the model alone, so that all schemes and learning rates of a model count the same: docs/memory.md says how far
that is from measured programs.
"""

from __future__ import annotations

from ...ir import Graph, Node

BASE = 262_000
"""Runtime, C library, stacks of the threads and buffers: a static program without kernels."""

OF_NODE = 1600
"""Machine code for each different node of the model, its gradients and rows of tables included."""

OF_PARAMETER = 1850
"""Code and calls of its update; its rows in tables and in the headers of files, with its names."""


def program_bytes(model: Graph) -> int:
    """Resident bytes of a program that trains a model; equal nodes are computed by one kernel."""
    return BASE + OF_NODE * len({_kind(node) for node in model.nodes}) + OF_PARAMETER * len(model.params)


def _kind(node: Node) -> tuple[object, ...]:
    return node.op, *(value.type for value in (*node.inputs, *node.outputs))
