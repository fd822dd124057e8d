"""Attention reads its heads where projections leave them, and writes them where they are read: no transposes."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Graph, Node, Value
from ..ops import Emitter, Rewriting
from ..ops.attention import HEADS, WITH_HEADS


def heads_inside(graph: Graph) -> Graph:
    """Queries, keys and values that are transposed for an attention are read as they were before; `tidy` then cancels
    what is left of the transpositions.

    attention(transpose(%q), transpose(%k), transpose(%v))   ->   transpose(attention(%q, %k, %v) {heads_inside})
    """
    walk = Rewriting(graph)
    for node in walk:
        walk.replace(_rule(walk.emitter, node))
    return walk.graph()


def _rule(e: Emitter, node: Node) -> Sequence[Value] | None:
    tensors = WITH_HEADS.get(node.op, ())
    if not tensors or node.attrs.get("heads_inside") or not all(_turned(e, x) for x in node.inputs[:3]):
        return None
    inputs = [e.transpose(x, HEADS) if index in tensors else x for index, x in enumerate(node.inputs)]
    outputs = e.multi(node.op, inputs, **node.attrs, heads_inside=True)
    with_heads = outputs if node.op == "attention_backward" else outputs[:1]
    return [*(e.transpose(value, HEADS) for value in with_heads), *outputs[len(with_heads) :]]


def _turned(e: Emitter, value: Value) -> bool:
    made = e.builder.producers.get(value)
    return made is not None and made.op == "transpose" and made.attrs["perm"] == HEADS
