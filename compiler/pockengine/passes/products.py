"""A sum of many thin matrix products becomes one product: the gradient of a weight that every time step reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ir import Graph, Node, Value
from ..ops import Emitter, Rewriting
from ..ops.split import joined

FEWEST = 4
"""Products below which nothing is gained."""
THIN = 32
"""Rows that are summed in each product: with more, adding up the results is little beside computing them, and keeping
all operands until the last would cost memory for nothing."""


def merge_products(graph: Graph) -> Graph:
    """Concatenate the operands of thin products that are summed.

    add(matmul(%a, %b) {trans_a}, add(matmul(%c, %d) {trans_a}, …))
      -> matmul(concat(%a, %c, …), concat(%b, %d, …)) {trans_a}
    """
    roots, inner = _chains(graph)
    if not roots:
        return graph

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        if node.op != "add" or node.output not in roots:
            return None
        terms = _Terms()
        terms.collect(e, node.inputs, inner)
        if len(terms.products) < FEWEST:
            return None
        a, b = (joined(e, [product.inputs[side] for product in terms.products], 0) for side in (0, 1))
        total = e.op("matmul", a, b, trans_a=True, trans_b=False)
        for value in terms.others:
            total = e.add(total, value)
        return [total]

    walk = Rewriting(graph)
    for node in walk:
        walk.replace(rule(walk.emitter, node))
    return walk.graph()


def _chains(graph: Graph) -> tuple[set[Value], set[Value]]:
    """The last sums of chains of additions, and everything inside of a chain: sums and thin products whose only reader
    adds them up."""
    users, results = graph.users(), set(graph.results())
    roots: set[Value] = set()
    inner: set[Value] = set()
    for node in graph.nodes:
        if node.op != "add" and not _thin(node):
            continue
        value = node.output
        readers = users[value]
        single = len(readers) == 1 and readers[0].op == "add" and value not in results
        if single and readers[0].output.type == value.type and readers[0].inputs.count(value) == 1:
            inner.add(value)
        elif node.op == "add" and any(v in inner for v in node.inputs):
            roots.add(value)
    return roots, inner


def _thin(node: Node) -> bool:
    if node.op != "matmul" or not node.attrs["trans_a"] or node.attrs["trans_b"]:
        return False
    shape = node.inputs[0].type.shape
    return len(shape) == 2 and shape[0] <= THIN


@dataclass
class _Terms:
    """What a chain adds up."""

    products: list[Node] = field(default_factory=list)
    others: list[Value] = field(default_factory=list)

    def collect(self, e: Emitter, values: Sequence[Value], inner: set[Value]) -> None:
        stack = list(values)
        while stack:
            value = stack.pop()
            node = e.builder.producers.get(value) if value in inner else None
            if node is None:
                self.others.append(value)
            elif node.op == "add":
                stack += node.inputs
            else:
                self.products.append(node)
