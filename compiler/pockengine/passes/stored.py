"""Parameters that are stored in 16 bits: what is wide of them is never kept."""

from __future__ import annotations

from ..ir import Builder, Graph, Node, Value, substitute
from ..ops import is_view, reads_rows


def widen_where_read(graph: Graph) -> Graph:
    """Whoever reads a stored parameter widens it anew, just before: a copy in f32 would else lie in memory from the
    forward part to the backward part.

    %v = cast(%w; to=f32); %y = matmul(%x, %v); …; %d = matmul(%g, %v)
      ->   %v = cast(%w; to=f32); %y = matmul(%x, %v); …; %u = cast(%w; to=f32); %d = matmul(%g, %u)
    %v = cast(%w; to=f32); %y = gather(%v, %i) {axis: 0}   ->   %r = gather(%w, %i) {axis: 0}; %y = cast(%r; to=f32)
    """
    stored = {value for value in graph.params if value.type.dtype.is_narrow}
    casts: dict[Value, Node] = {}
    for node in graph.nodes if stored else ():
        if is_view(node) and node.inputs[0] in stored:
            stored.add(node.output)
        elif node.op == "cast" and node.inputs[0] in stored and node.output not in graph.results():
            casts[node.output] = node
    if not casts:
        return graph
    builder = Builder(graph.name)
    builder.adopt_sources(graph)
    read: set[Value] = set()
    for node in graph.nodes:
        if node.outputs[0] in casts:
            continue
        if reads_rows(node) and node.inputs[0] in casts:
            _look_up(builder, casts[node.inputs[0]], node)
            continue
        anew: dict[Value, Value] = {}
        for value in dict.fromkeys(node.inputs):
            if value in casts:
                anew[value] = _cast(builder, casts[value], node, value not in read)
                read.add(value)
        builder.keep(substitute(node, anew))
    builder.outputs, builder.updates = dict(graph.outputs), dict(graph.updates)
    return builder.finish()


def _cast(builder: Builder, cast: Node, reader: Node, first: bool) -> Value:
    """The cast in the reader's phase: itself for the first reader, else another of the same."""
    if first and cast.phase == reader.phase:
        builder.keep(cast)
        return cast.output
    builder.phase, builder.origin = reader.phase, cast.origin
    (value,) = builder.node(cast.op, cast.inputs, [cast.output.type], cast.attrs, inferred=True)
    return value


def _look_up(builder: Builder, cast: Node, reader: Node) -> None:
    """The rows of a table as they are stored, then widened."""
    (table,), attrs, type = cast.inputs, reader.attrs, reader.output.type
    builder.phase, builder.origin = reader.phase, reader.origin
    stored = type.with_dtype(table.type.dtype)
    (rows,) = builder.node(reader.op, (table, *reader.inputs[1:]), [stored], attrs, inferred=True)
    builder.keep(Node(cast.op, (rows,), reader.outputs, cast.attrs, None, reader.phase, reader.origin))
