"""Orders of nodes with a low peak: as low as any, on small graphs; and what no order can go below."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import pytest

import pockengine as pock
from benchmarks.workloads import WORKLOADS, workload_named
from pockengine.compile import Request, Scope, plan_programs
from pockengine.ir import Graph, verify
from pockengine.passes.order import overwrites
from pockengine.plan.lives import Lower, Operation, Work, live_bytes, work_of
from pockengine.plan.peak_order import Waits, forced_bytes, lower_peak, lowest_order, ordered, waits_of
from pockengine.targets import ALIGNMENT, get

from ..passes.networks import cnn, transformer


def _random_work(chance: random.Random) -> tuple[Work, Waits]:
    """Six operations, each of one result; some write over an operand, some wait for one whose result they do not
    read."""
    operations, waits = [], []
    for step in range(6):
        reads = tuple(sorted(chance.sample(range(step), min(step, chance.randint(0, 2)))))
        over = ((reads[0], step),) if reads and chance.random() < 0.5 else ()
        operations.append(Operation(reads, (step,), over, chance.choice((0, 0, 3))))
        waits.append(frozenset(reads) | ({chance.randrange(step)} if step and chance.random() < 0.2 else set()))
    sizes = tuple(chance.choice((1, 2, 5, 5, 9)) for _ in operations)
    return Work((), tuple(operations), (), sizes, (5,)), waits


def _orders(waits: Waits) -> Iterator[tuple[int, ...]]:
    for order in itertools.permutations(range(len(waits))):
        if all(waits[number] <= set(order[:at]) for at, number in enumerate(order)):
            yield order


def _peak(work: Work, order: tuple[int, ...]) -> int:
    return max(live_bytes([work.operations[number] for number in order], work.sizes, work.kept))


def test_no_order_of_a_small_graph_has_a_lower_peak() -> None:
    chance = random.Random(0)
    reached = gained = 0
    for _ in range(150):
        work, waits = _random_work(chance)
        least = min(_peak(work, order) for order in _orders(waits))
        found = lowest_order(work, waits)
        assert found.peak == least
        assert max(forced_bytes(work, waits)) <= found.bound <= least
        if found.order:
            assert found.order in set(_orders(waits)) and _peak(work, found.order) == found.peak
        reached += max(forced_bytes(work, waits)) == least
        gained += bool(found.order)
    assert reached > 50, "a bound that is far below would say nothing"
    assert gained > 30, "orders that are never changed would say nothing"


@pytest.mark.parametrize("network", [cnn, transformer])
def test_nodes_in_a_bad_order_are_put_into_a_good_one(network: Callable[[int], Graph]) -> None:
    recipe = pock.Recipe(loss="cross_entropy", optimizer={"name": "sgd", "momentum": 0.9}, batch=8)
    program = plan_programs(Request(network(8), recipe, get("raspberry-pi-4"), scope=Scope.TRAINING)).programs["train"]
    lowered = {step.node: step.lowered for step in program.steps}
    bad = _badly_ordered(program.graph, lowered.__getitem__)
    good = verify(lower_peak(bad, lowered.__getitem__, ALIGNMENT))
    assert _peak_of(bad, lowered.__getitem__) > program.plan.lower_bound_bytes
    assert _peak_of(good, lowered.__getitem__) <= 1.02 * program.plan.lower_bound_bytes
    assert set(good.nodes) == set(bad.nodes)
    position = {node: at for at, node in enumerate(good.nodes)}
    late = [(writer, node) for writer, readers in overwrites(good).items() for node in readers if node is not writer]
    assert late and all(position[node] < position[writer] for writer, node in late)


def _peak_of(graph: Graph, lower: Lower) -> int:
    work = work_of(graph, lower, ALIGNMENT)
    return max(live_bytes(work.operations, work.sizes, work.kept))


def _badly_ordered(graph: Graph, lower: Lower) -> Graph:
    """Updates, which free what they read, as late as they can be."""
    work = work_of(graph, lower, ALIGNMENT)
    waits = waits_of(graph, work.nodes)
    order: list[int] = []
    while len(order) < len(waits):
        ready = [number for number in range(len(waits)) if number not in order and waits[number] <= set(order)]
        order.append(max(ready, key=lambda number: (work.nodes[number].phase != "update", len(waits[number]))))
    return ordered(graph, [work.nodes[number] for number in order])


def test_a_networks_arena_is_above_its_bound() -> None:
    recipe = pock.Recipe(loss="cross_entropy", optimizer="sgd", batch=2)
    program = plan_programs(Request(cnn(2), recipe, get("raspberry-pi-4"), scope=Scope.TRAINING)).programs["train"]
    lowered = {step.node: step.lowered for step in program.steps}
    work = work_of(program.graph, lowered.__getitem__, ALIGNMENT)
    bound = max(forced_bytes(work, waits_of(program.graph, work.nodes)))
    assert 0 < bound <= program.plan.arena_bytes <= 1.2 * bound


def test_workloads_are_found_by_name() -> None:
    assert all(workload_named(name) is workload for name, workload in WORKLOADS.items())
    assert workload_named("mobilenetv2-b4-full").batch == 4
