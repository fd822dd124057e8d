"""The one way to change a graph: walk it in order, replace some nodes, keep the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import Builder, Graph, Node, Value, substitute
from .emitter import Emitter
from .registry import get

Rule = Callable[[Emitter, Node], Sequence[Value] | None]
"""(emitter, node with its new inputs) -> the values that replace its outputs, or None to keep the node."""


def rewrite(graph: Graph, rule: Rule, exhaustive: bool = False) -> Graph:
    """The graph with `rule` applied to each node in order: the same object where it leaves all of them alone. New nodes
    take the phase and origin of the node they replace.

    exhaustive  apply the rule also to the nodes it makes, until it leaves them alone; since a rule sees only what comes
                before a node, the whole graph is then done in one walk"""
    builder = Builder(graph.name)
    builder.adopt_sources(graph)
    builder.reserve(value.name for value in graph.values())
    emitter, mapping, changed = Emitter(builder), dict[Value, Value](), False

    def visit(old: Node) -> None:
        nonlocal changed
        node = substitute(old, mapping)
        builder.phase, builder.origin = node.phase, node.origin
        start = len(builder.nodes)
        replaced = rule(emitter, node)
        if replaced is None:
            builder.keep(node)
            return
        changed = True
        if exhaustive:
            for made in builder.take_back(start):
                visit(made)
        mapping.update((old, mapping.get(new, new)) for old, new in zip(node.outputs, replaced, strict=True))

    for node in graph.nodes:
        visit(node)
    if not changed:
        return graph
    builder.outputs = {name: mapping.get(value, value) for name, value in graph.outputs.items()}
    builder.updates = {target: mapping.get(value, value) for target, value in graph.updates.items()}
    return builder.finish()


def expand_where(graph: Graph, chosen: Callable[[Node], bool]) -> Graph:
    """Replace the chosen composites by their expansions, until none is left that is chosen.

    %y = gelu(%x)   ->   %a = mul(%x, 0.707…); %b = erf(%a); …
    """

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        if node.op == "region" or not chosen(node):
            return None
        expand = get(node.op).expand
        return expand(e, node.inputs, node.attrs) if expand else None

    while any(node.op != "region" and get(node.op).expand and chosen(node) for node in graph.nodes):
        graph = rewrite(graph, rule)
    return graph


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
