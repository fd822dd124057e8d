"""What products round on their way to a processor's matrix units is stored rounded: the same results, in half of the
memory, and copied instead of converted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache

from ..ir import DType, Graph, Node, RegionKind, Value
from ..ops import is_kind, is_view, record_of
from ..ops.attention import WITH_HEADS

Rounds = Callable[[Node], DType | None]
"""The 16-bit format to which a node rounds the operands of its products, where it does."""

_MOVES = ("transpose", "slice")
_MAKES = (RegionKind.CONTRACTION, RegionKind.ELEMENTWISE, RegionKind.MOVED, RegionKind.ROW)
"""Regions that can store a result, or one more, rounded."""
LEAST_READS = 1024
"""Of each number, by products: from so many on, what others read as well is stored twice."""


def store_rounded(graph: Graph, rounds: Rounds) -> Graph:
    """A tensor that products alone read, which round it, is stored rounded, and moved so. One that others read as well
    is stored twice where products in the same part of the step read it often.

    %x = region(…); %y = region(%x, %w) {contraction}
      ->   %r = region(…; cast to bf16); %y = region(%r, %w) {contraction: cast to f32}
    """
    found = Rounding(graph, rounds).found()
    if not found:
        return graph
    stored = {value: Value(f"{value.name}.rounded", value.type.with_dtype(to)) for value, (to, _) in found.items()}
    return rewritten(graph, rounds, stored, {stored[value] for value, (_, alone) in found.items() if not alone})


def rewritten(graph: Graph, rounds: Rounds, stored: Mapping[Value, Value], twice: Collection[Value] = ()) -> Graph:
    """The graph with values `stored` rounded: in the place of themselves, or beside them where they are in `twice`."""
    nodes = []
    for node in graph.nodes:
        if only_moves(node):
            nodes.append(_moved(node, stored))
        elif node.op in WITH_HEADS:
            nodes.append(_attention(node, stored) if rounds(node) else node)
        else:
            reading = _read_rounded(node, stored) if rounds(node) else node
            nodes.append(_made_rounded(reading, stored, twice))
    return graph.with_(params=tuple(stored.get(value, value) for value in graph.params), nodes=tuple(nodes))


class Rounding:
    """Which values are stored rounded."""

    def __init__(self, graph: Graph, rounds: Rounds) -> None:
        self.rounds = rounds
        self.made, self.users, self.results = graph.producers(), graph.users(), {*graph.results()}
        self.alone = cache(self._alone)

    def found(self) -> dict[Value, tuple[DType, bool]]:
        """Value -> its format, and whether that is all that is stored of it."""
        found: dict[Value, tuple[DType, bool]] = {}
        for value, node in self.made.items():
            if value.type.dtype is not DType.F32:
                continue
            to = self.alone(value)
            if only_moves(node):
                if to is not None and found.get(node.inputs[0]) == (to, True):
                    found[value] = (to, True)
            elif node.op in WITH_HEADS:
                if to is not None and self.rounds(node) and value in _with_heads(node):
                    found[value] = (to, True)
            elif node.region_kind in _MAKES and (chosen := to or self._beside(value)) is not None:
                found[value] = (chosen, to is not None)
        return found

    def _alone(self, value: Value) -> DType | None:
        """What all readers round a value to; None where one does not, or where it outlives the program."""
        formats = {self._read(node, value) for node in self.users[value]}
        return formats.pop() if len(formats) == 1 and value not in self.results else None

    def _read(self, node: Node, value: Value) -> DType | None:
        """The format to which a node rounds a value, if that is all that it does with it."""
        if only_moves(node):
            return self.alone(node.output)
        if node.op in WITH_HEADS:
            places = [index for index, one in enumerate(node.inputs) if one is value]
            return self.rounds(node) if {*places} <= {*WITH_HEADS[node.op]} else None
        product = product_of(node)
        if node.body is None or product is None:
            return None
        inner = node.body.inputs[node.inputs.index(value)]
        readers = [one for one in node.body.nodes if inner in one.inputs]
        return self.rounds(node) if readers == [product] and inner not in node.body.outputs.values() else None

    def _beside(self, value: Value) -> DType | None:
        """The format in which a value is worth being stored once more."""
        formats, reads = set(), 0
        for node in self.users[value]:
            to = self.rounds(node) if part_of(node) == part_of(self.made[value]) else None
            product = product_of(node)
            if to is None or product is None or node.body is None:
                continue
            if often := multiplications(product, node.body.inputs[node.inputs.index(value)]):
                formats.add(to)
                reads += often
        return formats.pop() if len(formats) == 1 and reads >= LEAST_READS else None


def multiplications(product: Node, operand: Value) -> int:
    """How often a product multiplies each number of an operand."""
    if operand not in product.inputs:
        return 0
    operands, results = ([one.type for one in values] for values in (product.inputs, product.outputs))
    return record_of(product).cost(operands, results, product.attrs) // 2 // operand.type.size


def _with_heads(node: Node) -> tuple[Value, ...]:
    """The results of an attention, or of its gradient, that have heads."""
    return node.outputs[:1] if node.op == "attention" else node.outputs


def part_of(node: Node) -> str:
    """The part of the step in which a node runs."""
    return "forward" if node.phase == "forward" else "backward"


def only_moves(node: Node) -> bool:
    """Whether a node puts an operand's numbers elsewhere, and does nothing else."""
    return is_view(node) or node.op in _MOVES


