"""Where channels lie: last, as the kernels of image operators want them, or where the model has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir import Builder, Graph, Node, Value
from ..ops import Emitter, Role
from ..ops.movement import ints
from ..ops.registry import permuted, roles_of
from .axis_groups import Blocks, alike, divisions, images, moves, reads_images, same_order, spread
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


class Layouts:
    """What can be chosen: each node's place is FIRST, LAST or a variable of the cut.

    blocks  of the values that can lie in memory in two ways; others lie as the model has them"""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.alike = {node: alike(node) for node in graph.nodes}
        self.blocks = divisions(graph, self.alike)
        self.roles = {node: self._role(node) for node in graph.nodes}
        trained = set(graph.updates)
        self.free = {
            value
            for value in (*graph.consts, *graph.params)
            if value not in trained and value.type.nbytes <= FOLD_LIMIT
        }

    def _role(self, node: Node) -> str:
        """image: channels last; both: all that correspond in one layout; any: reads and makes what there is; plain: as
        the model has it."""
        if reads_images(node):
            return "image"
        found = [self.blocks.get(value) for value in self.alike[node]]
        if found:
            return "both" if found[0] is not None and len(set(found)) == 1 else "plain"
        if node.op == "matmul":
            return "any"
        if node.op not in ("reshape", "transpose"):
            return "plain"
        x, y = (self.blocks.get(value) for value in (node.inputs[0], node.output))
        if node.op == "transpose":
            return "both" if x and y and same_order(node, x, y) else "any"
        if x is None or y is None or node.attrs.get("kept") or x.last != y.last:
            return "plain"
        return "both" if x.sizes(node.inputs[0].type.shape) == y.sizes(node.output.type.shape) else "plain"

    def as_is(self, value: Value) -> Place:
        """The layout in which the model has a value."""
        return LAST if self.blocks[value].last else FIRST

    def made(self, node: Node, value: Value) -> Place:
        """The layout in which a node makes a value."""
        role = self.roles[node]
        if role == "image" and value in images(node):
            return LAST
        chosen = role == "both" or (role == "any" and exchangeable(node, self.blocks.get(value)))
        return ("node", node) if chosen else self.as_is(value)

    def read(self, node: Node) -> Iterator[tuple[Value, Place]]:
        """The layouts in which a node reads values, where it is not all the same to it."""
        role = self.roles[node]
        follows = node.inputs if node.op in ("reshape", "transpose") else self.alike[node]
        for value, part in roles_of(node)[: len(node.inputs)]:
            if value not in self.blocks or (role == "any" and exchangeable(node, self.blocks[value])):
                continue
            if part is Role.IMAGE:
                yield value, LAST
            else:
                yield value, ("node", node) if role == "both" and value in follows else self.as_is(value)

    def cost(self, value: Value, blocks: Blocks, shape: Sequence[int]) -> int:
        """Bytes that a change of layout reads and writes."""
        return 2 * value.type.nbytes if value not in self.free and moves(blocks.perm(len(shape)), shape) else 0

    def edges(self) -> Iterator[tuple[Place, Place, int]]:
        """Of the cut between FIRST and LAST. A value that several read in the other layout is changed once."""
        makers: dict[Value, Place] = {
            value: self.as_is(value) for value in self.graph.sources() if value in self.blocks
        }
        readers: dict[Value, dict[Place, None]] = {value: {} for value in self.blocks}
        for node in self.graph.nodes:
            makers |= {value: self.made(node, value) for value in node.outputs if value in self.blocks}
            for value, place in self.read(node):
                readers[value][place] = None
            if self.roles[node] == "both" and node.op not in ("reshape", "transpose"):
                yield from self._spread(node)
            if self.roles[node] == "both" and node.op == "resample":
                yield from self._interpolated(node)
        for value in self.graph.results():
            if value in self.blocks:
                readers[value][self.as_is(value)] = None
        for value, places in readers.items():
            cost = self.cost(value, self.blocks[value], value.type.shape)
            if cost and set(places) - {makers[value]}:
                yield makers[value], ("last", value), cost
                yield ("first", value), makers[value], cost
                for place in places:
                    yield ("last", value), place, ENDLESS
                    yield place, ("first", value), ENDLESS

    def _spread(self, node: Node) -> Iterator[tuple[Place, Place, int]]:
        """Of operands of lower rank, which are the model's own way round."""
        blocks, rank = self.blocks[node.outputs[0]], node.outputs[0].type.rank
        for value in spread(node):
            cost = self.cost(value, blocks, wide(value, rank))
            if cost:
                here, chosen = self.as_is(node.outputs[0]), ("node", node)
                yield (here, chosen, cost) if here == FIRST else (chosen, here, cost)

    def _interpolated(self, node: Node) -> Iterator[tuple[Place, Place, int]]:
        """Of the layout in which the axis of interpolation is innermost."""
        blocks, rank = self.blocks[node.output], node.output.type.rank
        cost = SHORT_STEPS * (node.inputs[0].type.nbytes + node.output.type.nbytes)
        for last in (False, True):
            order = range(rank) if blocks.last == last else blocks.perm(rank)
            if order[-1] == node.attrs["axis"]:
                yield (FIRST, ("node", node), cost) if last else (("node", node), LAST, cost)

    def with_channels_first(self) -> set[Node]:
        """The nodes that make their results with channels first; where it is all the same, as few as can be."""
        near = near_side(self.edges(), FIRST, LAST)
        return {node for node in self.graph.nodes if ("node", node) in near}


def exchangeable(node: Node, blocks: Blocks | None) -> bool:
    """Whether an operator of role `any` reads or makes a value that divides like this in either layout: a matmul one
    whose last two axes change places."""
    return blocks is not None and (node.op == "transpose" or (blocks.start, blocks.middle) == _matrix(node))


