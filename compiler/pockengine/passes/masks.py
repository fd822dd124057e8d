"""Masks that the backward part reads are kept until then as bits, eight to a byte."""

from __future__ import annotations

import dataclasses

from ..ir import DType, Graph, Node, TensorType, Value
from ..ops import is_kind, is_view

LEAST_SIZE = 4096
"""Elements of the smallest mask that is packed: of a smaller one there is too little to save."""
TOGETHER = 8
"""Elements of a byte: the last axis of a mask has whole ones, so that no two threads write the same."""


def masks_as_bits(graph: Graph) -> Graph:
    """A bool that the forward part makes and only elementwise backward nodes read is kept as bits.

    forward %m = less(0, %y) … backward: where(%m, %dy, 0)   ->
    forward %m = less(0, %y), %b = cast(%m) {to: bit} … backward: %n = cast(%b) {to: bool}, where(%n, %dy, 0)
    """
    return _Masks(graph).run()


def kept_bytes(type: TensorType) -> int:
    """Bytes that a value of this type takes while it waits for the backward part."""
    return (type.with_dtype(DType.BIT) if _packable(type) else type).nbytes


def _packable(type: TensorType) -> bool:
    return type.dtype is DType.BOOL and type.size >= LEAST_SIZE and type.shape[-1] % TOGETHER == 0


class _Masks:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.users = graph.users()
        self.results = set(graph.results())
        self.bits: dict[Value, Value] = {}

    def run(self) -> Graph:
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes += self._read(node, len(nodes)) if node.phase != "forward" else [node]
            nodes += [self._packed(value, node) for value in node.outputs if self._waits(value, node)]
        return self.graph.with_(nodes=tuple(nodes)) if self.bits else self.graph

    def _waits(self, value: Value, node: Node) -> bool:
        """Whether a value only waits for elementwise nodes of the backward part, in the end."""
        if node.phase != "forward" or not _packable(value.type):
            return False
        later = self._readers(value)
        return bool(later) and all(is_kind(reader, "elementwise") for reader in later)

    def _readers(self, value: Value) -> list[Node]:
        """The later nodes that read a value, through views as well; nothing where it is a result."""
        found: list[Node] = []
        for node in self.users[value]:
            if node.phase != "forward":
                found += self._readers(node.output) if is_view(node) else [node]
        return [] if value in self.results else found

    def _packed(self, value: Value, node: Node) -> Node:
        self.bits[value] = Value(f"{value.name}.bits", value.type.with_dtype(DType.BIT))
        to = {"to": DType.BIT.value}
        return Node("cast", (value,), (self.bits[value],), to, phase="forward", origin=node.origin)

    def _read(self, node: Node, number: int) -> list[Node]:
        """A later node, and before it what makes bools of the bits it reads; a view becomes one of the bits."""
        read = [value for value in dict.fromkeys(node.inputs) if value in self.bits]
        if not read:
            return [node]
        if is_view(node):
            view = Value(f"{node.output.name}.bits", node.output.type.with_dtype(DType.BIT))
            self.bits[node.output] = view
            return [dataclasses.replace(node, inputs=(self.bits[read[0]],), outputs=(view,))]
        again = {value: Value(f"{value.name}.bool{number}", value.type) for value in read}
        to = {"to": DType.BOOL.value}
        casts = [
            Node("cast", (self.bits[value],), (again[value],), to, phase=node.phase, origin=node.origin)
            for value in read
        ]
        return [*casts, dataclasses.replace(node, inputs=tuple(again.get(value, value) for value in node.inputs))]