def product_of(node: Node) -> Node | None:
    """That of a contraction region."""
    if node.region_kind is not RegionKind.CONTRACTION or node.body is None:
        return None
    return next(one for one in node.body.nodes if is_kind(one, "contraction"))


def _moved(node: Node, stored: Mapping[Value, Value]) -> Node:
    if node.output not in stored:
        return node
    return Node(node.op, (stored[node.inputs[0]],), (stored[node.output],), node.attrs, None, node.phase, node.origin)


def _attention(node: Node, stored: Mapping[Value, Value]) -> Node:
    """An attention that reads and makes what is stored rounded."""
    places, heads = WITH_HEADS[node.op], len(_with_heads(node))
    inputs = tuple(stored.get(value, value) if at in places else value for at, value in enumerate(node.inputs))
    outputs = tuple(stored.get(value, value) for value in node.outputs)
    if (inputs, outputs) == (node.inputs, node.outputs):
        return node
    attrs = {**node.attrs, "stores": tuple(value.type.dtype.value for value in outputs[:heads])}
    return replace(node, inputs=inputs, outputs=outputs, attrs=attrs)


def _read_rounded(node: Node, stored: Mapping[Value, Value]) -> Node:
    product = product_of(node)
    if product is None or node.body is None:
        return node
    outer = dict(zip(node.body.inputs, node.inputs, strict=True))
    return read_instead(node, {inner: stored[outer[inner]] for inner in product.inputs if outer.get(inner) in stored})


def read_instead(node: Node, narrow: Mapping[Value, Value]) -> Node:
    """A contraction region whose product reads other values, in 16 bits, in the place of some of its operands; what
    else reads those in the region does not."""
    product, body = product_of(node), node.body
    if not narrow or product is None or body is None:
        return node
    outer, wide, casts = dict(zip(body.inputs, node.inputs, strict=True)), dict[Value, Value](), list[Node]()
    for inner, value in narrow.items():
        read, wide[inner] = Value(value.name, value.type), Value(f"{inner.name}.wide", inner.type)
        outer[read] = value
        casts.append(Node("cast", (read,), (wide[inner],), {"to": DType.F32.value}))
    reading = replace(product, inputs=tuple(wide.get(one, one) for one in product.inputs))
    nodes, used = list[Node](), {*body.outputs.values()}
    for one in reversed((*casts, *(reading if one is product else one for one in body.nodes))):
        if not used.isdisjoint(one.outputs):
            nodes.insert(0, one)
            used |= {*one.inputs}
    inputs = tuple(one for one in outer if one in used)
    body = body.with_(inputs=inputs, nodes=tuple(nodes))
    return replace(node, inputs=tuple(outer[one] for one in inputs), body=body)


def _made_rounded(node: Node, stored: Mapping[Value, Value], twice: Collection[Value]) -> Node:
    """A region that stores results rounded, in the place of them or once more."""
    body = node.body
    if body is None or stored.keys().isdisjoint(node.outputs):
        return node
    nodes, results, outputs = [*body.nodes], dict[str, Value](), list[Value]()
    for outer, (name, inner) in zip(node.outputs, body.outputs.items(), strict=True):
        narrow = stored.get(outer)
        if narrow is None or narrow in twice:
            results[name] = inner
            outputs.append(outer)
        if narrow is not None:
            rounded = Value(f"{inner.name}.rounded", narrow.type)
            nodes.append(Node("cast", (inner,), (rounded,), {"to": narrow.type.dtype.value}))
            results[f"{name}.rounded"] = rounded
            outputs.append(narrow)
    return replace(node, outputs=tuple(outputs), body=body.with_(nodes=tuple(nodes), outputs=results))
