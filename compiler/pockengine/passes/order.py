"""The order of nodes: what is saved between forward and backward, and when updates happen."""

from __future__ import annotations

import dataclasses
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable

from ..ir import Graph, Node, Value
from ..ops import is_kind


def hoist(graph: Graph, chosen: Callable[[Node], bool]) -> Graph:
    """Move the chosen nodes to right after the last of their inputs, into the forward phase."""
    position = dict.fromkeys(graph.sources(), -1.0)
    keyed: list[tuple[float, int, Node]] = []
    for index, old in enumerate(graph.nodes):
        node, place = old, float(index)
        if chosen(old):
            place = max(position[value] for value in old.inputs) + 1e-6
            node = dataclasses.replace(old, phase="forward")
        keyed.append((place, index, node))
        position.update(dict.fromkeys(node.outputs, place))
    return graph.with_(nodes=tuple(node for _, _, node in sorted(keyed, key=lambda entry: entry[:2])))


def save_masks(graph: Graph) -> Graph:
    """Save what the backward pass needs of a forward value instead of the value, where that is smaller: a relu's
    one-byte mask for its four-byte output.

        forward %y … backward: %m = less(0, %y)   ->   forward %y, %m = less(0, %y) … backward: (reads only %m)
    """
    made = {value: node for node in graph.nodes for value in node.outputs}
    forward = {value for value, node in made.items() if node.phase == "forward"} | set(graph.consts)
    users = graph.users()
    moved: set[Node] = set()
    for value in [v for v in forward if v in made]:
        cone = _cone(value, users, forward, graph)
        if cone is None:
            continue
        inside = set(cone)
        frontier = [out for node in cone for out in node.outputs if any(user not in inside for user in users[out])]
        if cone and sum(out.type.nbytes for out in frontier) < value.type.nbytes:
            moved |= inside
    return hoist(graph, lambda node: node in moved)


def _cone(value: Value, users: dict[Value, list[Node]], forward: set[Value], graph: Graph) -> list[Node] | None:
    """The backward nodes that read `value` or each other and else only constants, if they are all elementwise with a
    smaller result; None when some backward node needs the value itself."""
    reading = [node for node in users[value] if node.phase != "forward"]
    if not reading:
        return None
    cone: list[Node] = []
    for node in reading:
        others = [v for v in node.inputs if v is not value]
        if not _shrinks(node, value) or any(v not in graph.consts for v in others):
            return None
        cone.append(node)
    known = {value, *(out for node in cone for out in node.outputs)}
    inside = set(cone)
    for node in cone:  # grows while it is walked
        for reader in (user for out in node.outputs for user in users[out]):
            rest = all(v in known or v in graph.consts for v in reader.inputs)
            if reader.phase != "forward" and reader not in inside and is_kind(reader, "elementwise") and rest:
                inside.add(reader)
                cone.append(reader)
                known.update(reader.outputs)
    return cone


def _shrinks(node: Node, value: Value) -> bool:
    return is_kind(node, "elementwise") and node.output.type.nbytes < value.type.nbytes


def reorder(graph: Graph) -> Graph:
    """Run each update as soon as its gradient is there and nobody needs the old parameter, and otherwise keep the
    order.

    %dw1 %dw2 %w1' %w2'   ->   %dw1 %w1' %dw2 %w2'
    """
    waits = _waits(graph)
    keys = _keys(graph, waits)
    followers: dict[Node, list[Node]] = defaultdict(list)
    for node, before in waits.items():
        for other in before:
            followers[other].append(node)
    missing = {node: len(before) for node, before in waits.items()}
    index = {node: i for i, node in enumerate(graph.nodes)}
    ready = [(keys[node], index[node]) for node in graph.nodes if not missing[node]]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        node = graph.nodes[heapq.heappop(ready)[1]]
        ordered.append(node)
        for follower in followers[node]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, (keys[follower], index[follower]))
    assert len(ordered) == len(graph.nodes), "an update waits for itself"
    return graph.with_(nodes=tuple(ordered))


def _waits(graph: Graph) -> dict[Node, set[Node]]:
    """Node -> the nodes that must run before it."""
    made = graph.producers()
    waits = {node: {made[v] for v in node.inputs if v in made} for node in graph.nodes}
    for writer, readers in overwrites(graph).items():
        waits[writer] |= {node for node in readers if node is not writer}
    return waits


def _keys(graph: Graph, waits: dict[Node, set[Node]]) -> dict[Node, float]:
    """When each node would like to run: its place in the graph; for updates and views right after what they wait for,
    and when they wait for nothing, right before their first user."""
    keys: dict[Node, float] = {}
    for index, node in enumerate(graph.nodes):
        soon = node.phase == "update" or node.op == "reshape"
        before = [keys[other] for other in waits[node] if other in keys]
        keys[node] = max(before) + 1e-6 if soon and before else float(index)
    users = graph.users()
    for node in reversed(graph.nodes):
        following = [keys[user] for value in node.outputs for user in users[value]]
        if not waits[node] and following:
            keys[node] = max(keys[node], min(following) - 1e-6)
    return keys


def overwrites(graph: Graph) -> dict[Node, set[Node]]:
    """Node that makes the new contents of a parameter or state -> the nodes that read the old contents."""
    made, users = graph.producers(), graph.users()
    result: dict[Node, set[Node]] = defaultdict(set)
    for target, new in graph.updates.items():
        writer = made.get(new)
        while writer is not None and writer.op == "reshape":
            writer = made.get(writer.inputs[0])
        if writer is not None:
            result[writer] |= set(_readers(target, users))
    return result


def _readers(value: Value, users: dict[Value, list[Node]]) -> Iterable[Node]:
    """Nodes that read the bytes of `value`: directly or through reshapes, which share them."""
    for node in users[value]:
        yield node
        if node.op == "reshape":
            yield from _readers(node.output, users)
