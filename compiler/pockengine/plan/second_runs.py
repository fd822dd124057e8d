"""What it costs, and what it frees, to run some forward nodes a second time.

The step is numbers here, and a choice is a set of nodes. A chosen node runs again right before the first node of the
backward part that reads one of its results. It runs again only once, after those of its operands that are computed
again themselves. Its first run leaves out what only they read. A node that still does not fit is computed in less
scratch memory where it can be, in the quickest way that fits.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from ..ir import Graph, Node, Value
from ..passes.rematerialise import second_run
from .lives import Operation, Work, base_of, live_bytes, operation_of, work_of
from .lowering import Lowering
from .program import SCRATCH
from .space import aligned

Choice = frozenset[int]
"""Numbers of the operations that run twice."""


@dataclass(frozen=True)
class Run:
    """A node, perhaps without some of its results."""

    node: Node
    operation: Operation
    cycles: float


@dataclass(frozen=True)
class Spliced:
    """The step with a choice of operations computed twice.

    order    (number of the operation, whether it is the second run)
    live     bytes of the arena at each step
    cost     cycles of the second runs, and what less scratch memory costs
    scratch  bytes of scratch memory by the number of the step, where they are not the usual ones"""

    order: tuple[tuple[int, bool], ...]
    live: tuple[int, ...]
    cost: float
    scratch: dict[int, int]

    @property
    def peak(self) -> int:
        return max(self.live)

    def excess(self, limit: int) -> int:
        """Bytes above `limit`, summed over the steps."""
        return sum(live - limit for live in self.live if live > limit)


class Recomputing:
    """A training step, and which of its operations can run twice."""

    def __init__(self, graph: Graph, lowering: Lowering) -> None:
        self.graph, self.lowering = graph, lowering
        self._ways: dict[int, list[tuple[int, float]]] = {}
        self.work: Work = work_of(graph, lowering, lowering.alignment)
        nodes = self.work.nodes
        self.maker = {value: i for i, operation in enumerate(self.work.operations) for value in operation.writes}
        self.start = next((i for i, node in enumerate(nodes) if node.phase == "backward"), 0)
        self.forward = [node.phase == "forward" for node in nodes]
        self._later = self._later_readers()
        self._cycles = [lowering.cycles(node) for node in nodes]
        self.total = sum(self._cycles)
        index = {value: number for number, value in enumerate(self.work.values)}
        base, changed = base_of(graph), _changes(graph, nodes)

        def run(node: Node, wanted: Set[Value]) -> Run | None:
            found = second_run(node, wanted)
            if found is None or found.phase == "update":
                return None
            return Run(
                found, operation_of(found, lowering(found), lowering.alignment, base, index), lowering.cycles(found)
            )

        early, late = self._readers()
        self.first: dict[int, Run] = {}
        self.second: dict[int, Run] = {}
        self._short: dict[int, tuple[Run, frozenset[int]]] = {}
        self._deadline: dict[int, int] = {}
        for number, node in enumerate(nodes[: self.start]):
            made = {value for value in node.outputs if value in index}
            whole = run(node, made)
            if whole is None:
                continue
            self.second[number] = whole
            self._deadline[number] = min(
                (changed[base[v]] for v in whole.node.inputs if base[v] in changed), default=len(nodes)
            )
            first = run(node, {value for value in node.outputs if value not in made or early[index[value]]})
            if first is not None and first.node is not node:
                self.first[number] = first
            short = run(node, {value for value in made if late[index[value]]})
            if short is not None and len(short.node.outputs) < len(made):
                others = (early[index[value]] for value in made if value not in short.node.outputs)
                self._short[number] = short, frozenset[int]().union(*others)

    def unchanged(self, limit: int) -> Spliced:
        """The step with nothing computed twice."""
        found = self.splice(frozenset(), limit)
        assert found is not None  # nothing runs twice, so nothing can be too late
        return found

    def splice(self, chosen: Choice, limit: int) -> Spliced | None:
        """The step with the chosen operations computed twice, and with less scratch memory where more than `limit`
        bytes would be alive; None where an operation would read a parameter that has changed by then."""
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
                    run = self._second(again, chosen)
                    ran.append(_renamed(run.operation, copies, writes=True))
                    cost += run.cycles
                operation = _renamed(operation, copies)
            order.append((number, False))
            ran.append(self.first[number].operation if number in chosen and number in self.first else operation)
        alignment = self.lowering.alignment
        live, scratch = live_bytes(ran, sizes, self.work.kept), dict[int, int]()
        for step, nbytes in enumerate(live):
            usual = ran[step].workspace
            if nbytes > limit and usual and (ways := self._ways_of(order[step][0])):
                room = limit - (nbytes - usual)
                scratch[step], more = next((way for way in ways if aligned(way[0], alignment) <= room), ways[-1])
                live[step] += aligned(scratch[step], alignment) - usual
                cost += more
        return Spliced(tuple(order), tuple(live), cost, scratch)

    def _ways_of(self, number: int) -> list[tuple[int, float]]:
        """(bytes of scratch memory, cycles more than usual) of the ways to compute an operation in less, the quickest
        first."""
        if number not in self._ways:
            usual = self._cycles[number]
            found = self.lowering.scratch(self.work.nodes[number])
            self._ways[number] = [(nbytes, (time - 1) * usual) for nbytes, time in found]
        return self._ways[number]

    def nodes(self, step: Spliced) -> list[tuple[Node, bool]]:
        """The nodes in the order of `step`, and which of them are second runs."""
        found = []
        twice = frozenset(number for number, again in step.order if again)
        for place, (number, again) in enumerate(step.order):
            node = self._second(number, twice).node if again else self.work.nodes[number]
            if number in twice and not again and number in self.first:
                node = self.first[number].node
            if place in step.scratch:
                node = replace(node, attrs={**node.attrs, SCRATCH: step.scratch[place]})
            found.append((node, again))
        return found

    def _before(self, operation: Operation, chosen: Choice, copies: dict[int, int], sizes: list[int]) -> list[int]:
        """The operations to run again before this one, operands first; their results get numbers in `copies`."""
        found: list[int] = []
        stack = self._missing(operation, chosen, copies)
        while stack:
            number = stack[-1]
            again = self._second(number, chosen).operation
            below = self._missing(again, chosen, copies)
            if below:
                stack += below
                continue
            stack.pop()
            if again.writes[0] in copies:
                continue
            for value in again.writes:
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

    def _readers(self) -> tuple[list[set[int]], list[set[int]]]:
        """For each value, who reads it in the forward part (or beyond the end), and who later."""
        early: list[set[int]] = [set() for _ in self.work.sizes]
        late: list[set[int]] = [set() for _ in self.work.sizes]
        for number, operation in enumerate(self.work.operations):
            for value in operation.reads:
                (late if number in self._later else early)[value].add(number)
        for value in self.work.kept:
            early[value].add(len(self.work.operations))
        return early, late

    def _second(self, number: int, chosen: Choice) -> Run:
        """The second run of an operation, without results that none of the chosen ones reads."""
        if number in self._short and chosen.isdisjoint(self._short[number][1]):
            return self._short[number][0]
        return self.second[number]

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
