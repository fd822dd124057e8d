"""Minimum cuts of a network: what separates two of its places at the least cost.

By the maximum flow of Dinic ("Algorithm for solution of a problem of maximum flow in networks with power estimation",
1970)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

ENDLESS = 1 << 62

Name = TypeVar("Name", bound=Hashable)


@dataclass
class _Residual:
    """What can still flow. Edge `e` goes to `head[e]`; edge `e ^ 1` is its reverse."""

    head: list[int] = field(default_factory=list)
    capacity: list[int] = field(default_factory=list)
    leaving: list[list[int]] = field(default_factory=list)

    def add(self, start: int, end: int, capacity: int) -> None:
        for a, b, size in ((start, end, capacity), (end, start, 0)):
            self.leaving[a].append(len(self.head))
            self.head.append(b)
            self.capacity.append(size)

    def levels(self, source: int) -> list[int]:
        """Edges on the shortest way from the source; -1 where there is none."""
        level = [-1] * len(self.leaving)
        level[source] = 0
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for edge in self.leaving[node]:
                other = self.head[edge]
                if self.capacity[edge] > 0 and level[other] < 0:
                    level[other] = level[node] + 1
                    queue.append(other)
        return level

    def block(self, source: int, sink: int, level: list[int]) -> None:
        """Push all that flows along shortest ways."""
        tried = [0] * len(self.leaving)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                pushed = min(self.capacity[edge] for edge in path)
                for edge in path:
                    self.capacity[edge] -= pushed
                    self.capacity[edge ^ 1] += pushed
                path, node = [], source
            elif tried[node] < len(self.leaving[node]):
                edge = self.leaving[node][tried[node]]
                if self.capacity[edge] > 0 and level[self.head[edge]] == level[node] + 1:
                    path.append(edge)
                    node = self.head[edge]
                else:
                    tried[node] += 1
            elif not path:
                return
            else:
                node = self.head[path.pop() ^ 1]
                tried[node] += 1


def near_side(edges: Iterable[tuple[Name, Name, int]], source: Name, sink: Name) -> set[Name]:
    """The nodes on the source's side of a minimum cut; of all such cuts, of the one nearest to the source.

    edges  (from, to, capacity)"""
    index: dict[Name, int] = {source: 0, sink: 1}
    network = _Residual(leaving=[[], []])
    for start, end, capacity in edges:
        for name in (start, end):
            if name not in index:
                index[name] = len(index)
                network.leaving.append([])
        network.add(index[start], index[end], capacity)
    level = network.levels(0)
    while level[1] >= 0:
        network.block(0, 1, level)
        level = network.levels(0)
    return {name for name, number in index.items() if level[number] >= 0}
