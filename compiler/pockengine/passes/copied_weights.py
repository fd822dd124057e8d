"""Weights that products read often lie in memory as they are multiplied, while a part of a step reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ..ir import DType, Graph, Node, RegionKind, Value
from ..ops import decompresses
from .rounded import LEAST_READS, Rounds, multiplications, part_of, product_of, read_instead

LEAST_WORK = 1 << 33
"""Multiplications with a weight, in all, that take longer than its copy."""


@dataclass(frozen=True)
class _Read:
    """A product's operand `inner` that is a weight, of the parameters `sources`, which `unpacks` makes numbers of,
    where it is compressed."""

    inner: Value
    sources: tuple[Value, ...]
    unpacks: Node | None
    often: int

    def key(self, node: Node) -> tuple[Value, str]:
        """The weight, and the part of the step that reads it."""
        return self.sources[0], part_of(node)


def copy_weights(graph: Graph, rounds: Rounds) -> Graph:
    """A weight of f32, or a compressed one, of which products in a part of the step read each number often is copied
    for them, in the format to which they would round it.

    %y = region(%x, %w) {contraction}   ->   %c = region(%w; cast to bf16); %y = region(%x, %c) {contraction}
    %y = region(%x, %q, %s) {contraction: dequantize_blocks}
      ->   %c = region(%q, %s) {moved: dequantize_blocks, cast to bf16}; %y = region(%x, %c) {contraction}
    """
    params = {*graph.params}
    reading = {
        node: list(_reads(node, params)) for node in graph.nodes if rounds(node) and not params.isdisjoint(node.inputs)
    }
    reads: Counter[tuple[Value, str]] = Counter()
    for node, found in reading.items():
        for one in found:
            reads[one.key(node)] += one.often
    nodes, copies = list[Node](), dict[tuple[Value, str], Value]()
    for node in graph.nodes:
        narrow = {}
        for one in reading.get(node, ()):
            key, to = one.key(node), rounds(node)
            if to is not None and reads[key] >= max(LEAST_READS, LEAST_WORK // one.inner.type.size):
                if key not in copies:
                    nodes.append(_copy(one, to, node))
                    copies[key] = nodes[-1].output
                narrow[one.inner] = copies[key]
        nodes.append(read_instead(node, narrow))
    return graph.with_(nodes=tuple(nodes)) if copies else graph


def _reads(node: Node, params: set[Value]) -> Iterator[_Read]:
    product, body = product_of(node), node.body
    if product is None or body is None:
        return
    outer, made = dict(zip(body.inputs, node.inputs, strict=True)), body.producers()
    for inner in dict.fromkeys(product.inputs):
        unpacks = made.get(inner)
        read = (inner,) if unpacks is None else unpacks.inputs if decompresses(unpacks) else ()
        sources = tuple(outer[value] for value in read)
        if sources and params.issuperset(sources) and inner.type.dtype is DType.F32:
            yield _Read(inner, sources, unpacks, multiplications(product, inner))


def _copy(read: _Read, to: DType, reader: Node) -> Node:
    """What makes the copy, in the reader's part."""
    inputs = tuple(Value(f"w{index}", value.type) for index, value in enumerate(read.sources))
    number, copied = inputs[0], Value("copy", read.inner.type.with_dtype(to))
    nodes = list[Node]()
    if read.unpacks is not None:
        number = Value("number", read.inner.type)
        nodes.append(Node(read.unpacks.op, inputs, (number,), read.unpacks.attrs))
    nodes.append(Node("cast", (number,), (copied,), {"to": to.value}))
    kind = {"kind": RegionKind.ELEMENTWISE if read.unpacks is None else RegionKind.MOVED}
    body, name = Graph("body", inputs, nodes=tuple(nodes), outputs={"copy": copied}), read.sources[0].name
    made = Value(f"{name}.{part_of(reader)}", copied.type)
    return Node("region", read.sources, (made,), kind, body, reader.phase, name)
