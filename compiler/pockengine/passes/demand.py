"""Only what is read of a tensor is computed.

Where a model goes on with the first token alone, the last layer's other rows are never made, nor is their gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..ir import Attrs, Builder, Graph, Node, Value
from ..ops import Emitter, Kind, Rewriting, axes_of, get, prune
from ..ops.axes import shared_runs
from ..ops.movement import ints

WORTH = 2
"""An axis is cut where at most one in this many of its elements is read: odd sizes make kernels slower."""


@dataclass(frozen=True)
class Steps:
    """Elements start, start + step, … of an axis."""

    start: int
    step: int
    count: int

    @staticmethod
    def whole(size: int) -> Steps:
        return Steps(0, 1, size)

    def of(self, inner: Steps) -> Steps:
        """These elements of an axis that is itself `inner` of another."""
        return Steps(inner.start + self.start * inner.step, self.step * inner.step, self.count)


Region = tuple[Steps, ...]
"""What is read of a tensor, by axes."""


@dataclass(frozen=True)
class Cut:
    """A node that computes only `output`, and what it then reads of its inputs; `attrs` are the smaller node's."""

    output: Region
    inputs: tuple[Region, ...]
    attrs: Attrs


def only_demanded(graph: Graph) -> Graph:
    """Move slices before what computes the tensor, through everything that works row by row.

    %h = layer_norm(%x); %y = slice(%h) {token 0}   ->   %s = slice(%x) {token 0}; %y = layer_norm(%s)
    """
    if not any(node.op == "slice" for node in graph.nodes):
        return graph
    graph = prune(graph)
    demanded = _Demand(graph.nodes, {value: _whole(value) for value in graph.results()})
    demanded.regions.update((value, _whole(value)) for value in graph.sources())
    if all(demanded.regions[value] == _whole(value) for node in graph.nodes for value in demanded.live(node)):
        return graph
    old = {node.outputs[0]: node for node in graph.nodes}
    made: dict[tuple[Value, Region], Value] = {}

    def at(e: Emitter, value: Value, new: Value, region: Region) -> Value:
        """What a node reads of a value, which is there as far as anybody reads it."""
        there = demanded.regions[value]
        if region == there:
            return new
        if (value, region) not in made:
            steps = [
                wanted if wanted != have else Steps.whole(wanted.count)
                for wanted, have in zip(region, there, strict=True)
            ]
            made[value, region] = _slice(e, new, steps)
        return made[value, region]

    def rule(e: Emitter, node: Node) -> Sequence[Value] | None:
        before = old[node.outputs[0]]
        cut = demanded.cuts.get(before)
        if cut is None:
            return None
        inputs = [at(e, *reads) for reads in zip(before.inputs, node.inputs, cut.inputs, strict=True)]
        if node.op == "slice":
            return inputs
        return e.multi(node.op, inputs, **cut.attrs)

    walk = Rewriting(graph)
    for node in walk:
        walk.replace(rule(walk.emitter, node))
    return walk.graph()


class _Demand:
    """regions   value -> what is read of it
    cuts      node -> how to compute only that; slices are among them wherever they read forward"""

    def __init__(self, nodes: Sequence[Node], regions: Mapping[Value, Region]) -> None:
        self.regions: dict[Value, Region] = dict(regions)
        self.cuts: dict[Node, Cut] = {}
        for node in reversed(nodes):
            self._visit(node)

    def live(self, node: Node) -> list[Value]:
        return [value for value in node.outputs if value in self.regions]

    def _visit(self, node: Node) -> None:
        live = self.live(node)
        if not live:
            return
        partial = any(self.regions[value] != _whole(value) for value in live)
        cut = _cut(node, self.regions) if partial or node.op == "slice" else None
        if cut is None:
            self.regions.update((value, _whole(value)) for value in live)
        else:
            self.cuts[node] = cut
            self.regions.update((value, cut.output) for value in live if len(live) == 1)
        for value, region in zip(node.inputs, cut.inputs if cut else map(_whole, node.inputs), strict=True):
            self.regions[value] = _joined(value, self.regions.get(value, region), region)


def _whole(value: Value) -> Region:
    return tuple(Steps.whole(size) for size in value.type.shape)


def _joined(value: Value, first: Region, second: Region) -> Region:
    """What covers both: all of an axis where they differ, or where little would be left out."""
    return tuple(
        a if a == b and a.count * WORTH <= size else Steps.whole(size)
        for a, b, size in zip(first, second, value.type.shape, strict=True)
    )


def _slice(e: Emitter, value: Value, region: Sequence[Steps]) -> Value:
    stops = tuple(steps.start + (steps.count - 1) * steps.step + 1 for steps in region)
    starts, strides = (tuple(getattr(steps, name) for steps in region) for name in ("start", "step"))
    return e.op("slice", value, starts=starts, stops=stops, steps=strides)


