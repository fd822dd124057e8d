"""What the integers of each input may be: kernels index memory with them."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Graph, Node


@dataclass(frozen=True)
class IntegerRange:
    """Integers from 0 to `limit` - 1, and `ignored` (0: no other)."""

    limit: int
    ignored: int = 0

    def intersect(self, other: IntegerRange) -> IntegerRange:
        """What both allow."""
        return IntegerRange(min(self.limit, other.limit), self.ignored if self.ignored == other.ignored else 0)


def integer_ranges(graph: Graph) -> dict[str, IntegerRange]:
    """By input name: rows of the table for indices, classes and the ignored label for labels."""
    ranges: dict[str, IntegerRange] = {}
    base = {value: value.name for value in graph.inputs}
    for node in graph.nodes:
        if node.inputs and node.inputs[0] in base and node.op in ("reshape", "slice", "cast"):
            base[node.output] = base[node.inputs[0]]
        found = _range(node)
        if found and node.inputs[1] in base:
            name = base[node.inputs[1]]
            ranges[name] = found.intersect(ranges.get(name, found))
    return ranges


def _range(node: Node) -> IntegerRange | None:
    """Of a node's second input."""
    if node.op == "gather":
        return IntegerRange(node.inputs[0].type.shape[int(node.attrs["axis"])])
    if node.op == "cross_entropy":
        return IntegerRange(node.inputs[0].type.shape[-1], int(node.attrs["ignore_index"]))
    return None
