"""Which pass over a row computes what: the plan of `row` regions, for every language.

A row is walked several times. Each walk computes what needs only the reductions before it, and adds to those that
it feeds."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...ir import Graph, Node, Value
from ...ops import is_kind
from .indexing import broadcast_strides
from .region import body_of
from .scratch import aligned


@dataclass(frozen=True)
class RowPlan:
    """Which pass computes what. `space` is the shape of the full values; its axes from `split` on form the row.

    full    values with one element per element of the row, and the pass that computes them
    level   for every value the first pass in which it may be read (scalars) or is computed (full values)
    """

    graph: Graph
    space: tuple[int, ...]
    split: int
    full: frozenset[Value]
    level: dict[Value, int]
    passes: int

    @classmethod
    def of(cls, node: Node) -> RowPlan:
        graph = body_of(node)
        reductions = [inner for inner in graph.nodes if is_kind(inner, "reduction")]
        space = reductions[0].inputs[0].type.shape
        split = min(min(_axes(inner), default=len(space)) for inner in reductions)
        full: set[Value] = set()
        level: dict[Value, int] = dict.fromkeys(graph.sources(), 0)
        for value in graph.inputs:
            if any(broadcast_strides(value.type.shape, space)[split:]):
                full.add(value)
        for inner in graph.nodes:
            level[inner.output] = max((level[v] for v in inner.inputs), default=0)
            if is_kind(inner, "reduction"):
                level[inner.output] += 1
            elif any(v in full for v in inner.inputs) or _fills_row(inner, split, len(space)):
                full.add(inner.output)
        _sink(graph, full, level)
        last = max(level[value] for value in graph.outputs.values())
        return cls(graph, space, split, frozenset(full), level, last + 1)

    @property
    def rows(self) -> int:
        return math.prod(self.space[: self.split])

    @property
    def length(self) -> int:
        return math.prod(self.space[self.split :])

    def reductions(self, number: int) -> list[Node]:
        """The reductions accumulated in pass `number`."""
        return [n for n in self.graph.nodes if is_kind(n, "reduction") and self.level[n.output] == number + 1]

    @property
    def temporaries(self) -> list[Value]:
        """Full values computed in one pass and read in a later one."""
        kept: dict[Value, None] = {}
        for node in self.graph.nodes:
            reader = _pass_of(node, self.level)
            for value in node.inputs:
                if value in self.full and value not in self.graph.inputs and self.level[value] < reader:
                    kept[value] = None
        return list(kept)

    def temporary_bytes(self, value: Value) -> int:
        return aligned(self.length * value.type.dtype.nbytes)

    def overwritable(self) -> list[tuple[int, int]]:
        """Pairs whose input is last read no later than the pass that writes the output, element by element."""
        if self.length == 1:
            return []
        pairs = []
        for i, value in enumerate(self.graph.inputs):
            readers = [n for n in self.graph.nodes if value in n.inputs]
            read = [_pass_of(n, self.level) for n in readers]
            for o, output in enumerate(self.graph.outputs.values()):
                written = self.level[output] if output in self.full else self.passes
                if (output in self.full) == (value in self.full) and max(read, default=0) <= written:
                    pairs.append((i, o))
        return pairs


def _axes(node: Node) -> tuple[int, ...]:
    axes = node.attrs["axes"]
    assert isinstance(axes, tuple)
    shape = node.inputs[0].type.shape
    return tuple(int(axis) for axis in axes if shape[int(axis)] != 1)


def _sink(graph: Graph, full: Collection[Value], level: dict[Value, int]) -> None:
    """Move what is made of operands alone and first read in a later pass there: nothing has to be kept for it."""
    readers: dict[Value, list[Node]] = {node.output: [] for node in graph.nodes}
    for node in graph.nodes:
        for value in node.inputs:
            readers.get(value, []).append(node)
    outputs = set(graph.outputs.values())
    moved = {node.output: node for node in graph.nodes if node.output in full and node.output not in outputs}
    while True:
        staying = [
            value
            for value, node in moved.items()
            if any(v in full and v in readers and v not in moved for v in node.inputs)
            or any(_pass_of(reader, level) <= level[value] and reader.output not in moved for reader in readers[value])
        ]
        if not staying:
            break
        for value in staying:
            del moved[value]
    for node in reversed(graph.nodes):
        if node.output in moved:
            level[node.output] = min(
                (_pass_of(reader, level) for reader in readers[node.output]), default=level[node.output]
            )


def _pass_of(node: Node, level: Mapping[Value, int]) -> int:
    """The pass in which a node reads its operands."""
    return level[node.output] - (1 if is_kind(node, "reduction") else 0)


def _fills_row(node: Node, split: int, rank: int) -> bool:
    """Whether a `broadcast_to` spreads a number of the row over the row."""
    shape = node.output.type.shape
    return node.op == "broadcast_to" and math.prod(shape[max(0, split - rank + len(shape)) :]) != 1