def _cut(node: Node, regions: Mapping[Value, Region]) -> Cut | None:
    record = get(node.op)
    if record.expand is not None:
        return _cut_composite(node, regions)
    rule = _RULES.get(node.op, _carried)
    return rule(node, regions[node.output]) if len(node.outputs) == 1 else None


def _carried(node: Node, region: Region) -> Cut | None:
    """Of each operand, the part along the axes that the record says the result's come from. A product's columns are not
    cut: they belong to weights."""
    sources = axes_of(node)
    if sources is None:
        return None
    product = get(node.op).kind is Kind.CONTRACTION
    kept = tuple(
        Steps.whole(size) if source is None or (product and source[0] is None) else steps
        for size, source, steps in zip(node.output.type.shape, sources, region, strict=True)
    )
    reads = [list(_whole(value)) for value in node.inputs]
    for source, steps in zip(sources, kept, strict=True):
        for read, axis in zip(reads, source, strict=True) if source is not None else ():
            if axis is not None:
                read[axis] = steps
    attrs = get(node.op).sized(node, [steps.count for steps in kept])
    return Cut(kept, tuple(map(tuple, reads)), attrs)


def _of_slice(node: Node, region: Region) -> Cut | None:
    """Slices that read backward stay."""
    starts, steps = ints(node.attrs, "starts"), ints(node.attrs, "steps")
    if min(steps, default=1) < 0:
        return None
    taken = zip(starts, steps, node.output.type.shape, region, strict=True)
    return Cut(region, (tuple(wanted.of(Steps(*own)) for *own, wanted in taken),), node.attrs)


def _reshape(node: Node, region: Region) -> Cut | None:
    before, after = node.inputs[0].type.shape, node.output.type.shape
    read: list[Steps] = []
    for sources, results in shared_runs(before, after):
        flat = _flattened([after[axis] for axis in results], [region[axis] for axis in results])
        parts = _parted([before[axis] for axis in sources], flat) if flat else None
        if parts is None:
            return None
        read += parts
    return Cut(region, (tuple(read),), {"shape": tuple(steps.count for steps in region)})


def _flattened(sizes: Sequence[int], region: Sequence[Steps]) -> Steps | None:
    """The elements of these axes as ones of a single axis, where they are evenly spaced."""
    flat, total = Steps.whole(1), 1
    for size, outer in zip(reversed(sizes), reversed(region), strict=True):
        if flat.count == 1:
            flat = Steps(outer.start * total + flat.start, outer.step * total, outer.count)
        elif outer.count == 1:
            flat = Steps(outer.start * total + flat.start, flat.step, flat.count)
        elif flat == Steps.whole(total) and outer.step == 1:
            flat = Steps(outer.start * total, 1, outer.count * total)
        else:
            return None
        total *= size
    return flat


def _parted(sizes: Sequence[int], flat: Steps) -> list[Steps] | None:
    """The inverse of `_flattened`: what lies along each axis."""
    parts: list[Steps] = []
    for size in reversed(sizes[1:]):
        outer, inner = divmod(flat.start, size)
        if flat.count == 1 or flat.step % size == 0:
            parts.append(Steps(inner, 1, 1))
            flat = Steps(outer, max(1, flat.step // size), flat.count)
        elif inner + (flat.count - 1) * flat.step < size:
            parts.append(Steps(inner, flat.step, flat.count))
            flat = Steps(outer, 1, 1)
        elif flat.step == 1 and inner == 0 and flat.count % size == 0:
            parts.append(Steps.whole(size))
            flat = Steps(outer, 1, flat.count // size)
        else:
            return None
    return [flat, *reversed(parts)] if sizes else []


_RULES: dict[str, Callable[[Node, Region], Cut | None]] = {"reshape": _reshape, "slice": _of_slice}
"""Whose axes are no others': they cut within an axis, or across several."""


def _cut_composite(node: Node, regions: Mapping[Value, Region]) -> Cut | None:
    """What its expansion reads. Not where that depends on positions (constants of more than one element) or does
    nothing (a place where training puts something)."""
    expand = get(node.op).expand
    assert expand is not None
    builder = Builder("expansion")
    inputs = [builder.input(f"i{index}", value.type) for index, value in enumerate(node.inputs)]
    outputs = expand(Emitter(builder), inputs, node.attrs)
    wanted = {new: regions[old] for new, old in zip(outputs, node.outputs, strict=True) if old in regions}
    if len(wanted) != 1 or not builder.nodes or any(array.size > 1 for array in builder.consts.values()):
        return None
    demanded = _Demand(builder.nodes, wanted)
    read = tuple(demanded.regions.get(value, _whole(value)) for value in inputs)
    types = [v.type.with_shape(tuple(s.count for s in steps)) for v, steps in zip(node.inputs, read, strict=True)]
    made = get(node.op).infer(types, node.attrs)
    ((output, region),) = wanted.items()
    fits = made[list(outputs).index(output)].shape == tuple(steps.count for steps in region)
    return Cut(region, read, node.attrs) if fits and demanded.regions[output] == region else None
