"""What a region is made of and what it costs: body, anchor, work, bytes; bare nodes seen as regions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ... import ops
from ...ir import Graph, Node, RegionKind, Value


def as_region(node: Node) -> Node:
    """A bare elementwise, reduction or contraction node as a region of its own; regions are returned unchanged."""
    if node.body is not None:
        return node
    op_kind = ops.get(node.op).kind
    inputs = tuple(Value(f"in{i}", value.type) for i, value in enumerate(node.inputs))
    outputs = tuple(Value(f"out{i}", value.type) for i, value in enumerate(node.outputs))
    inner = Node(node.op, inputs, outputs, node.attrs)
    body = Graph("body", inputs, nodes=(inner,), outputs={value.name: value for value in outputs})
    kind = _reduction_kind(node) if op_kind == "reduction" else RegionKind(op_kind)
    return Node("region", node.inputs, node.outputs, {"kind": kind}, body, node.phase, node.origin)


def _reduction_kind(node: Node) -> RegionKind:
    axes = node.attrs["axes"]
    assert isinstance(axes, tuple)
    first = min((int(axis) for axis in axes), default=node.inputs[0].type.rank)
    after = [d for i, d in enumerate(node.inputs[0].type.shape) if i > first and i not in axes]
    return RegionKind.COLUMN if any(d != 1 for d in after) else RegionKind.ROW


def body_of(node: Node) -> Graph:
    """The body of a region."""
    assert node.body is not None
    return node.body


def anchor_of(node: Node) -> Node:
    """The contraction inside a region."""
    return next(inner for inner in body_of(node).nodes if ops.is_kind(inner, "contraction"))


def flops_of(node: Node) -> int:
    """Floating-point operations of a node: the sum over a region's body."""
    if node.body is None:
        return ops.get(node.op).cost([v.type for v in node.inputs], [v.type for v in node.outputs], node.attrs)
    return sum(flops_of(inner) for inner in node.body.nodes)


def touched(node: Node) -> dict[Value, int]:
    """The bytes of each operand and result that a node reads and writes at least: of what it picks elements from, no
    more than it writes."""
    sizes = {value: value.type.nbytes for value in (*node.inputs, *node.outputs)}
    record = ops.record_of(node)
    if record.carries is ops.Carried.SOME or (record.indices is not None and record.indices.reads):
        sizes[node.inputs[0]] = min(sizes[node.inputs[0]], node.output.type.nbytes)
    return sizes


def bytes_of(node: Node) -> int:
    """Bytes a node reads and writes at least."""
    return sum(touched(node).values())


def inplace_pairs(node: Node, allowed: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The pairs (input, output) of `allowed` whose types match and whose value is not also read through another
    input."""
    return tuple(
        (i, o)
        for i, o in allowed
        if node.inputs[i].type == node.outputs[o].type and sum(value is node.inputs[i] for value in node.inputs) == 1
    )


def elementwise_pairs(node: Node, apart: Collection[Value] = ()) -> tuple[tuple[int, int], ...]:
    """The pairs (input, output) of a region that reads its operands at the index at which it writes its results: all
    operands but those of its body in `apart`."""
    read = [i for i, value in enumerate(body_of(node).inputs) if value not in apart]
    return inplace_pairs(node, [(i, o) for i in read for o in range(len(node.outputs))])


def needed(outputs: Iterable[Value], graph: Graph, stop: Iterable[Value] = ()) -> list[Node]:
    """The nodes of a body, in order, that `outputs` depend on without going beyond `stop`."""
    wanted, ends = set(outputs), set(stop)
    found = []
    for node in reversed(graph.nodes):
        if any(value in wanted and value not in ends for value in node.outputs):
            found.append(node)
            wanted.update(node.inputs)
    return found[::-1]
