"""Equal nodes become one, and what depends on constants and frozen parameters alone is computed here."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .. import interp
from ..ir import Array, Builder, Graph, Node, Value, substitute
from ..ops import decompresses, prune

FOLD_LIMIT = 64 * 1024
"""Bytes up to which a value that depends only on frozen parameters is computed at compile time: beyond it, carrying
both the parameter and the result would cost more memory than the arithmetic costs time."""


def cse(graph: Graph) -> Graph:
    """Compute equal things once.

    %a = exp(%x); %b = exp(%x)   ->   %a = exp(%x)
    """
    mapping: dict[Value, Value] = {}
    seen: dict[tuple[object, ...], Node] = {}
    nodes: list[Node] = []
    for old in graph.nodes:
        node = substitute(old, mapping)
        key = (node.op, node.inputs, tuple(sorted(node.attrs.items())) if node.attrs else ())
        if node.body is None and key in seen:
            mapping.update(zip(node.outputs, seen[key].outputs, strict=True))
        else:
            seen[key] = node
            nodes.append(node)
    if not mapping:
        return graph
    return graph.with_(
        nodes=tuple(nodes),
        outputs={name: mapping.get(value, value) for name, value in graph.outputs.items()},
        updates={target: mapping.get(value, value) for target, value in graph.updates.items()},
    )


def fold(graph: Graph, frozen: Collection[str] = ()) -> Graph:
    """Evaluate what depends only on constants and frozen parameters.

    %s = rsqrt(%running_var)   ->   const %s
    """
    known = dict(graph.consts)
    known.update({value: graph.data[value.name] for value in graph.params if value.name in frozen})
    if not any(_foldable(node, known) for node in graph.nodes):
        return prune(graph)
    builder = Builder(graph.name)
    builder.adopt_sources(graph)
    mapping: dict[Value, Value] = {}
    for old in graph.nodes:
        node = substitute(old, mapping)
        if _foldable(node, known):
            arrays = interp.run_node(node, [known[value] for value in node.inputs])
            folded = [builder.const(array) for array in arrays]
            mapping.update(zip(node.outputs, folded, strict=True))
            known.update(zip(folded, arrays, strict=True))
        else:
            builder.keep(node)
    builder.outputs = {name: mapping.get(value, value) for name, value in graph.outputs.items()}
    builder.updates = {target: mapping.get(value, value) for target, value in graph.updates.items()}
    return prune(builder.finish())


def _foldable(node: Node, known: Mapping[Value, Array]) -> bool:
    return (
        bool(node.inputs)
        and all(map(known.__contains__, node.inputs))
        and not decompresses(node)  # a weight is compressed so that it is never there in full
        and sum(value.type.nbytes for value in node.outputs) <= FOLD_LIMIT
    )
