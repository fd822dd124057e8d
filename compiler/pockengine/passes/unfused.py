"""Why neighbouring regions that nearly fit stayed apart: for a person who asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..ir import Graph, Node, RegionKind, Value
from ..ops import is_kind, is_view
from ..ops.movement import ints
from .fuse import MAX_INPUTS, Group, combined, makes_bits


@dataclass(frozen=True)
class Unfused:
    """Two regions, or a region and a node that moves data, and what keeps them apart."""

    producer: Node
    consumer: Node
    reason: str


def unfused_neighbours(graph: Graph) -> list[Unfused]:
    """The near misses, in the order of their producers: pairs whose kinds fit but that may not merge, and pairs where
    what one makes is read by nobody else but whose loops differ."""
    users, results = graph.users(), set(graph.results())
    made, position = graph.producers(), {node: index for index, node in enumerate(graph.nodes)}
    found = []
    for node in graph.nodes:
        if node.body is None:
            continue
        consumers = dict.fromkeys(user for value in node.outputs for user in users[value])
        for consumer in consumers:
            alone = len(consumers) == 1 and not results & set(node.outputs)
            reason = _reason(node, consumer, alone, made, position)
            if reason is not None:
                found.append(Unfused(node, consumer, reason))
    return found


def _reason(
    producer: Node, consumer: Node, alone: bool, made: Mapping[Value, Node], position: Mapping[Node, int]
) -> str | None:
    if consumer.body is None:
        moves = not is_view(consumer) and is_kind(consumer, "movement")
        return f"{consumer.op} changes where elements lie, so it is a kernel of its own" if alone and moves else None
    first, second = _group(producer), _group(consumer)
    if combined(first, second) is None:
        return misfit(first, second) if alone else None
    if first.forward != second.forward:
        return "one belongs to the forward part and one to the backward part, which are planned apart"
    between = _between(producer, consumer, made, position)
    if between is not None:
        return f"'{between.origin or between.op}' lies between: it needs the first and the second needs it"
    inputs = len({*producer.inputs, *consumer.inputs} - set(producer.outputs))
    if inputs > MAX_INPUTS:
        return f"together they would read {inputs} operands, and {MAX_INPUTS} is the most"
    return "the order of updates, or what the results are needed for, keeps them apart"


def misfit(first: Group, second: Group) -> str | None:
    """Why the loops of two regions do not fit; None where nobody would expect them to."""
    kinds = {first.kind, second.kind}
    if kinds != {RegionKind.ELEMENTWISE} and makes_bits(second):
        return "the second packs a mask into bits, which only elementwise loops do: they walk memory in whole bytes"
    if second.kind in (RegionKind.CONTRACTION, RegionKind.GRADIENTS):
        return None
    if first.kind is RegionKind.GRADIENTS:
        return "the gradients of a depthwise convolution take in only what one of them alone needs, element by element"
    if kinds == {RegionKind.ELEMENTWISE} or kinds == {RegionKind.CONTRACTION, RegionKind.ELEMENTWISE}:
        return _apart(first, second)
    if first.kind is RegionKind.CONTRACTION:
        return f"a contraction finishes its result tile by tile, and the {second.kind} reduction needs all of it"
    if kinds == {RegionKind.ROW, RegionKind.COLUMN}:
        return "one reduces rows and the other columns"
    return _apart(first, second)


def _apart(first: Group, second: Group) -> str:
    """What differs between the loops of two regions: a size, or the axes that are reduced."""
    ours, theirs = list(first.space), list(second.space)
    if ours != theirs:
        differing = [axis for axis, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b]
        one = len(differing) == 1 and len(ours) == len(theirs)
        sizes = f": axis {differing[0]} is {ours[differing[0]]} and {theirs[differing[0]]}" if one else ""
        return f"they walk over different shapes, {ours} and {theirs}{sizes}"
    if first.kind == second.kind:
        return f"of {ours} one reduces {_axes(first)} and the other {_axes(second)}"
    reducing = first if first.axes else second
    return f"the sum over {_axes(reducing)} of {ours} comes first, and the other one walks over all of it again"


def _axes(group: Group) -> str:
    """As in `axes 1, 2`."""
    return f"{'axis' if len(group.axes) == 1 else 'axes'} {', '.join(map(str, group.axes))}"


def _group(region: Node) -> Group:
    """A region as the fusing pass saw it last."""
    assert region.body is not None
    kind, members = region.region_kind, list(region.body.nodes)
    if kind in (RegionKind.ROW, RegionKind.COLUMN):
        reduction = next(node for node in members if is_kind(node, "reduction"))
        return Group(0, kind, reduction.inputs[0].type.shape, ints(reduction.attrs, "axes"), members)
    shaping = next((node for node in members if is_kind(node, "contraction")), members[-1])
    return Group(0, kind, shaping.outputs[0].type.shape, (), members)


def _between(producer: Node, consumer: Node, made: Mapping[Value, Node], position: Mapping[Node, int]) -> Node | None:
    """A node that reads the producer, directly or not, and that the consumer reads."""
    start = position[producer]
    for below in _made_by(consumer, made):
        if below is producer:
            continue
        pending, seen = [below], {below}
        while pending:
            node = pending.pop()
            if node is producer:
                return below
            for other in _made_by(node, made):
                if other not in seen and position[other] >= start:
                    seen.add(other)
                    pending.append(other)
    return None


def _made_by(node: Node, made: Mapping[Value, Node]) -> Iterator[Node]:
    """The nodes whose results a node reads."""
    return iter(dict.fromkeys(made[value] for value in node.inputs if value in made))
