"""The one way to change a graph: walk it in order, replace some nodes, keep the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..ir import Builder, Graph, Node, Value, substitute
from .emitter import Emitter
from .registry import get


class Rewriting:
    """A walk through a graph's nodes in order, in which some are replaced:

        walk = Rewriting(graph)
        for node in walk:
            walk.replace(rule(walk.emitter, node))
        return walk.graph()

    A node comes with its new inputs; what is not replaced is kept. New nodes take the phase and origin of the node they
    replace. The walk calls nobody: who rewrites is in a layer above.

    exhaustive  the nodes that replace others come too, until they are kept; since one sees only what comes before a
                node, the whole graph is then done in one walk"""

    def __init__(self, graph: Graph, exhaustive: bool = False) -> None:
        builder = Builder(graph.name)
        builder.adopt_sources(graph)
        self.emitter = Emitter(builder)
        self._graph, self._builder, self._exhaustive = graph, builder, exhaustive
        self._mapping: dict[Value, Value] = {}
        self._replaced: Sequence[Value] | None = None
        self._changed = False

    def __iter__(self) -> Iterator[Node]:
        builder, mapping = self._builder, self._mapping
        waiting: list[Node | tuple[Node, Sequence[Value]]] = list(reversed(self._graph.nodes))
        while waiting:
            old = waiting.pop()
            if isinstance(old, tuple):
                self._map(*old)
                continue
            node = substitute(old, mapping) if mapping else old
            start = len(builder.nodes)
            builder.phase, builder.origin = node.phase, node.origin
            self._replaced = None
            yield node
            if self._replaced is None:
                builder.keep(node)
                continue
            self._changed = True
            if self._exhaustive:
                waiting.append((node, self._replaced))
                waiting += reversed(builder.take_back(start))
            else:
                self._map(node, self._replaced)

    def replace(self, values: Sequence[Value] | None) -> None:
        """Let these values, made with `emitter`, replace the outputs of the present node; None keeps the node."""
        self._replaced = values

    def graph(self) -> Graph:
        """The graph after the walk; the same object where all nodes were kept."""
        if not self._changed:
            return self._graph
        graph, mapping, builder = self._graph, self._mapping, self._builder
        builder.outputs = {name: mapping.get(value, value) for name, value in graph.outputs.items()}
        builder.updates = {target: mapping.get(value, value) for target, value in graph.updates.items()}
        return builder.finish()

    def _map(self, node: Node, replaced: Sequence[Value]) -> None:
        mapping = self._mapping
        mapping.update((old, mapping.get(new, new)) for old, new in zip(node.outputs, replaced, strict=True))


def composites_of(graph: Graph) -> list[Node]:
    """The nodes that say how they are written in other operators."""
    return [node for node in graph.nodes if node.op != "region" and get(node.op).expand]


def expand(graph: Graph, chosen: Collection[Node]) -> Graph:
    """Replace some of a graph's `composites_of` by their expansions, in which there may be others.

    %y = gelu(%x)   ->   %a = mul(%x, 0.707…); %b = erf(%a); …
    """
    made, walk = {value for node in chosen for value in node.outputs}, Rewriting(graph)
    for node in walk:
        write = get(node.op).expand if node.op != "region" and not made.isdisjoint(node.outputs) else None
        walk.replace(write(walk.emitter, node.inputs, node.attrs) if write else None)
    return walk.graph()


def prune(graph: Graph) -> Graph:
    """Drop nodes and states nothing depends on.

    %a = add(%x, %y)   (unused)   ->   (nothing)
    """
    live = set(graph.results())
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not live.isdisjoint(node.outputs):
            kept.append(node)
            live.update(node.inputs)
    consts = {value: array for value, array in graph.consts.items() if value in live}
    states = {value: fill for value, fill in graph.states.items() if value in live or value in graph.updates}
    if (len(kept), len(consts), len(states)) == (len(graph.nodes), len(graph.consts), len(graph.states)):
        return graph
    return graph.with_(nodes=tuple(reversed(kept)), consts=consts, states=states)
