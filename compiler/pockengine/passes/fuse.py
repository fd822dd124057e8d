"""Fusion: neighbouring nodes become one region, a node whose body is the part of the graph that it replaces.

Every elementwise, reduction and contraction node starts as a region of its own. Regions merge with those that make
their operands, and reductions with others over the same data, while the kinds fit (docs/design/compiler.md) and no
cycle appears. Every reader of a parameter's old contents comes before the node that overwrites it: that is an edge,
too. So a region never has to wait for itself where an update is fused into its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..ir import DType, Graph, Node, RegionKind, Value
from ..ops import Convolution, convolution_of, is_kind
from ..ops.movement import ints
from .gradients import Gradients
from .order import overwrites
from .promises import trailing

MAX_MEMBERS = 256
"""Nodes of one region: longer kernels gain nothing, and growing a region costs time in proportion to its size."""
MAX_INPUTS = 24
"""Operands of one region: beyond this, pointers spill and the kernel is no faster than two."""
WINDOW = 16
"""Nodes of one window of `Group.reach`, which counts windows and not nodes so that it changes rarely: a node that joins
a group is mostly in the last window already. Where a reach changes, so do those of all groups that depend on it."""

Shape = tuple[int, ...]

ELEMENTWISE, CONTRACTION = RegionKind.ELEMENTWISE, RegionKind.CONTRACTION
ROW, COLUMN, GRADIENTS = RegionKind.ROW, RegionKind.COLUMN, RegionKind.GRADIENTS


@dataclass
class Group:
    """A region in the making.

    kind   None for a node that stays as it is
    space  the loop space
    axes   the reduced axes, of row and column regions
    reach  number of the last window of the graph that holds a member, or a member of a group that this one depends on
    """

    id: int
    kind: RegionKind | None
    space: Shape
    axes: Shape = ()
    members: list[Node] = field(default_factory=list)
    reach: int = 0

    @property
    def forward(self) -> bool:
        return self.members[0].phase == "forward"

    @property
    def reduced(self) -> Shape:
        return tuple(1 if axis in self.axes else size for axis, size in enumerate(self.space))


def fuse(graph: Graph) -> Graph:
    """Group nodes into regions.

    %a = conv2d(%x, %w); %b = mul(%a, %s); %y = clip(%b)   ->   %y = region(%x, %w, %s) {kind: contraction}
    """
    return _Fuser(graph).run()


def fuse_apart(graph: Graph) -> Graph:
    """Group nodes into regions of at most one contraction: the gradients of a depthwise convolution stay apart.

    %a = conv2d(%x, %w); %b = mul(%a, %s); %y = clip(%b)   ->   %y = region(%x, %w, %s) {kind: contraction}
    """
    return _Fuser(graph, gradients=False).run()


def separate(graph: Graph) -> Graph:
    """What `fuse` starts from: each node a region of its own.

    %a = conv2d(%x, %w); %b = mul(%a, %s)   ->   %a = region(%x, %w) {kind: contraction}; %b = region(%a, %s) {…}
    """
    return _Fuser(graph, merge=False).run()


class _Fuser:
    def __init__(self, graph: Graph, merge: bool = True, gradients: bool = True) -> None:
        self.merge, self.gradients = merge, gradients
        self.graph = graph
        self.made = graph.producers()
        self.users = graph.users()
        self.results = set(graph.results())
        self.overwritten = overwrites(graph)
        self.writers: dict[Node, list[Node]] = {}
        for writer, readers in self.overwritten.items():
            for reader in readers - {writer}:
                self.writers.setdefault(reader, []).append(writer)
        self.below = {node: [*self._dependencies(node)] for node in graph.nodes}
        self.above = {node: [*self._dependents(node)] for node in graph.nodes}
        self.position = {node: index for index, node in enumerate(graph.nodes)}
        self.groups: dict[int, Group] = {}
        self.group_of: dict[Node, Group] = {}

    def run(self) -> Graph:
        for index, node in enumerate(self.graph.nodes):
            group = Group(index, *_kind(node), members=[node])
            self.groups[index] = group
            self.group_of[node] = group
            self._raise(group, index // WINDOW)
            if group.kind is not None and self.merge:
                self._merge_around(node)
        return self._emit()

    def _dependencies(self, node: Node) -> Iterator[Node]:
        for value in node.inputs:
            if value in self.made:
                yield self.made[value]
        for reader in self.overwritten.get(node, ()):
            if reader is not node:
                yield reader

    def _merge_around(self, node: Node) -> None:
        """Merge the node's group with its producers' groups, the latest first, then with reductions beside it."""
        producers = {self.group_of[self.made[v]].id for v in node.inputs if v in self.made}
        waits = self._waits_for_reduction(node)
        for id in sorted(producers, reverse=True):
            group = self.group_of[node]
            if id in self.groups and id != group.id and not (waits and self.groups[id].kind is CONTRACTION):
                self._try_merge(self.groups[id], group)
        if is_kind(node, "reduction"):
            self._merge_reductions(node)
        if convolution_of(node) in (Convolution.IMAGE_GRADIENT, Convolution.FILTER_GRADIENT):
            self._merge_gradients(node)

    def _waits_for_reduction(self, node: Node) -> bool:
        """Whether an elementwise node is left to the reductions that read it, as the square in a gradient's norm.

        So it is if only reductions read it, and if all it is made of is needed after them. A reduction computes it on
        the way. A contraction would have to write it to memory, beside the tensor it is made of."""
        users = self.users[node.output]
        if not is_kind(node, "elementwise") or not users or not all(is_kind(user, "reduction") for user in users):
            return False
        read = {value for value in node.inputs if value in self.made}
        return node.output not in self.results and all(self._needed_after(value, node) for value in read)

    def _needed_after(self, value: Value, node: Node) -> bool:
        """Whether a user of `value` depends on `node`."""
        wanted = set(self.users[value]) - {node}
        end = max((self.position[user] for user in wanted), default=-1)
        seen, pending = set[Node](), list(self.users[node.output])
        while pending:
            current = pending.pop()
            if current in wanted:
                return True
            if current not in seen and self.position[current] < end:
                seen.add(current)
                pending += [user for output in current.outputs for user in self.users[output]]
        return False

    def _merge_reductions(self, node: Node) -> None:
        """Reductions over the same data share one pass over it."""
        for value in self._inputs(self.group_of[node].members):
            if value.type.shape != self.group_of[node].space:
                continue
            for other in self.users[value]:
                group, beside = self.group_of[node], self.group_of.get(other)
                if beside and beside is not group and beside.kind in (group.kind, GRADIENTS):
                    self._try_merge(beside, group)

    def _merge_gradients(self, node: Node) -> None:
        """Both gradients of a depthwise convolution read dy together, and add it up where that is asked for."""
        readers = self.users[node.inputs[1 if convolution_of(node) is Convolution.FILTER_GRADIENT else 0]]
        for kind in (CONTRACTION, COLUMN):
            for other in readers:
                group, beside = self.group_of[node], self.group_of.get(other)
                if beside and beside is not group and beside.kind is kind:
                    self._try_merge(beside, group)

    def _try_merge(self, producer: Group, consumer: Group) -> None:
        merged = combined(producer, consumer)
        if merged is None or producer.forward != consumer.forward:
            return
        if merged[0] is GRADIENTS and not self.gradients:
            return
        if len(producer.members) + len(consumer.members) > MAX_MEMBERS:
            return
        if self._depends(consumer, producer, directly=False) or self._depends(producer, consumer):
            return
        if producer.kind == consumer.kind in (COLUMN, CONTRACTION) and self._depends(consumer, producer):
            return
        members = sorted([*producer.members, *consumer.members], key=self.position.__getitem__)
        if len(self._inputs(members)) > MAX_INPUTS:
            return
        producer.kind, producer.space, producer.axes = merged
        producer.members = members
        self._absorb(producer, consumer)

    def _depends(self, group: Group, on: Group, directly: bool = True) -> bool:
        """Whether `group` needs results of `on`; with `directly` false, whether it does so through a third group.

        The search is short, since it skips each group that reaches less far than `on`: that cannot need `on`."""
        seen = {group.id, on.id}
        pending = [group]
        while pending:
            current = pending.pop()
            for node in current.members:
                for other in self.below[node]:
                    below = self.group_of[other]
                    if below is on and (directly or current is not group):
                        return True
                    if below.id not in seen and below.reach >= on.reach:
                        seen.add(below.id)
                        pending.append(below)
        return False

    def _absorb(self, into: Group, gone: Group) -> None:
        del self.groups[gone.id]
        for node in gone.members:
            self.group_of[node] = into
        if into.reach < gone.reach:
            self._raise(into, gone.reach)

    def _raise(self, group: Group, reach: int) -> None:
        """Let the group, and all groups that depend on it, reach so far at least."""
        group.reach = reach
        pending = [group]
        while pending:
            for node in pending.pop().members:
                for reader in self.above[node]:
                    above = self.group_of.get(reader)
                    if above is not None and above.reach < reach:
                        above.reach = reach
                        pending.append(above)

    def _dependents(self, node: Node) -> Iterator[Node]:
        for value in node.outputs:
            yield from self.users[value]
        yield from self.writers.get(node, ())

    def _inputs(self, members: list[Node]) -> list[Value]:
        inside = {value for node in members for value in node.outputs}
        read = dict.fromkeys(value for node in members for value in node.inputs if value not in inside)
        return [value for value in read if not self._literal(value)]

    def _literal(self, value: Value) -> bool:
        return value in self.graph.consts and value.type.rank == 0

    def _emit(self) -> Graph:
        """Regions in an order that respects dependencies, otherwise that of their first member."""
        done: set[int] = set()
        nodes: list[Node] = []
        for start in list(self.groups.values()):
            stack = [(start, False)]
            while stack:
                group, ready = stack.pop()
                if group.id in done:
                    continue
                if ready:
                    done.add(group.id)
                    nodes.append(self._node(group))
                    continue
                stack.append((group, True))
                below = {self.group_of[other].id for node in group.members for other in self.below[node]}
                stack += [(self.groups[id], False) for id in sorted(below - done - {group.id}, reverse=True)]
        return self.graph.with_(nodes=tuple(nodes))

    def _node(self, group: Group) -> Node:
        if group.kind is None:
            return group.members[0]
        inside = set(group.members)
        outputs = [
            value
            for node in group.members
            for value in node.outputs
            if value in self.results or any(user not in inside for user in self.users[value])
        ]
        inputs = self._inputs(group.members)
        literals = {
            value: self.graph.consts[value] for node in group.members for value in node.inputs if self._literal(value)
        }
        body = Graph(
            "body",
            inputs=tuple(inputs),
            consts=literals,
            nodes=tuple(group.members),
            outputs={value.name: value for value in outputs},
        )
        anchor = next((node for node in group.members if is_kind(node, "contraction")), group.members[-1])
        phases = {node.phase for node in group.members}
        phase = "update" if "update" in phases else anchor.phase
        return Node("region", tuple(inputs), tuple(outputs), {"kind": group.kind}, body, phase, anchor.origin)


def _kind(node: Node) -> tuple[RegionKind | None, Shape, Shape]:
    """Kind, loop space and reduced axes of one node alone."""
    if is_kind(node, "region", "movement", "pooling", "random", "composite"):
        return None, (), ()
    if is_kind(node, "reduction"):
        axes, shape = ints(node.attrs, "axes"), node.inputs[0].type.shape
        return (ROW if trailing(shape, axes) else COLUMN), shape, axes
    kind = CONTRACTION if is_kind(node, "contraction") else ELEMENTWISE
    return kind, node.output.type.shape, ()


def makes_bits(group: Group) -> bool:
    """Whether a mask of bits is made in it: only elementwise regions walk memory in whole bytes of one."""
    return any(value.type.dtype is DType.BIT for node in group.members for value in node.outputs)


def combined(producer: Group, consumer: Group) -> tuple[RegionKind, Shape, Shape] | None:
    """What the two become as one region, or None when they do not fit."""
    kinds = (producer.kind, consumer.kind)
    if kinds != (ELEMENTWISE, ELEMENTWISE) and (makes_bits(producer) or makes_bits(consumer)):
        return None
    if GRADIENTS in kinds or kinds == (CONTRACTION, CONTRACTION):
        found = Gradients.of((*producer.members, *consumer.members))
        return (GRADIENTS, found.dx.output.type.shape, ()) if found else None
    if kinds == (ELEMENTWISE, ELEMENTWISE):
        return (ELEMENTWISE, producer.space, ()) if producer.space == consumer.space else None
    if kinds == (CONTRACTION, ELEMENTWISE):
        return (CONTRACTION, producer.space, ()) if producer.space == consumer.space else None
    if kinds in ((ELEMENTWISE, ROW), (ROW, ELEMENTWISE)):
        row, other = (producer, consumer) if producer.kind is ROW else (consumer, producer)
        return (ROW, row.space, row.axes) if other.space in (row.space, row.reduced) else None
    if kinds == (ELEMENTWISE, COLUMN):
        return (COLUMN, consumer.space, consumer.axes) if producer.space == consumer.space else None
    if kinds == (COLUMN, ELEMENTWISE):
        fits = consumer.space == producer.reduced and math.prod(producer.reduced) < math.prod(producer.space)
        return (COLUMN, producer.space, producer.axes) if fits else None
    if kinds in ((ROW, ROW), (COLUMN, COLUMN)):
        same = producer.space == consumer.space and producer.axes == consumer.axes
        return (ROW if ROW in kinds else COLUMN, producer.space, producer.axes) if same else None
    return None
