"""What no order of the nodes could go below, and how close plans come to it."""

from __future__ import annotations

import itertools
import random

import pockengine as pock
from benchmarks.arena_bounds import forced_bytes
from benchmarks.workloads import WORKLOADS, workload_named
from pockengine.compile import plan_programs
from pockengine.compile.lifetimes import Operation, live_bytes, work_of
from pockengine.targets import get

from ..passes.networks import cnn


def _random_operations(chance: random.Random) -> list[Operation]:
    """Five operations, each of one result; some write over an operand."""
    operations = []
    for step in range(5):
        reads = tuple(sorted(chance.sample(range(step), min(step, chance.randint(0, 2)))))
        over = ((reads[0], step),) if reads and chance.random() < 0.5 else ()
        operations.append(Operation(reads, (step,), over, chance.choice((0, 0, 3))))
    return operations


def test_no_order_goes_below_the_bound() -> None:
    chance = random.Random(0)
    reached = 0
    for _ in range(40):
        operations = _random_operations(chance)
        sizes = [chance.choice((1, 2, 5, 5)) for _ in operations]
        bound = max(forced_bytes(operations, sizes, (4,)))
        least = min(
            max(live_bytes(order, sizes, (4,)))
            for order in itertools.permutations(operations)
            if all(_position(order, read) < at for at, one in enumerate(order) for read in one.reads)
        )
        assert bound <= least
        reached += bound == least
    assert reached > 15, "a bound that is far below would say nothing"


def _position(order: tuple[Operation, ...], value: int) -> int:
    return next(at for at, one in enumerate(order) if value in one.writes)


def test_a_networks_arena_is_above_its_bound() -> None:
    recipe = pock.Recipe(loss="cross_entropy", optimizer="sgd", batch=2)
    program = plan_programs(cnn(2), recipe, get("raspberry-pi-4"), only_training=True).programs["train"]
    lowered = {step.node: step.lowered for step in program.steps}
    work = work_of(program.graph, lambda node: lowered[node])
    bound = max(forced_bytes(work.operations, work.sizes, work.kept))
    assert 0 < bound <= program.plan.arena_bytes <= 1.2 * bound


def test_workloads_are_found_by_name() -> None:
    assert all(workload_named(name) is workload for name, workload in WORKLOADS.items())
    assert workload_named("mobilenetv2-b4-full").batch == 4
