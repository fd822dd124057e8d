"""Where the channels of each value lie: last, as kernels of images want them, or where the model has them."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

from ..ir import Builder, Graph, Node, Value
from ..ops import Emitter, Role
from ..ops.movement import ints
from ..ops.registry import permuted, roles_of
from .axis_groups import AxisGroups, alike, groups_of_axes, images, moves, reads_images, same_order, spread
from .cleanup import FOLD_LIMIT
from .cut import ENDLESS, near_side

Place = tuple[str, object]
FIRST: Place = ("channels", "first")
LAST: Place = ("channels", "last")
SHORT_STEPS = 4
"""What it costs to interpolate along the innermost axis, where nothing is computed in vectors: bytes that a transpose
could move meanwhile, for each byte read or written. Measured with AVX-512: 64 x 64 pixels made twice as high or
wide."""


def channels_last(graph: Graph) -> Graph:
    """Image operators take and give channels-last values. What can be computed in either layout gets the one with which
    transposes between the two move the fewest bytes in all: a minimum cut.

    %y = conv2d(%x, %w) {NCHW}; %z = add(%y, %b)
      -> %xt = transpose(%x); %yt = conv2d(%xt, %w) {NHWC}; %zt = add(%yt, %bt)
    """
    if not any(map(reads_images, graph.nodes)):
        return graph
    layouts = Layouts(graph)
    return Rewrite(graph, layouts, layouts.with_channels_first()).run()


class Freedom(enum.Enum):
    """What a node leaves to choose of the layouts in which it reads and makes values."""

    LAST = "last"
    """Nothing: images lie with channels last."""
    TOGETHER = "together"
    """One layout for all values whose axes correspond."""
    ANY = "any"
    """Everything: it reads and makes what there is."""
    NONE = "none"
    """Nothing: values lie as the model has them."""


class Layouts:
    """What can be chosen: each node's place is FIRST, LAST or a variable of the cut.

    groups  of the values that can lie in memory in two ways; others lie as the model has them"""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.alike = {node: alike(node) for node in graph.nodes}
        self.groups = groups_of_axes(graph, self.alike)
        self.freedoms = {node: self._freedom(node) for node in graph.nodes}
        trained = set(graph.updates)
        self.free = {
            value
            for value in (*graph.consts, *graph.params)
            if value not in trained and value.type.nbytes <= FOLD_LIMIT
        }

    def _freedom(self, node: Node) -> Freedom:
        if reads_images(node):
            return Freedom.LAST
        found = [self.groups.get(value) for value in self.alike[node]]
        if found:
            return Freedom.TOGETHER if found[0] is not None and len(set(found)) == 1 else Freedom.NONE
        if node.op == "matmul":
            return Freedom.ANY
        if node.op not in ("reshape", "transpose"):
            return Freedom.NONE
        x, y = (self.groups.get(value) for value in (node.inputs[0], node.output))
        if node.op == "transpose":
            return Freedom.TOGETHER if x and y and same_order(node, x, y) else Freedom.ANY
        if x is None or y is None or node.attrs.get("kept") or x.last != y.last:
            return Freedom.NONE
        same = x.sizes(node.inputs[0].type.shape) == y.sizes(node.output.type.shape)
        return Freedom.TOGETHER if same else Freedom.NONE

    def as_is(self, value: Value) -> Place:
        """The layout in which the model has a value."""
        return LAST if self.groups[value].last else FIRST

    def made(self, node: Node, value: Value) -> Place:
        """The layout in which a node makes a value."""
        freedom = self.freedoms[node]
        if freedom is Freedom.LAST and value in images(node):
            return LAST
        chosen = freedom is Freedom.TOGETHER or (freedom is Freedom.ANY and exchangeable(node, self.groups.get(value)))
        return ("node", node) if chosen else self.as_is(value)

    def read(self, node: Node) -> Iterator[tuple[Value, Place]]:
        """The layouts in which a node reads values, where it is not all the same to it."""
        freedom = self.freedoms[node]
        follows = node.inputs if node.op in ("reshape", "transpose") else self.alike[node]
        for value, part in roles_of(node)[: len(node.inputs)]:
            if value not in self.groups or (freedom is Freedom.ANY and exchangeable(node, self.groups[value])):
                continue
            if part is Role.IMAGE:
                yield value, LAST
            else:
                yield value, ("node", node) if freedom is Freedom.TOGETHER and value in follows else self.as_is(value)

    def cost(self, value: Value, groups: AxisGroups, shape: Sequence[int]) -> int:
        """Bytes that a change of layout reads and writes."""
        return 2 * value.type.nbytes if value not in self.free and moves(groups.perm(len(shape)), shape) else 0

    def edges(self) -> Iterator[tuple[Place, Place, int]]:
        """Of the cut between FIRST and LAST. A value that several read in the other layout is changed once."""
        makers: dict[Value, Place] = {
            value: self.as_is(value) for value in self.graph.sources() if value in self.groups
        }
        readers: dict[Value, dict[Place, None]] = {value: {} for value in self.groups}
        for node in self.graph.nodes:
            makers |= {value: self.made(node, value) for value in node.outputs if value in self.groups}
            for value, place in self.read(node):
                readers[value][place] = None
            if self.freedoms[node] is Freedom.TOGETHER and node.op not in ("reshape", "transpose"):
                yield from self._spread(node)
            if self.freedoms[node] is Freedom.TOGETHER and node.op == "resample":
                yield from self._interpolated(node)
        for value in self.graph.results():
            if value in self.groups:
                readers[value][self.as_is(value)] = None
        for value, places in readers.items():
            cost = self.cost(value, self.groups[value], value.type.shape)
            if cost and set(places) - {makers[value]}:
                yield makers[value], ("last", value), cost
                yield ("first", value), makers[value], cost
                for place in places:
                    yield ("last", value), place, ENDLESS
                    yield place, ("first", value), ENDLESS

    def _spread(self, node: Node) -> Iterator[tuple[Place, Place, int]]:
        """Of operands of lower rank, which are the model's own way round."""
        groups, rank = self.groups[node.outputs[0]], node.outputs[0].type.rank
        for value in spread(node):
            cost = self.cost(value, groups, wide(value, rank))
            if cost:
                here, chosen = self.as_is(node.outputs[0]), ("node", node)
                yield (here, chosen, cost) if here == FIRST else (chosen, here, cost)

    def _interpolated(self, node: Node) -> Iterator[tuple[Place, Place, int]]:
        """Of the layout in which the axis of interpolation is innermost."""
        groups, rank = self.groups[node.output], node.output.type.rank
        cost = SHORT_STEPS * (node.inputs[0].type.nbytes + node.output.type.nbytes)
        for last in (False, True):
            order = range(rank) if groups.last == last else groups.perm(rank)
            if order[-1] == node.attrs["axis"]:
                yield (FIRST, ("node", node), cost) if last else (("node", node), LAST, cost)

    def with_channels_first(self) -> set[Node]:
        """The nodes that make their results with channels first; where it is all the same, as few as can be."""
        near = near_side(self.edges(), FIRST, LAST)
        return {node for node in self.graph.nodes if ("node", node) in near}


