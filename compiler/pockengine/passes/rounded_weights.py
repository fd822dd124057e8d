"""Frozen weights that products alone read, and round on their way to a processor's matrix units, lie in memory rounded:
no step does it again, and results are the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..ir import DType, Graph, Node, RegionKind, Value, substitute
from .rounded import Rounding, Rounds, only_moves, rewritten


def weights_to_round(graphs: Iterable[Graph], frozen: Collection[str], rounds: Rounds) -> dict[str, DType]:
    """The frozen weights of f32 that all programs of a model round, and all to one format; name -> it."""
    formats: dict[str, set[DType | None]] = {}
    for graph in graphs:
        rounding = _RoundingWeights(graph, rounds)
        for value in graph.params:
            read = rounding.users[value] or value in rounding.results
            if read and value.name in frozen and value.type.dtype is DType.F32:
                formats.setdefault(value.name, set()).add(rounding.alone(value))
    agreed = {name: next(iter(found)) for name, found in formats.items() if len(found) == 1}
    return {name: to for name, to in agreed.items() if to is not None}


def read_rounded(graph: Graph, rounds: Rounds, weights: Mapping[str, DType]) -> Graph:
    """Products read these weights as they lie in memory, and no copies of them.

    %c = region(%w) {cast to bf16}; %y = region(%x, %c) {contraction}   ->   %y = region(%x, %w) {contraction}
    %z = region(%x, %w) {contraction}   ->   %z = region(%x, %w) {contraction: cast to f32}          %w is bf16 now
    """
    stored = {v: Value(v.name, v.type.with_dtype(weights[v.name])) for v in graph.params if v.name in weights}
    copies, nodes = dict[Value, Value](), list[Node]()
    for node in graph.nodes:
        read = stored.get(node.inputs[0]) if node.inputs else None
        if read is not None and _is_copy(node):
            copies[node.output] = read
            continue
        if read is not None and only_moves(node):
            stored[node.output] = Value(f"{node.output.name}.rounded", node.output.type.with_dtype(read.type.dtype))
        nodes.append(substitute(node, copies))
    return rewritten(graph.with_(nodes=tuple(nodes)), rounds, stored) if stored else graph


def _is_copy(node: Node) -> bool:
    """Whether it is a weight's copy, rounded."""
    if node.region_kind is not RegionKind.ELEMENTWISE or node.body is None or len(node.inputs) != 1:
        return False
    return [one.op for one in node.body.nodes] == ["cast"] and node.output.type.dtype.is_narrow


class _RoundingWeights(Rounding):
    """Which weights are read rounded."""

    def _read(self, node: Node, value: Value) -> DType | None:
        return node.output.type.dtype if _is_copy(node) else super()._read(node, value)
