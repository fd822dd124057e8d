"""Which attention is computed whole, a block of scores at a time: what backends that do so have in common."""

from __future__ import annotations

from collections.abc import Collection

from ...ir import DType, Node, Value
from ...ops.attention import HEADS

OPS = frozenset(("attention", "attention_backward"))
LEAST_SCORES = 64 * 64
"""Of a head: fewer are made as a whole (ADR 7)."""
LEAST = "-3.40282347e+38f"
"""The largest score of a row that sees nothing."""


def sizes_of(node: Node) -> tuple[int, int, int, int, int, int, int]:
    """Batch, heads, heads of keys, queries, keys, elements of a query or key, and of a value."""
    inside = bool(node.attrs.get("heads_inside"))
    shapes = (value.type.shape for value in node.inputs[:3])
    q, k, v = (tuple(shape[axis] for axis in HEADS) if inside else shape for shape in shapes)
    return q[0], q[1], k[1], q[2], k[2], q[3], v[3]


def place_of(head: str, heads: int, rows: int, size: int, row: str, *, inside: bool) -> str:
    """C expression of where a row of a head begins in a value [batch, heads, rows, size], or with heads inside [batch,
    rows, heads, size]; `head` counts those of all samples."""
    if inside:
        return f"(({head}) / {heads} * {rows} + {row}) * {heads * size} + ({head}) % {heads} * {size}"
    return f"(({head}) * {rows} + {row}) * {size}"


def masks_of(node: Node) -> list[Value]:
    """The masks among the node's inputs."""
    return list(node.inputs[3 if node.op == "attention" else 6 :])


def unsupported(node: Node, backend: str, stored: Collection[DType] = (DType.F32,)) -> str | None:
    """Why a backend, called so in sentences, has no kernel for the node, or None; `stored` is what numbers with heads
    may lie in memory as."""
    if node.attrs.get("dropout"):
        return "attention with dropout is expanded"
    q, k, *_ = node.inputs
    if any(value.type.dtype not in stored for value in (*node.inputs[:3], *node.outputs)):
        return f"{backend} has {node.op} of f32 only"
    if any(mask.type.dtype not in (DType.BOOL, DType.F32) for mask in masks_of(node)):
        return f"{backend} has {node.op} with masks of f32 and bool only"
    heads = 2 if node.attrs.get("heads_inside") else 1
    if q.type.shape[heads] % max(1, k.type.shape[heads]) or any(value.type.size == 0 for value in node.inputs):
        return f"{backend} has no {node.op} of {q.type} and {k.type}"
    return None


def pays(node: Node) -> bool:
    """Whether a kernel of its own is worth it: not for few scores."""
    time = 1 if node.attrs.get("heads_inside") else 2
    return node.inputs[0].type.shape[time] * node.inputs[1].type.shape[time] >= LEAST_SCORES
