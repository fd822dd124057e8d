"""Weights and optimizer state that a GPU leaves in its host's memory.

State is read and written there, element by element, by the kernels that update. A frozen weight is copied to the arena
for each node that reads it, and is there no longer than that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ..ir import Graph, Node, Value
from ..ops import is_view, reads_rows

LEAST_BYTES = 64 << 10
"""Of a tensor that is offloaded: what smaller ones take is not worth a copy."""

FROM_HOST = "from_host"
"""Attribute of a copy whose operand lies in the host's memory."""


def offloaded_of(graphs: Mapping[str, Graph], frozen: Collection[str], kinds: Collection[str]) -> frozenset[str]:
    """Names of the parameters and states of these kinds (`Recipe.offload`) that are large enough."""
    found = set[str]()
    for graph in graphs.values():
        if "frozen" in kinds:
            found |= {value.name for value in graph.params if value.name in frozen and _is_large(value)}
        if "state" in kinds:
            found |= {value.name for value in graph.updates if value in graph.states and _is_large(value)}
    return frozenset(found)


def _is_large(value: Value) -> bool:
    return value.type.nbytes >= LEAST_BYTES


def copy_from_host(graph: Graph, offloaded: Collection[str]) -> Graph:
    """A copy for each node that reads what is offloaded and does not change it; but single rows are read where they
    are.

    %y = region(%x, %w)   ->   %c = slice(%w) {from_host: true}; %y = region(%x, %c)
    """
    if not offloaded:
        return graph
    there = {
        value for value in (*graph.params, *graph.states) if value.name in offloaded and value not in graph.updates
    }
    nodes: list[Node] = []
    for node in graph.nodes:
        if is_view(node) and node.inputs[0] in there:
            there.add(node.output)
        elif not (is_view(node) or reads_rows(node) or there.isdisjoint(node.inputs)):
            copies = {value: _copy(value, node, len(nodes)) for value in node.inputs if value in there}
            nodes += copies.values()
            inputs = tuple(copies[value].output if value in copies else value for value in node.inputs)
            node = replace(node, inputs=inputs)
        nodes.append(node)
    return graph.with_(nodes=tuple(nodes))


def _copy(value: Value, reader: Node, number: int) -> Node:
    """All of a tensor, as a slice that leaves nothing out."""
    shape = value.type.shape
    whole = {"starts": (0,) * len(shape), "stops": shape, "steps": (1,) * len(shape), FROM_HOST: True}
    here = Value(f"{value.name}.here.{number}", value.type)
    return Node("slice", (value,), (here,), whole, None, reader.phase, reader.origin)