def exchangeable(node: Node, groups: AxisGroups | None) -> bool:
    """Whether an operator of `Freedom.ANY` reads or makes a value that divides like this in either layout: a matmul one
    whose last two axes change places."""
    return groups is not None and (node.op == "transpose" or (groups.start, groups.middle) == _matrix(node))


def _matrix(node: Node) -> tuple[int, int]:
    rank = node.output.type.rank
    return rank - 2, rank - 1


def wide(value: Value, rank: int) -> tuple[int, ...]:
    """The shape of an operand of lower rank as it is broadcast."""
    return (1,) * (rank - value.type.rank) + value.type.shape


class Rewrite:
    """Makes the graph in which values lie as was chosen; each of these is made once.

    original_of   old value -> the new one that lies as the model has it
    exchanged_of  old value -> the new one whose two groups of axes have changed places"""

    def __init__(self, graph: Graph, layouts: Layouts, first: set[Node]) -> None:
        self.graph, self.layouts, self.first = graph, layouts, first
        self.groups = layouts.groups
        self.builder = Builder(graph.name)
        self.builder.adopt_sources(graph)
        self.e = Emitter(self.builder)
        self.original_of: dict[Value, Value] = {value: value for value in graph.sources()}
        self.exchanged_of: dict[Value, Value] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.builder.phase, self.builder.origin = node.phase, node.origin
            self._visit(node)
        self.builder.outputs = {name: self._as_is(value) for name, value in self.graph.outputs.items()}
        self.builder.updates = {target: self._as_is(value) for target, value in self.graph.updates.items()}
        return self.builder.finish()

    def _visit(self, node: Node) -> None:
        freedom, last = self.layouts.freedoms[node], node not in self.first
        if freedom is Freedom.LAST:
            self._image(node)
        elif node.op == "transpose":
            self._transpose(node, last)
        elif freedom is Freedom.ANY:
            self._matmul(node, last)
        elif freedom is Freedom.NONE or self.groups[node.outputs[0]].last == last:
            self._keep(node)
        elif node.op == "reshape":
            y = node.output
            shape = [y.type.shape[axis] for axis in self.groups[y].perm(y.type.rank)]
            self.exchanged_of[y] = self.e.reshape(self._exchanged(node.inputs[0]), shape)
        else:
            self._alike(node)

    def _as_is(self, value: Value) -> Value:
        """The value as the model has it."""
        if value not in self.original_of:
            back = self.groups[value].exchanged(value.type.rank)
            self.original_of[value] = self._turned(self.exchanged_of[value], back.perm(value.type.rank))
        return self.original_of[value]

    def _exchanged(self, value: Value) -> Value:
        """The value in its other layout."""
        if value not in self.exchanged_of:
            self.exchanged_of[value] = self._turned(self.original_of[value], self.groups[value].perm(value.type.rank))
        return self.exchanged_of[value]

    def _in(self, value: Value, last: bool) -> Value:
        return self._as_is(value) if self.groups[value].last == last else self._exchanged(value)

    def _turned(self, value: Value, perm: Sequence[int]) -> Value:
        """Transposed, or reshaped where that is the same."""
        shape = value.type.shape
        return self.e.transpose(value, perm) if moves(perm, shape) else self.e.reshape(value, [shape[p] for p in perm])

    def _keep(self, node: Node) -> None:
        inputs = tuple(self._as_is(value) for value in node.inputs)
        self.builder.keep(Node(node.op, inputs, node.outputs, node.attrs, node.body, node.phase, node.origin))
        self.original_of.update({value: value for value in node.outputs})

    def _image(self, node: Node) -> None:
        *operands, (output, part) = roles_of(node)
        inputs = [self._in(value, True) if role is Role.IMAGE else self._as_is(value) for value, role in operands]
        result = self.e.op(node.op, *inputs, **{**node.attrs, "layout": "NHWC"})
        (self.exchanged_of if part is Role.IMAGE else self.original_of)[output] = result

    def _alike(self, node: Node) -> None:
        """With all that correspond exchanged, and what is broadcast to them moved likewise."""
        rank, found, narrow = node.outputs[0].type.rank, self.layouts.alike[node], spread(node)
        perm, inputs = self.groups[node.outputs[0]].perm(rank), []
        for value in node.inputs:
            if value in found:
                inputs.append(self._exchanged(value))
            elif value not in narrow:
                inputs.append(self._as_is(value))
            elif value.type.size == 1:
                inputs.append(self.e.reshape(self._as_is(value), ()))
            else:
                inputs.append(self._turned(self.e.reshape(self._as_is(value), wide(value, rank)), perm))
        results = self.e.multi(node.op, inputs, **permuted(node, perm))
        self.exchanged_of.update(zip(node.outputs, results, strict=True))

    def _matmul(self, node: Node, last: bool) -> None:
        """Reads either layout of an operand by its flag, and makes the other one as (A B)^T = B^T A^T."""
        turned = [value not in self.original_of and exchangeable(node, self.groups[value]) for value in node.inputs]
        groups = self.groups.get(node.output)
        as_is = groups is None or not exchangeable(node, groups) or groups.last == last
        if as_is and not any(turned):
            self._keep(node)
            return
        inputs = [
            self.exchanged_of[v] if other else self._as_is(v) for v, other in zip(node.inputs, turned, strict=True)
        ]
        flags = [bool(node.attrs[key]) != other for key, other in zip(("trans_a", "trans_b"), turned, strict=True)]
        if not as_is:
            inputs, flags = inputs[::-1], [not flag for flag in flags[::-1]]
        result = self.e.op("matmul", *inputs, **{**node.attrs, "trans_a": flags[0], "trans_b": flags[1]})
        (self.original_of if as_is else self.exchanged_of)[node.output] = result

    def _transpose(self, node: Node, last: bool) -> None:
        """The model's own, from a layout that is there to the one that is asked for, in one."""
        (x,), y, perm = node.inputs, node.output, ints(node.attrs, "perm")
        if self.layouts.freedoms[node] is Freedom.TOGETHER:
            self._in(x, last)
        as_is = y not in self.groups or self.groups[y].last == last
        order = range(y.type.rank) if as_is else self.groups[y].perm(y.type.rank)
        ways = []
        if x in self.original_of:
            ways.append((self.original_of[x], [perm[axis] for axis in order]))
        if x in self.exchanged_of:
            stored = self.groups[x].perm(x.type.rank)
            ways.append((self.exchanged_of[x], [stored.index(perm[axis]) for axis in order]))
        source, way = min(ways, key=lambda found: moves(found[1], found[0].type.shape))
        (self.original_of if as_is else self.exchanged_of)[y] = self._turned(source, way)
