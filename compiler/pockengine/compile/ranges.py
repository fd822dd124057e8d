"""What the integers of each input may be: kernels index memory with them."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Graph
from ..ops import record_of


@dataclass(frozen=True)
class IntegerRange:
    """Integers from 0 to `limit` - 1, and `ignored` (0: no other)."""

    limit: int
    ignored: int = 0

    def intersect(self, other: IntegerRange) -> IntegerRange:
        """What both allow."""
        return IntegerRange(min(self.limit, other.limit), self.ignored if self.ignored == other.ignored else 0)


def integer_ranges(graph: Graph) -> dict[str, IntegerRange]:
    """By input name: how many elements indices choose from, and for labels the ignored one."""
    ranges: dict[str, IntegerRange] = {}
    base = {value: value.name for value in graph.inputs}
    for node in graph.nodes:
        record = record_of(node)
        if record.carries is not None and node.inputs[0] in base:
            base[node.output] = base[node.inputs[0]]
        indices = record.indices
        if indices is not None and node.inputs[indices.operand] in base:
            name = base[node.inputs[indices.operand]]
            found = IntegerRange(indices.limit(node), int(node.attrs[indices.ignored]) if indices.ignored else 0)
            ranges[name] = found.intersect(ranges.get(name, found))
    return ranges
