"""What moves numbers becomes index arithmetic of the kernel that computes with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from ..ir import Array, Graph, Node, RegionKind, Value
from ..ops import is_view

MOVES = ("transpose", "slice", "concat", "pad", "broadcast_to")
"""Beside views: what a region of kind `moved` has of movement."""
MOST_NODES, MOST_INPUTS = 40, 16
"""Of one such region."""
FEW_NODES = 3
"""Of an elementwise region that is computed twice for two readers, instead of being stored for them."""
_MOST_WIDER = 4
"""What a slice is taken of has at most so many times its bytes: it is then kept until the region has read it."""


def move_inside(graph: Graph) -> Graph:
    """Elementwise regions and movement that one other such node alone needs are computed in it, an element at a time,
    where it reads them.

    %a = slice(%x); %b = region(slice(%x)) {elementwise: neg}; %c = concat(%b, %a); %y = region(%x, %c) {elementwise}
      ->   %y = region(%x) {moved: slice, slice, neg, concat, …}
    """
    search, places = _Search(graph), {node: place for place, node in enumerate(graph.nodes)}
    groups, inside = dict[Node, Sequence[Node]](), set[Node]()
    for node in reversed(graph.nodes):
        if node not in inside and _takes_part(node) and not is_view(node) and not search.updates(node):
            members = search.group(node)
            if len(members) > 1:
                groups[node] = sorted(members, key=places.__getitem__)
                inside |= {*members} - {node}
    nodes = (_merged(groups[node]) if node in groups else node for node in graph.nodes if node not in inside)
    return graph.with_(nodes=tuple(nodes)) if groups else graph


class _Search:
    """For what one region can compute."""

    def __init__(self, graph: Graph) -> None:
        self.made, self.users, self.results = graph.producers(), graph.users(), {*graph.results()}
        self._updates = {*graph.updates.values()}

    def updates(self, node: Node) -> bool:
        """Whether it makes new contents of a tensor, which it may write over the old ones."""
        return not self._updates.isdisjoint(node.outputs)

    def group(self, root: Node) -> list[Node]:
        """The nodes that can be computed in one, itself among them."""
        members, often = [root], {root: False}
        while (found := next(self._next(root, members, often), None)) is not None:
            members.append(found)
        while leaves := [one for one in members if is_view(one) and self.made.get(one.inputs[0]) not in members]:
            members = [one for one in members if one not in leaves]
        return members

    def _next(self, root: Node, members: list[Node], often: dict[Node, bool]) -> Iterator[Node]:
        """Nodes that can join; `often`: whether elements of a member are read more than once each."""
        if len(members) == MOST_NODES or len(_read(members)) >= MOST_INPUTS:
            return
        for value in _read(members):
            node = self.made.get(value)
            if node is None or node.phase != root.phase or len(node.outputs) > 1 or not _takes_part(node):
                continue
            users = self.users[value]
            if value in self.results or not {*members}.issuperset(users):
                continue
            often[node] = any(often[user] or _repeats(user, value) for user in users)
            if node.body is not None and (often[node] or len(users) > (2 if len(node.body.nodes) <= FEW_NODES else 1)):
                continue
            if node.op == "slice" and node.inputs[0].type.nbytes > _MOST_WIDER * value.type.nbytes:
                continue
            yield node


def moves(node: Node) -> bool:
    """Whether it is movement that a region of kind `moved` can have."""
    return is_view(node) or node.op in MOVES


def _takes_part(node: Node) -> bool:
    return moves(node) or node.region_kind is RegionKind.ELEMENTWISE


def _read(members: Sequence[Node]) -> dict[Value, None]:
    """The values that nodes read and none of them makes."""
    made = {value for node in members for value in node.outputs}
    return {value: None for node in members for value in node.inputs if value not in made}


def _repeats(user: Node, value: Value) -> bool:
    """Whether a node reads elements of a value more than once each."""
    if user.body is None:
        return user.op == "broadcast_to"
    return value.type.size < user.outputs[0].type.size or user.inputs.count(value) > 1


def _merged(members: Sequence[Node]) -> Node:
    """The last of these nodes, with all of them in its body."""
    root, names = members[-1], map("m{}".format, count())
    inputs = tuple(_read(members))
    inside = {value: Value(next(names), value.type) for value in inputs}
    consts, nodes = dict[Value, Array](), list[Node]()
    for node in members:
        body = node.body or Graph("body", node.inputs, nodes=(node,), outputs={"out": node.outputs[0]})
        own = dict(zip(body.inputs, (inside[value] for value in node.inputs), strict=True))
        for value, contents in body.consts.items():
            own[value] = Value(next(names), value.type)
            consts[own[value]] = contents
        for inner in body.nodes:
            own |= {value: Value(next(names), value.type) for value in inner.outputs}
            read, made = (tuple(own[value] for value in values) for values in (inner.inputs, inner.outputs))
            nodes.append(Node(inner.op, read, made, inner.attrs))
        inside |= zip(node.outputs, (own[value] for value in body.outputs.values()), strict=True)
    outputs = {f"out{index}": inside[value] for index, value in enumerate(root.outputs)}
    read = tuple(inside[value] for value in inputs)
    body = Graph("body", read, consts=consts, nodes=tuple(nodes), outputs=outputs)
    return Node("region", inputs, root.outputs, {"kind": RegionKind.MOVED}, body, root.phase, root.origin)
