"""Equal nodes become one, and what depends on constants and frozen parameters alone is computed here."""

from __future__ import annotations

from collections.abc import Collection, Iterable

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
    known = _Known(graph, frozen)
    if not any(map(known.folds, graph.nodes)):
        return prune(graph)
    builder = Builder(graph.name)
    builder.adopt_sources(graph)
    mapping: dict[Value, Value] = {}
    for old in graph.nodes:
        node = substitute(old, mapping)
        if known.folds(node):
            arrays = interp.run_node(node, [known.arrays[value] for value in node.inputs])
            folded = [builder.const(array) for array in arrays]
            mapping.update(zip(node.outputs, folded, strict=True))
            known.add(folded, arrays)
        else:
            builder.keep(node)
    builder.outputs = {name: mapping.get(value, value) for name, value in graph.outputs.items()}
    builder.updates = {target: mapping.get(value, value) for target, value in graph.updates.items()}
    return prune(builder.finish())


class _Known:
    """Constants, and of the frozen parameters those that something small is made of: of no other it is asked whether it
    is frozen."""

    def __init__(self, graph: Graph, frozen: Collection[str]) -> None:
        self.arrays = dict(graph.consts)
        self._data, self._frozen = graph.data, frozen
        self._possible = {*graph.consts, *graph.params}

    def add(self, values: Iterable[Value], arrays: Iterable[Array]) -> None:
        """What was computed."""
        new = dict(zip(values, arrays, strict=True))
        self.arrays |= new
        self._possible.update(new)

    def folds(self, node: Node) -> bool:
        """Whether a node can be computed."""
        return (
            bool(node.inputs)
            and all(map(self._possible.__contains__, node.inputs))
            and not decompresses(node)  # a weight is compressed so that it is never there in full
            and sum(value.type.nbytes for value in node.outputs) <= FOLD_LIMIT
            and all(map(self._is_known, node.inputs))
        )

    def _is_known(self, value: Value) -> bool:
        if value not in self.arrays and value.name in self._frozen:
            self.arrays[value] = self._data[value.name]
        return value in self.arrays
