"""What waits for the backward part: forward values, or what backward nodes make of nothing but them."""

from __future__ import annotations

from ..ir import Graph, Node, Value
from ..ops import is_kind, is_view
from .cut import ENDLESS, near_side
from .masks import kept_bytes
from .order import hoist

Key = tuple[str, Value | None]
FORWARD: Key = ("forward", None)
BACKWARD: Key = ("backward", None)


def save_least(graph: Graph) -> Graph:
    """Run backward nodes that need forward values alone in the forward part, where fewer bytes wait that way.

    A relu's mask, of one bit (`masks_as_bits`), waits instead of its output, of 32. The derivative of a GELU waits
    instead of what it is made of. The fewest bytes are a minimum cut. No arithmetic is added.

        forward %y … backward: %m = less(0, %y)   ->   forward %y, %m = less(0, %y) … backward: (reads only %m)
    """
    early = _Early(graph)
    chosen = early.chosen()
    return hoist(graph, lambda node: node in chosen) if chosen else graph


class _Early:
    """The elementwise backward nodes that could run in the forward part, and the views between them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.base: dict[Value, Value] = {value: value for value in graph.sources()}
        self.sources = set(graph.sources())
        self.free = self.sources | set(graph.results())
        self.forward: dict[Value, None] = {}
        self.nodes: dict[Value, Node] = {}
        self.views: list[Node] = []
        for node in graph.nodes:
            view = is_view(node)
            self.base |= {value: self.base[node.inputs[0]] if view else value for value in node.outputs}
            if node.phase == "forward":
                self.forward |= dict.fromkeys(node.outputs)
            elif node.phase == "backward" and all(self._known(value) for value in node.inputs):
                if view:
                    self.views.append(node)
                elif is_kind(node, "elementwise"):
                    self.nodes[node.output] = node

    def _known(self, value: Value) -> bool:
        base = self.base[value]
        return base in self.forward or base in self.nodes or base in self.sources

    def chosen(self) -> set[Node]:
        readers, wanted = self._readers()
        edges: list[tuple[Key, Key, int]] = []
        for value, reading in readers.items():
            if value in self.nodes:
                edges.append((("node", value), ("value", value), self._cost(value)))
                if value in wanted:
                    edges.append((("value", value), BACKWARD, ENDLESS))
            elif value in self.forward and value not in wanted:
                edges.append((FORWARD, ("value", value), self._cost(value)))
            for node in reading:
                edges.append((("value", value), ("node", node.output), ENDLESS))
                if value in self.nodes:
                    edges.append((("node", node.output), ("node", value), ENDLESS))
        early = near_side(edges, FORWARD, BACKWARD)
        found = {node for value, node in self.nodes.items() if ("node", value) in early}
        return found | self._views_for(found)

    def _cost(self, value: Value) -> int:
        return 0 if value in self.free else kept_bytes(value.type)

    def _readers(self) -> tuple[dict[Value, list[Node]], set[Value]]:
        """Value -> the nodes of `nodes` that read it, through views as well; and what other later nodes read."""
        readers: dict[Value, list[Node]] = {value: [] for value in (*self.forward, *self.nodes)}
        wanted: set[Value] = set()
        for node in self.graph.nodes:
            if node.phase == "forward" or is_view(node):
                continue
            for value in dict.fromkeys(self.base[value] for value in node.inputs):
                if self.nodes.get(node.outputs[0]) is not node:
                    wanted.add(value)
                elif value in readers:
                    readers[value].append(node)
        return readers, wanted

    def _views_for(self, nodes: set[Node]) -> set[Node]:
        """The views through which these nodes read."""
        made = {view.output: view for view in self.views}
        found: set[Node] = set()
        waiting = [made[value] for node in nodes for value in node.inputs if value in made]
        while waiting:
            view = waiting.pop()
            if view not in found:
                found.add(view)
                waiting += [made[value] for value in view.inputs if value in made]
        return found
