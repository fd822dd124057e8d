"""Elementwise arithmetic on an operand of a contraction moves into the contraction, whose packer computes it."""

from __future__ import annotations

from dataclasses import replace

from ..ir import DType, Graph, Node, RegionKind, Value
from ..ops import convolution_of, decompresses, get, is_kind
from ..ops.convolution import Geometry, filters_of
from .order import overwrites
from .winograd_marks import WINOGRAD

MOST_OPERATIONS, MOST_INPUTS = 4, 4
"""Of a prologue, for each element: an operand may be packed by every thread, or again for every block of rows."""
LEAST_BYTES = 64 << 10
"""Of a result: a smaller one stays in a cache between two kernels."""


def compute_while_packing(graph: Graph) -> Graph:
    """Move an elementwise region into a contraction, if that alone reads its result, and reads each element once. The
    packer of the operand then computes the result, which is never in memory as a whole.

    %s = region(%w, %c) {elementwise}; %y = region(%x, %s) {contraction}   ->   %y = region(%x, %w, %c) {contraction}
    """
    return _Prologues(graph).run()


class _Prologues:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made, self.users = graph.producers(), graph.users()
        self.results = set(graph.results())
        self.overwritten = overwrites(graph)
        self.sources = set(graph.sources())

    def run(self) -> Graph:
        replaced: dict[Node, Node] = {}
        gone: set[Node] = set()
        for node in self.graph.nodes:
            if found := self._producers(node):
                gone.update(found)
                replaced[node] = _merged(found, node)
        if not gone:
            return self.graph
        return self.graph.with_(nodes=tuple(replaced.get(node, node) for node in self.graph.nodes if node not in gone))

    def _producers(self, node: Node) -> list[Node]:
        """The regions that become prologues of a contraction's operands."""
        if node.region_kind is not RegionKind.CONTRACTION or node.body is None:
            return []
        found = []
        for value in packed(_anchor(node)):
            reads = sum(inner.inputs.count(value) for inner in node.body.nodes)
            if reads == 1 and value in self.made and self._fits(self.made[value], node):
                found.append(self.made[value])
        return found

    def _fits(self, made: Node, node: Node) -> bool:
        if made.region_kind is not RegionKind.ELEMENTWISE or len(made.outputs) != 1:
            return False
        if made.output in self.results or self.users[made.output] != [node] or _is_forward(made) != _is_forward(node):
            return False
        if made.output.type.nbytes < LEAST_BYTES or len(made.inputs) > MOST_INPUTS:
            return False
        if _operations(made) > MOST_OPERATIONS * made.output.type.size or any(map(self._is_coded, made.inputs)):
            return False
        return self._waiting(made) <= made.output.type.nbytes and self._may_wait(made, node)

    def _is_coded(self, value: Value) -> bool:
        """Whether its elements are not numbers in memory: a packer could not read them."""
        return value.type.dtype is DType.BIT or (value in self.made and decompresses(self.made[value]))

    def _waiting(self, made: Node) -> int:
        """Bytes of the operands that only the region reads: moved, they are needed until the contraction has run."""
        return sum(v.type.nbytes for v in set(made.inputs) - self.sources - self.results if len(self.users[v]) == 1)

    def _may_wait(self, made: Node, node: Node) -> bool:
        """Whether the updates of the parameters that the region reads may wait for the contraction.

        Once the region is part of it, the contraction reads the parameters' old contents. So the updates wait. Two
        contractions are not waited for:

        - One that needs such an update itself.
        - One that writes more than its largest operand. The usual case is a region that scales a weight, for an image's
          gradient, while the update comes from the weight's gradient. Both gradients read dy. The second finds it in a
          cache if the first wrote little."""
        writers = {writer for writer, readers in self.overwritten.items() if made in readers}
        if not writers:
            return True
        anchor = _anchor(node)
        if anchor.output.type.nbytes > max(value.type.nbytes for value in anchor.inputs):
            return False
        seen, pending = {node}, [node]
        while pending:
            current = pending.pop()
            before = {self.made[value] for value in current.inputs if value in self.made}
            for other in (before | self.overwritten.get(current, set())) - seen:
                if other in writers:
                    return False
                seen.add(other)
                pending.append(other)
        for writer in writers:
            self.overwritten[writer].add(node)
        return True


def _anchor(region: Node) -> Node:
    assert region.body is not None
    return next(inner for inner in region.body.nodes if is_kind(inner, "contraction"))


def packed(anchor: Node) -> list[Value]:
    """The operands that a contraction packs, each element once. No images that windows read several times, and no
    operands of a template that packs differently: convolutions with groups, and by minimal filtering."""
    if anchor.output.type.dtype is not DType.F32:
        return []
    if convolution_of(anchor) is None:
        return list(anchor.inputs)
    geometry = Geometry.of(anchor.attrs)
    if geometry.groups != 1 or anchor.attrs.get(WINOGRAD):
        return []
    return list(anchor.inputs[0 if filters_of(anchor).type.shape[2:] == (1, 1) else 1 :])


def _operations(region: Node) -> int:
    assert region.body is not None
    nodes = region.body.nodes
    return sum(
        get(node.op).cost([v.type for v in node.inputs], [v.type for v in node.outputs], node.attrs) for node in nodes
    )


def _is_forward(node: Node) -> bool:
    return node.phase == "forward"


def _merged(producers: list[Node], node: Node) -> Node:
    """The contraction with the bodies of the producers before its own."""
    assert node.body is not None
    bodies = [*(made.body for made in producers if made.body is not None), node.body]
    results = {made.output for made in producers}
    inputs = tuple(dict.fromkeys(value for body in bodies for value in body.inputs if value not in results))
    consts = {value: contents for body in bodies for value, contents in body.consts.items()}
    inner = node.body.with_(inputs=inputs, consts=consts, nodes=tuple(n for body in bodies for n in body.nodes))
    return replace(node, inputs=inputs, body=inner)
