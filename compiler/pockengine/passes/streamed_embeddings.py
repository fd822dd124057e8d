"""Large frozen embeddings stay in the weights file: a step gets the rows that its batch names.

The runtime puts those rows into the input block before each run. The table itself takes no memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..ir import Graph, Node, TensorType, Value
from ..ops import is_view, reads_rows

LEAST_BYTES = 1 << 20
SHARE = 4
"""A table stays in the file from LEAST_BYTES on, where the rows of a batch take at most one part in SHARE of it."""


@dataclass(frozen=True)
class StreamedEmbedding:
    """`rows` is the input that holds, for each number of the input `indices`, that row of the parameter `table`."""

    table: str
    indices: str
    rows: str


def embeddings_to_stream(graphs: Mapping[str, Graph], frozen: Collection[str]) -> tuple[StreamedEmbedding, ...]:
    """The tables that all programs together can leave in the weights file."""
    found = [_found(name, graphs) for name in sorted(frozen)]
    return tuple(one for one in found if one is not None)


def _found(table: str, graphs: Mapping[str, Graph]) -> StreamedEmbedding | None:
    """How a parameter is read, if that is by the same input in all programs and never as a whole."""
    indices: set[str] = set()
    for graph in graphs.values():
        value = next((param for param in graph.params if param.name == table), None)
        if value is None or value.type.nbytes < LEAST_BYTES or value in graph.results():
            return None
        given = _views_of_inputs(graph)
        for node in graph.nodes:
            if value not in node.inputs:
                continue
            if not reads_rows(node) or node.inputs[1] not in given:
                return None
            source = given[node.inputs[1]]
            if node.output.type.nbytes * SHARE > value.type.nbytes:
                return None
            indices.add(source.name)
    return StreamedEmbedding(table, indices.pop(), f"{table}.rows") if len(indices) == 1 else None


def _views_of_inputs(graph: Graph) -> dict[Value, Value]:
    """Inputs, and reshapes of them -> the input."""
    given = {value: value for value in graph.inputs}
    for node in graph.nodes:
        if is_view(node) and node.inputs[0] in given:
            given[node.output] = given[node.inputs[0]]
    return given


def stream_embeddings(graph: Graph, streamed: Sequence[StreamedEmbedding]) -> Graph:
    """Rows in the place of tables.

    %h = gather(%table, %ids)   ->   %h = %rows, an input"""
    if not streamed:
        return graph
    rows: dict[str, Value] = {}
    tables = {value.name: value for value in graph.params}
    inputs = {value.name: value for value in graph.inputs}
    for one in streamed:
        table, indices = tables[one.table].type, inputs[one.indices].type
        rows[one.table] = Value(one.rows, TensorType(table.dtype, (*indices.shape, *table.shape[1:])))

    def read(node: Node) -> Node:
        """The node, or a view of the rows."""
        if not reads_rows(node) or node.inputs[0].name not in rows:
            return node
        attrs = {"shape": node.output.type.shape}
        return Node("reshape", (rows[node.inputs[0].name],), node.outputs, attrs, None, node.phase, node.origin)

    return graph.with_(
        inputs=(*graph.inputs, *rows.values()),
        params=tuple(value for value in graph.params if value.name not in rows),
        nodes=tuple(map(read, graph.nodes)),
    )
