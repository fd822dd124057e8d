"""An order of a program's nodes in which fewer bytes of the arena are alive at once, and a bound for all orders.

Whether some order keeps to a limit is searched depth first, and the limit is bisected. Two rules leave few choices. A
node after which no more bytes are alive than before runs at once if it fits. So does a run of such nodes, each made
ready by those before it (Liu, "An application of generalized tree pebbling to sparse matrix factorization", 1987). No
order that keeps to the limit is lost by either rule. A limit that cannot be kept takes the longest to give up, so the
first ones lie close below the peak.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import numpy.typing as npt

from ..ir import Graph, Node, Value
from ..ops import is_view
from ..passes.order import overwrites
from .lives import Lower, Operation, Work, base_of, live_bytes, work_of

WORTH = 400
"""A search is worth one part in this many of the peak: no order is changed for less, and the bisection ends there."""

WORK, WORK_PER_NODE = 40_000, 20
"""Looks at a node that one limit may take: bounds the time of a search, linearly in the nodes."""

LONGEST_RUN = 12

Waits = Sequence[frozenset[int]]
"""For each operation, those that must run before it."""


@dataclass(frozen=True)
class Ordered:
    """order  the operations' numbers, as they run; empty where the present order stays
    peak   the most bytes that are alive at once in it
    bound  bytes that no order can go below, as far as that is known"""

    order: tuple[int, ...]
    peak: int
    bound: int


def lower_peak(graph: Graph, lower: Lower, alignment: int) -> Graph:
    """The graph, its nodes in an order with a lower peak where one is found that is worth it.

    %a = f(%x), %b = g(%x), %c = h(%a)   ->   %a = f(%x), %c = h(%a), %b = g(%x)
    """
    work = work_of(graph, lower, alignment)
    found = lowest_order(work, waits_of(graph, work.nodes))
    return ordered(graph, [work.nodes[number] for number in found.order]) if found.order else graph


def lowest_order(work: Work, waits: Waits) -> Ordered:
    """The order with the lowest peak that the search finds."""
    peak = max(live_bytes(work.operations, work.sizes, work.kept), default=0)
    bound = max(forced_bytes(work, waits), default=0)
    search = _Search(work, waits)
    order: tuple[int, ...] = ()
    low, step = bound - 1, 1 + peak // WORTH
    while peak - low > 1 + peak // WORTH:
        limit = max(peak - step, (low + peak) // 2)
        found = search.within(limit)
        if found:
            order, step = found, 2 * step
            peak = max(live_bytes([work.operations[number] for number in order], work.sizes, work.kept))
        else:
            low = limit
            if search.exhausted:
                bound = limit + 1
    return Ordered(order, peak, bound)


def waits_of(graph: Graph, nodes: Sequence[Node]) -> list[frozenset[int]]:
    """For each of `nodes` (the graph's but the views), those that must run before it: they make what it reads, or read
    what it overwrites."""
    base = base_of(graph)
    place = {node: number for number, node in enumerate(nodes)}
    maker = {value: place[node] for node in nodes for value in node.outputs}
    waits = [{maker[base[value]] for value in node.inputs if base[value] in maker} for node in nodes]
    for writer, readers in overwrites(graph).items():
        waits[place[writer]] |= {place[node] for node in readers if node in place and node is not writer}
    return [frozenset(before) for before in waits]


def forced_bytes(work: Work, waits: Waits) -> list[int]:
    """Bytes of the arena that are alive while each operation runs, in whatever order the operations run: its operands,
    results and scratch memory, and what is made by one that it waits for and read by one that waits for it."""
    count = len(work.operations)
    before, after = _reached(waits)
    forced = np.zeros(count, np.int64)
    ends = [1 << count if value in set(work.kept) else 0 for value in range(len(work.sizes))]
    own: list[set[int]] = [set() for _ in work.sizes]
    for step, operation in enumerate(work.operations):
        for value in operation.reads:
            ends[value] |= before[step] | 1 << step
            own[value].add(step)
        for value in operation.writes:
            own[value].add(step)
    everything = (1 << count) - 1
    for step, operation in enumerate(work.operations):
        for value in operation.writes:
            late = everything if ends[value] >> count else ends[value]
            alive = after[step] & late | sum(1 << one for one in own[value])
            forced += work.sizes[value] * _bits(alive, count)
        shared = {new: min(work.sizes[old], work.sizes[new]) for old, new in operation.over}
        forced[step] += operation.workspace - sum(shared.values())
    return [int(one) for one in forced]


def _reached(waits: Waits) -> tuple[list[int], list[int]]:
    """For each operation, as bits: those that run before it in every order, and those that run after it."""
    before, after = [0] * len(waits), [0] * len(waits)
    for step, direct in enumerate(waits):
        for made in direct:
            before[step] |= before[made] | 1 << made
    for step in reversed(range(len(waits))):
        for made in waits[step]:
            after[made] |= after[step] | 1 << step
    return before, after


def _bits(mask: int, count: int) -> npt.NDArray[np.int64]:
    raw = np.frombuffer(mask.to_bytes(count // 8 + 1, "little"), np.uint8)
    return np.unpackbits(raw, bitorder="little")[:count].astype(np.int64)


def ordered(graph: Graph, order: Sequence[Node]) -> Graph:
    """The nodes in this order, each view right after what it views."""
    views: dict[Value, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if is_view(node):
            views[node.inputs[0]].append(node)
    nodes = [view for value in graph.sources() for view in _views_of(value, views)]
    for node in order:
        nodes.append(node)
        nodes += (view for value in node.outputs for view in _views_of(value, views))
    return graph.with_(nodes=tuple(nodes))


def _views_of(value: Value, views: Mapping[Value, list[Node]]) -> Iterator[Node]:
    for view in views.get(value, ()):
        yield view
        yield from _views_of(view.output, views)


@dataclass(frozen=True)
class _State:
    """done   the operations that ran, as bits
    live   bytes that are alive
    ready  the operations that wait for nothing more, ascending
    ran    the last one that ran, and what ran before"""

    done: int
    live: int
    ready: tuple[int, ...]
    ran: tuple[object, int] | None


class _Search:
    """Whether some order keeps to a limit."""

    def __init__(self, work: Work, waits: Waits) -> None:
        self.work, self.exhausted, self.left = work, False, 0
        self.waits = [sum(1 << other for other in before) for before in waits]
        self.followers: list[list[tuple[int, int]]] = [[] for _ in waits]
        for number, before in enumerate(waits):
            for other in before:
                self.followers[other].append((number, self.waits[number]))
        self.reads = [tuple(set(operation.reads)) for operation in work.operations]
        self.readers = [0] * len(work.sizes)
        for number, operation in enumerate(work.operations):
            for value in operation.reads:
                self.readers[value] |= 1 << number
        for value in work.kept:
            self.readers[value] |= 1 << len(waits)
        self.concerned = [reduce(or_, (self.readers[value] for value in read), 0) for read in self.reads]
        self.known: list[dict[int, tuple[int, int]]] = [{} for _ in waits]

    def within(self, limit: int) -> tuple[int, ...]:
        """An order with at most `limit` bytes alive, or nothing; `exhausted` tells whether there is none for sure."""
        everything = (1 << len(self.waits)) - 1
        self.left = WORK + WORK_PER_NODE * len(self.waits)
        self.exhausted = False
        state = _State(0, 0, tuple(number for number, before in enumerate(self.waits) if not before), None)
        stack, seen = list[tuple[_State, int, int]](), set[int]()
        while True:
            seen.add(state.done)
            state = self._settled(state, limit)
            if state.done == everything:
                return tuple(_listed(state.ran))[::-1]
            if self.left <= 0:
                return ()
            seen.add(state.done)
            stack += self._choices(state, limit)
            while stack and (stack[-1][0].done | 1 << stack[-1][1]) in seen:
                stack.pop()
            if not stack:
                self.exhausted = True
                return ()
            state = self._after(*stack.pop())

    def _choices(self, state: _State, limit: int) -> list[tuple[_State, int, int]]:
        """The state, with each node that may run next and the bytes that are alive then; the first one last."""
        found = []
        for number in reversed(state.ready):
            while_it_runs, after = self._effect(number, state.done)
            if state.live + while_it_runs <= limit:
                found.append((state, number, state.live + after))
        return found

    def _settled(self, state: _State, limit: int) -> _State:
        """The state after all that may run at once."""
        while self.left > 0:
            run = next((run for number in state.ready if (run := self._single(state, number, limit))), None)
            run = run or next((run for number in state.ready if (run := self._run(state, number, limit))), None)
            if run is None:
                break
            for number in run:
                state = self._after(state, number, state.live + self._effect(number, state.done)[1])
        return state

    def _single(self, state: _State, number: int, limit: int) -> list[int] | None:
        while_it_runs, after = self._effect(number, state.done)
        return [number] if after <= 0 and state.live + while_it_runs <= limit else None

    def _run(self, state: _State, number: int, limit: int) -> list[int] | None:
        """`number` and some that it makes ready, after which no more bytes are alive than before."""
        run: list[int] = []
        done, live, candidates = state.done, state.live, [number]
        while candidates and len(run) < LONGEST_RUN:
            best: tuple[int, int] | None = None
            for one in candidates:
                while_it_runs, after = self._effect(one, done)
                if live + while_it_runs <= limit and (best is None or (after, one) < best):
                    best = after, one
            if best is None:
                return None
            after, chosen = best
            run.append(chosen)
            done, live = done | 1 << chosen, live + after
            if live <= state.live:
                return run
            candidates.remove(chosen)
            candidates += self._made_ready(chosen, done)
        return None

    def _after(self, state: _State, number: int, live: int) -> _State:
        done, place = state.done | 1 << number, state.ready.index(number)
        others = state.ready[:place] + state.ready[place + 1 :]
        made = self._made_ready(number, done)
        return _State(done, live, tuple(sorted((*others, *made))) if made else others, (state.ran, number))

    def _made_ready(self, number: int, done: int) -> list[int]:
        left = ~done
        return [one for one, waits in self.followers[number] if not waits & left]

    def _effect(self, number: int, done: int) -> tuple[int, int]:
        """Bytes that an operation adds to those alive: while it runs, and afterwards."""
        self.left -= 1
        known, concerned = self.known[number], done & self.concerned[number]
        found = known.get(concerned)
        if found is None:
            found = known[concerned] = self._computed_effect(number, concerned)
        return found

    def _computed_effect(self, number: int, done: int) -> tuple[int, int]:
        operation, sizes = self.work.operations[number], self.work.sizes
        rest = ~(done | 1 << number)
        dying = [value for value in self.reads[number] if not self.readers[value] & rest]
        written = sum(sizes[value] for value in operation.writes)
        while_it_runs = written + operation.workspace
        taken: set[int] = set()
        for old, new in operation.over:
            if old in dying and taken.isdisjoint((old, ~new)) and _overwritable(operation, old, new, sizes):
                taken |= {old, ~new}
                while_it_runs -= sizes[new]
        unread = sum(sizes[value] for value in operation.writes if not self.readers[value])
        return while_it_runs, written - unread - sum(sizes[value] for value in dying)


def _overwritable(operation: Operation, old: int, new: int, sizes: Sequence[int]) -> bool:
    return sizes[old] == sizes[new] and operation.reads.count(old) == 1


def _listed(ran: tuple[object, int] | None) -> Iterator[int]:
    """From the last one that ran to the first."""
    while ran is not None:
        before, number = ran
        yield number
        assert before is None or isinstance(before, tuple)
        ran = before