def _matrix(node: Node) -> tuple[int, int]:
    rank = node.output.type.rank
    return rank - 2, rank - 1


def wide(value: Value, rank: int) -> tuple[int, ...]:
    """The shape of an operand of lower rank as it is broadcast."""
    return (1,) * (rank - value.type.rank) + value.type.shape


class Rewrite:
    """`plain` maps an old value to the new one that lies as the model has it, `other` to that which does not; each is
    made once."""

    def __init__(self, graph: Graph, layouts: Layouts, first: set[Node]) -> None:
        self.graph, self.layouts, self.first = graph, layouts, first
        self.blocks = layouts.blocks
        self.builder = Builder(graph.name)
        self.builder.adopt_sources(graph)
        self.builder.reserve([value.name for value in graph.values()])
        self.e = Emitter(self.builder)
        self.plain: dict[Value, Value] = {value: value for value in graph.sources()}
        self.other: dict[Value, Value] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.builder.phase, self.builder.origin = node.phase, node.origin
            self._visit(node)
        self.builder.outputs = {name: self._as_is(value) for name, value in self.graph.outputs.items()}
        self.builder.updates = {target: self._as_is(value) for target, value in self.graph.updates.items()}
        return self.builder.finish()

    def _visit(self, node: Node) -> None:
        role, last = self.layouts.roles[node], node not in self.first
        if role == "image":
            self._image(node)
        elif node.op == "transpose":
            self._transpose(node, last)
        elif role == "any":
            self._matmul(node, last)
        elif role == "plain" or self.blocks[node.outputs[0]].last == last:
            self._keep(node)
        elif node.op == "reshape":
            y = node.output
            shape = [y.type.shape[axis] for axis in self.blocks[y].perm(y.type.rank)]
            self.other[y] = self.e.reshape(self._exchanged(node.inputs[0]), shape)
        else:
            self._alike(node)

    def _as_is(self, value: Value) -> Value:
        """The value as the model has it."""
        if value not in self.plain:
            back = self.blocks[value].exchanged(value.type.rank)
            self.plain[value] = self._turned(self.other[value], back.perm(value.type.rank))
        return self.plain[value]

    def _exchanged(self, value: Value) -> Value:
        """The value in its other layout."""
        if value not in self.other:
            self.other[value] = self._turned(self.plain[value], self.blocks[value].perm(value.type.rank))
        return self.other[value]

    def _in(self, value: Value, last: bool) -> Value:
        return self._as_is(value) if self.blocks[value].last == last else self._exchanged(value)

    def _turned(self, value: Value, perm: Sequence[int]) -> Value:
        """Transposed, or reshaped where that is the same."""
        shape = value.type.shape
        return self.e.transpose(value, perm) if moves(perm, shape) else self.e.reshape(value, [shape[p] for p in perm])

    def _keep(self, node: Node) -> None:
        inputs = tuple(self._as_is(value) for value in node.inputs)
        self.builder.keep(Node(node.op, inputs, node.outputs, node.attrs, node.body, node.phase, node.origin))
        self.plain.update({value: value for value in node.outputs})

    def _image(self, node: Node) -> None:
        *operands, (output, part) = roles_of(node)
        inputs = [self._in(value, True) if role is Role.IMAGE else self._as_is(value) for value, role in operands]
        result = self.e.op(node.op, *inputs, **{**node.attrs, "layout": "NHWC"})
        (self.other if part is Role.IMAGE else self.plain)[output] = result

    def _alike(self, node: Node) -> None:
        """With all that correspond exchanged, and what is broadcast to them moved likewise."""
        rank, found, narrow = node.outputs[0].type.rank, self.layouts.alike[node], spread(node)
        perm, inputs = self.blocks[node.outputs[0]].perm(rank), []
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
        self.other.update(zip(node.outputs, results, strict=True))

    def _matmul(self, node: Node, last: bool) -> None:
        """Reads either layout of an operand by its flag, and makes the other one as (A B)^T = B^T A^T."""
        turned = [value not in self.plain and exchangeable(node, self.blocks[value]) for value in node.inputs]
        blocks = self.blocks.get(node.output)
        plain = blocks is None or not exchangeable(node, blocks) or blocks.last == last
        if plain and not any(turned):
            self._keep(node)
            return
        inputs = [self.other[v] if other else self._as_is(v) for v, other in zip(node.inputs, turned, strict=True)]
        flags = [bool(node.attrs[key]) != other for key, other in zip(("trans_a", "trans_b"), turned, strict=True)]
        if not plain:
            inputs, flags = inputs[::-1], [not flag for flag in flags[::-1]]
        result = self.e.op("matmul", *inputs, **{**node.attrs, "trans_a": flags[0], "trans_b": flags[1]})
        (self.plain if plain else self.other)[node.output] = result

    def _transpose(self, node: Node, last: bool) -> None:
        """The model's own, from a layout that is there to the one that is asked for, in one."""
        (x,), y, perm = node.inputs, node.output, ints(node.attrs, "perm")
        if self.layouts.roles[node] == "both":
            self._in(x, last)
        plain = y not in self.blocks or self.blocks[y].last == last
        order = range(y.type.rank) if plain else self.blocks[y].perm(y.type.rank)
        ways = []
        if x in self.plain:
            ways.append((self.plain[x], [perm[axis] for axis in order]))
        if x in self.other:
            stored = self.blocks[x].perm(x.type.rank)
            ways.append((self.other[x], [stored.index(perm[axis]) for axis in order]))
        source, way = min(ways, key=lambda found: moves(found[1], found[0].type.shape))
        (self.plain if plain else self.other)[y] = self._turned(source, way)
