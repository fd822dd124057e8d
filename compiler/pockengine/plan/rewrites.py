"""What planning changes in a graph beside the order: updates that cannot happen in place, weights that lie packed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ..ir import Builder, Graph, Node, RegionKind, Value
from ..ops import Emitter
from .lives import Lower, base_of
from .program import PACKED


def copy_updates(graph: Graph, lower: Lower) -> Graph:
    """Add a copy where new contents cannot be written in place, or where an output is not computed by any node.

    update %w = %v (read elsewhere, or not writable in place)   ->   %c = region(%v) {mul by 1}; update %w = %c
    """
    base, made = base_of(graph), graph.producers()
    nodes, updates, outputs = list(graph.nodes), dict(graph.updates), dict(graph.outputs)
    claimed: set[Value] = {base[value] for value in graph.outputs.values()}
    for target, new in graph.updates.items():
        producer = made.get(base[new])
        if producer is None or base[new] in claimed or not _in_place(producer, base[new], target, base, lower):
            copy = _copy(new, f"{target.name}.copy")
            nodes.append(copy)
            updates[target] = copy.output
        claimed.add(base[new])
    for name, value in graph.outputs.items():
        if base[value] not in made:
            copy = _copy(value, f"{name}.copy")
            nodes.append(copy)
            outputs[name] = copy.output
    return graph.with_(nodes=tuple(nodes), updates=updates, outputs=outputs)


def _in_place(node: Node, new: Value, target: Value, base: Mapping[Value, Value], lower: Lower) -> bool:
    """Whether `node` may write `new` over `target`: it reads the old contents not at all, or element by element."""
    reads = [index for index, value in enumerate(node.inputs) if base[value] is target]
    output = node.outputs.index(new)
    return all((index, output) in lower(node).inplace for index in reads)


def _copy(value: Value, name: str) -> Node:
    builder = Builder("body")
    source = builder.input("source", value.type)
    copied = Emitter(builder).mul(source, 1.0)
    body = builder.finish().with_(outputs={"copy": copied})
    return Node("region", (value,), (Value(name, value.type),), {"kind": RegionKind.ELEMENTWISE}, body, "update", name)


def read_packed(graph: Graph, packed: Collection[str]) -> Graph:
    """Regions that read a weight which lies packed say so; `packed` are the weights' names.

    %y = region(%x, %w) {kind: contraction}   ->   %y = region(%x, %w) {kind: contraction, packed: true}
    """
    weights = {value for value in graph.params if value.name in packed}
    if not weights:
        return graph

    def marked(node: Node) -> Node:
        reads = not weights.isdisjoint(node.inputs)
        return replace(node, attrs={**node.attrs, PACKED: True}) if reads else node

    return graph.with_(nodes=tuple(marked(node) for node in graph.nodes))
