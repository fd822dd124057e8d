"""Forward values are computed again where the backward part needs them, instead of being kept until then."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set

from ..ir import Graph, Node, Value
from ..ops import is_kind, is_view, prune


def second_run(node: Node, wanted: Set[Value]) -> Node | None:
    """`node` without the results that are not wanted, such as new running statistics, which a second run must not
    change; None where it cannot do without."""
    if wanted == set(node.outputs):
        return node
    if node.body is None or not wanted:
        return None
    kept = [place for place, value in enumerate(node.outputs) if value in wanted]
    names = list(node.body.outputs)
    body = prune(node.body.with_(outputs={names[place]: node.body.outputs[names[place]] for place in kept}))
    if not any(is_kind(inner, "reduction", "contraction") for inner in body.nodes):
        return None
    places = {value: place for place, value in enumerate(node.body.inputs)}
    read = {value for inner in body.nodes for value in inner.inputs}
    inputs = tuple(value for value in node.body.inputs if value in read)
    return dataclasses.replace(
        node,
        inputs=tuple(node.inputs[places[value]] for value in inputs),
        outputs=tuple(node.outputs[place] for place in kept),
        body=body.with_(inputs=inputs),
        phase="forward",
    )


def rematerialise(graph: Graph, order: Sequence[tuple[Node, bool]]) -> Graph:
    """The nodes in `order`, where (node, True) stands for a second run of a forward node: what follows outside of the
    forward part reads the second results. Views are not in `order`; they go wherever they are needed.

    %y = relu(%x) … %dw = f(%y)   ->   %y = relu(%x) … %y.again = relu(%x); %dw = f(%y.again)

    A second run computes the same bits: nodes have no state, and its operands are the same (`bernoulli` is a function
    of the generator's number, which only an update changes)."""
    views = {node.output: node for node in graph.nodes if is_view(node)}
    return graph.with_(nodes=_Splicer(views).run(order, graph))


class _Splicer:
    def __init__(self, views: dict[Value, Node]) -> None:
        self.views = views
        self.nodes: list[Node] = []
        self.seen: set[Value] = set()  # views that are there
        self.again: dict[Value, Value] = {}
        self.backward = False  # has begun

    def run(self, order: Sequence[tuple[Node, bool]], graph: Graph) -> tuple[Node, ...]:
        for node, second in order:
            self._append(node, second)
        for value in graph.results():
            self._view(value, first=True)
        return tuple(self.nodes)

    def _append(self, node: Node, second: bool) -> None:
        self.backward = self.backward or second or node.phase == "backward"
        first = not second and (node.phase == "forward" or not self.backward)
        inputs = tuple(self._view(value, first) for value in node.inputs)
        if second:
            outputs = tuple(Value(f"{value.name}.again", value.type) for value in node.outputs)
            self.again.update(zip(node.outputs, outputs, strict=True))
            node = dataclasses.replace(node, inputs=inputs, outputs=outputs, phase="backward")
        elif inputs != node.inputs:
            node = dataclasses.replace(node, inputs=inputs)
        self.nodes.append(node)

    def _view(self, value: Value, first: bool) -> Value:
        """`value`, or what stands for it after its second computation; its views are made when they are needed."""
        if not first and value in self.again:
            return self.again[value]
        node = self.views.get(value)
        if node is None:
            return value
        source = self._view(node.inputs[0], first)
        if source is node.inputs[0]:
            if value not in self.seen:
                self.seen.add(value)
                self.nodes.append(node)
            return value
        copy = dataclasses.replace(
            node, inputs=(source,), outputs=(Value(f"{value.name}.again", value.type),), phase="backward"
        )
        self.again[value] = copy.output
        self.nodes.append(copy)
        return copy.output
