"""Which forward values are kept for the backward part, where elementwise arithmetic can make the others again.

The kept values are a minimum cut (as in PyTorch's `min_cut_rematerialization_partition`): the fewest bytes between what
elementwise nodes are made of and what the backward part reads. What is made again fuses with its reader, so nothing
more is read or written. Only an operand of a contraction takes a pass over memory, far less than the contraction
itself. Of a GELU, for example, one tensor is kept instead of its result and its derivative.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set

from ..ir import Graph, Node, Value
from ..ops import is_kind, prune
from .cut import ENDLESS, near_side
from .masks import kept_bytes

WANTED, LEAF = -1, -2


def recompute_elementwise(graph: Graph) -> Graph:
    """Keep the fewest bytes for the backward part; make the rest again where it is read.

    forward %u = mul(%x, c), %e = erf(%u) … backward: f(%u, %e)   ->   forward … backward: %u2 = mul(%x, c),
    %e2 = erf(%u2), f(%u2, %e2)
    """
    return _Recompute(graph).run()


class _Recompute:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made = {v: node for node in graph.nodes if node.phase == "forward" for v in node.outputs}
        self.kept = set(graph.results())
        wanted: dict[Value, None] = {}
        for node in graph.nodes:
            if node.phase != "forward":
                read = dict.fromkeys(value for value in node.inputs if value in self.made)
                if is_kind(node, "elementwise", "reduction", "contraction"):
                    wanted |= read
                else:
                    self.kept.update(read)
        self.wanted = [value for value in wanted if value not in self.kept]

    def run(self) -> Graph:
        chosen = self.kept | self._cut()
        again = {value for value in self.wanted if value not in chosen}
        if not again:
            return self.graph
        nodes: list[Node] = []
        for node in self.graph.nodes:
            if node.phase != "forward" and not again.isdisjoint(node.inputs):
                copies: dict[Value, Value] = {}
                for value in node.inputs:
                    if value in again:
                        nodes += self._copied(value, chosen, copies, len(nodes))
                node = dataclasses.replace(node, inputs=tuple(copies.get(value, value) for value in node.inputs))
            nodes.append(node)
        return prune(self.graph.with_(nodes=tuple(nodes)))

    def _copied(self, value: Value, chosen: Set[Value], copies: dict[Value, Value], number: int) -> list[Node]:
        """The nodes that make `value` again, operands first; their results are entered in `copies`."""
        nodes: list[Node] = []
        stack = [value]
        while stack:
            current = stack[-1]
            node = self.made[current]
            missing = [v for v in node.inputs if v in self.made and v not in chosen and v not in copies]
            if missing and current not in copies:
                stack += missing
                continue
            stack.pop()
            if current not in copies:
                copies[current] = Value(f"{current.name}.again{number + len(nodes)}", current.type)
                inputs = tuple(copies.get(v, v) for v in node.inputs)
                nodes.append(dataclasses.replace(node, inputs=inputs, outputs=(copies[current],), phase="backward"))
        return nodes

    def _derivable(self, value: Value) -> bool:
        return is_kind(self.made[value], "elementwise")

    def _cut(self) -> set[Value]:
        """What to keep beside what is kept anyway."""
        values = list(self.wanted)
        index = {value: i for i, value in enumerate(values)}
        for value in values:  # grows while it is walked
            for operand in self.made[value].inputs if self._derivable(value) else ():
                if operand in self.made and operand not in self.kept and operand not in index:
                    index[operand] = len(values)
                    values.append(operand)
        edges: list[tuple[int, int, int]] = []  # against the flow of the step: the cut is nearest to what is read
        for value, i in index.items():
            edges.append((2 * i + 1, 2 * i, kept_bytes(value.type)))
            if self._derivable(value):
                edges += [
                    (2 * i, 2 * index[operand] + 1, ENDLESS) for operand in self.made[value].inputs if operand in index
                ]
            else:
                edges.append((2 * i, LEAF, ENDLESS))
        edges += [(WANTED, 2 * index[value] + 1, ENDLESS) for value in self.wanted]
        behind = near_side(edges, WANTED, LEAF)
        return {value for value, i in index.items() if 2 * i + 1 in behind and 2 * i not in behind}
