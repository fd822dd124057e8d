"""What it takes and what it frees to run some forward nodes a second time: the step as numbers, with a choice of nodes.

A chosen node runs again right before the first node of the backward part that reads one of its results, once, after
those of its operands that are computed again themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..codegen.backend import Lowered
from ..ir import Graph, Node, Value
from ..passes.rematerialise import second_run
from ..targets import Target
from .lifetimes import Lower, Operation, Work, base_of, live_bytes, operation_of, work_of

BYTES_PER_CYCLE = 4
"""Main memory of a small device, all cores together."""

CALL_CYCLES = 2000
"""Starting a kernel and handing it to the threads."""

Choice = frozenset[int]
"""Numbers of the operations that run twice."""


def cycles(lowered: Lowered, target: Target, threads: int) -> float:
    """Roofline estimate of a node's time: arithmetic at half of two fused multiply-adds a cycle, or memory."""
    rate = threads * target.vector_bytes / 2
    return sum(CALL_CYCLES + max(call.flops / rate, call.bytes / BYTES_PER_CYCLE) for call in lowered.calls)


@dataclass(frozen=True)
class Spliced:
    """The step with a choice of operations computed twice.

    order  (number of the operation, whether it is the second run)
    live   bytes of the arena at each step
    cost   cycles of the second runs"""

    order: tuple[tuple[int, bool], ...]
    live: tuple[int, ...]
    cost: float

    @property
    def peak(self) -> int:
        return max(self.live)

    def excess(self, limit: int) -> int:
        """Bytes above `limit`, summed over the steps."""
        return sum(live - limit for live in self.live if live > limit)


class Recomputing:
    """A training step, and which of its operations can run twice."""

    def __init__(self, graph: Graph, lower: Lower, target: Target, threads: int) -> None:
        self.graph = graph
        self.work: Work = work_of(graph, lower)
        nodes = self.work.nodes
        self.maker = {value: i for i, operation in enumerate(self.work.operations) for value in operation.writes}
        self.start = next((i for i, node in enumerate(nodes) if node.phase == "backward"), len(nodes))
        self.forward = [node.phase == "forward" for node in nodes]
        self._later = self._later_readers()
        self.total = sum(cycles(lower(node), target, threads) for node in nodes)
        index = {value: number for number, value in enumerate(self.work.values)}
        base, changed = base_of(graph), _changes(graph, nodes)
        self.second: dict[int, Node] = {}
        self.again: dict[int, Operation] = {}
        self.costs: dict[int, float] = {}
        self._deadline: dict[int, int] = {}
        for number, node in enumerate(nodes[: self.start]):
            second = second_run(node, {value for value in node.outputs if value in index})
            if second is not None and second.phase != "update":
                self.second[number] = second
                self.again[number] = operation_of(second, lower(second), base, index)
                self.costs[number] = cycles(lower(second), target, threads)
                self._deadline[number] = min(
                    (changed[base[v]] for v in second.inputs if base[v] in changed), default=len(nodes)
                )

    @cached_property
    def unchanged(self) -> Spliced:
        """The step as it is."""
        found = self.splice(frozenset())
        assert found is not None  # nothing runs twice, so nothing can be too late
        return found

    def splice(self, chosen: Choice) -> Spliced | None:
        """The step with the chosen operations computed twice; None where one would read a parameter that has changed
        by then."""
        operations, sizes = self.work.operations, list(self.work.sizes)
        order: list[tuple[int, bool]] = []
        ran: list[Operation] = []
        copies: dict[int, int] = {}
        cost = 0.0
        for number, operation in enumerate(operations):
            if number in self._later and not chosen.isdisjoint(self._later[number]):
                for again in self._before(operation, chosen, copies, sizes):
                    if number > self._deadline[again]:
                        return None
                    order.append((again, True))
                    ran.append(_renamed(self.again[again], copies, writes=True))
                    cost += self.costs[again]
                operation = _renamed(operation, copies)
            order.append((number, False))
            ran.append(operation)
        return Spliced(tuple(order), tuple(live_bytes(ran, sizes, self.work.kept)), cost)

    def nodes(self, step: Spliced) -> list[tuple[Node, bool]]:
        """The nodes in the order of `step`, and which of them are second runs."""
        return [(self.second[i] if again else self.work.nodes[i], again) for i, again in step.order]

    def _before(self, operation: Operation, chosen: Choice, copies: dict[int, int], sizes: list[int]) -> list[int]:
        """The operations to run again before this one, operands first; their results get numbers in `copies`."""
        found: list[int] = []
        stack = self._missing(operation, chosen, copies)
        while stack:
            number = stack[-1]
            below = self._missing(self.again[number], chosen, copies)
            if below:
                stack += below
                continue
            stack.pop()
            writes = self.again[number].writes
            if writes[0] in copies:
                continue
            for value in writes:
                copies[value] = len(sizes)
                sizes.append(sizes[value])
            found.append(number)
        return found

    def _later_readers(self) -> dict[int, frozenset[int]]:
        """Each operation outside of the forward part -> those whose results it reads."""
        return {
            number: frozenset(self.maker[value] for value in operation.reads)
            for number, operation in enumerate(self.work.operations)
            if number >= self.start and not self.forward[number]
        }

    def _missing(self, operation: Operation, chosen: Choice, copies: dict[int, int]) -> list[int]:
        makers = (self.maker[value] for value in operation.reads if value not in copies)
        return [number for number in makers if number in chosen]


def _renamed(operation: Operation, copies: dict[int, int], writes: bool = False) -> Operation:
    """The operation on the second results of what was computed again; its own results too, with `writes`."""
    made = {value: copies[value] for value in operation.writes} if writes else {}
    return Operation(
        tuple(copies.get(value, value) for value in operation.reads),
        tuple(made.get(value, value) for value in operation.writes),
        tuple((copies.get(old, old), made.get(new, new)) for old, new in operation.over),
        operation.workspace,
    )


def _changes(graph: Graph, nodes: tuple[Node, ...]) -> dict[Value, int]:
    """Parameter or state -> the step that overwrites it: nothing that reads it can run later."""
    base = base_of(graph)
    place = {value: number for number, node in enumerate(nodes) for value in node.outputs}
    return {target: place[base[new]] for target, new in graph.updates.items()}
