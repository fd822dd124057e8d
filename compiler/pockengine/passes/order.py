"""The order of nodes: updates run as early as they may, and some other nodes earlier than they were written."""

from __future__ import annotations

import dataclasses
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable

from ..ir import Graph, Node, Value
from ..ops import is_view, widens

_ANY_TIME = -1.0
"""Before the first place of the graph: what waits for nothing could run then."""


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
    """When each node would like to run. A number between two places of the graph means: between those nodes.

    Mostly it is the node's own place. An update or a view runs right after what it waits for, and so does what selects
    a parameter's trained channels, which is written behind the whole backward part. If that is nothing, or only other
    updates and views, or of a selection only forward nodes, it runs right before its first user."""
    keys: dict[Node, float] = {}
    trained = {value.name for value in graph.updates}
    late: set[Node] = set()
    for index, node in enumerate(graph.nodes):
        selects = node.phase == "backward" and node.origin in trained
        soon = selects or node.phase == "update" or is_view(node)
        before = [keys[other] for other in waits[node] if other in keys]
        keys[node] = max(before, default=_ANY_TIME) + 1e-6 if soon else float(index)
        if selects and all(other.phase == "forward" or other in late for other in waits[node]):
            late.add(node)
    users = graph.users()
    for index, node in reversed(list(enumerate(graph.nodes))):
        if keys[node] < 0 or not waits[node] or node in late:
            following = [keys[user] for value in node.outputs for user in users[value]]
            keys[node] = max(keys[node], min(following, default=float(index)) - 1e-6)
    return keys


def overwrites(graph: Graph) -> dict[Node, set[Node]]:
    """Node that makes the new contents of a parameter or state -> the nodes that read the old contents."""
    made, users = graph.producers(), graph.users()
    result: dict[Node, set[Node]] = defaultdict(set)
    for target, new in graph.updates.items():
        writer = made.get(new)
        while writer is not None and is_view(writer):
            writer = made.get(writer.inputs[0])
        if writer is not None:
            result[writer] |= set(_readers(target, users))
    return result


def _readers(value: Value, users: dict[Value, list[Node]]) -> Iterable[Node]:
    """Nodes that read the bytes of `value`: directly, through reshapes, which share them, or widened, which products
    do themselves in the end."""
    for node in users[value]:
        yield node
        if is_view(node) or widens(node):
            yield from _readers(node.output, users)
