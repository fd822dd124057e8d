"""The plan checker finds each kind of broken plan and names the slots."""

from dataclasses import replace
from typing import Any

import pytest

from pockengine.plan import Buffer, Demand, MemoryPlan, PlanError, check, plan
from tests.compiler.plan.demands import training_demand

DEMAND = Demand(
    3,
    (Buffer("a", 100, 0, 1, "activation"), Buffer("b", 64, 1, 2, "gradient"), Buffer("c", 10, 2, 2, "workspace")),
)


def changed(index: int, **fields: Any) -> MemoryPlan:
    """A good plan of DEMAND with one slot altered."""
    good = plan(DEMAND)
    slots = list(good.slots)
    slots[index] = replace(slots[index], **fields)
    return replace(good, slots=tuple(slots))


def test_a_good_plan_passes() -> None:
    check(DEMAND, plan(DEMAND))


def test_overlap_names_both_slots_and_the_step() -> None:
    target = plan(DEMAND).slots[0].offset
    with pytest.raises(PlanError, match=r"'[ab]'.*'[ab]'.*overlap and are both alive in step 1"):
        check(DEMAND, changed(1, offset=target))


def test_overlap_hidden_behind_a_small_slot_is_found() -> None:
    demand = Demand(1, tuple(Buffer(name, size, 0, 0, "x") for name, size in (("big", 640), ("in", 64), ("end", 64))))
    good = plan(demand)
    slots = tuple(replace(slot, offset={"big": 0, "in": 640, "end": 64}[slot.value]) for slot in good.slots)
    with pytest.raises(PlanError, match="'big'.*'end'"):
        check(demand, replace(good, slots=slots))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (changed(0, offset=8), "'a'.*misaligned"),
        (changed(1, offset=1 << 20), "'b'.*outside the arena"),
        (changed(2, offset=-64), "'c'.*outside the arena"),
        (changed(0, nbytes=50), "'a'.*does not match the demand.*100 bytes"),
        (changed(1, last=1), "'b'.*does not match the demand.*1..2"),
        (changed(1, value="z"), "'b'.*has no slot"),
        (changed(1, value="a"), "'a' has two slots"),
        (replace(plan(DEMAND), slots=plan(DEMAND).slots[:2]), "'c'.*has no slot"),
        (replace(plan(DEMAND), lower_bound_bytes=64), "lower bound of 64"),
    ],
)
def test_each_defect_is_named(broken: MemoryPlan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check(DEMAND, broken)


def test_a_slot_that_the_demand_does_not_know_is_refused() -> None:
    with pytest.raises(PlanError, match="'c'.*not a buffer"):
        check(replace(DEMAND, buffers=DEMAND.buffers[:2]), plan(DEMAND))


def test_moving_any_slot_of_a_tight_plan_onto_its_neighbour_is_found() -> None:
    demand = training_demand(30, 0)
    good = plan(demand)
    peers = [
        (i, j)
        for i, a in enumerate(good.slots)
        for j, b in enumerate(good.slots)
        if i < j and a.first <= b.last and b.first <= a.last
    ]
    for i, j in peers[::7]:
        slots = list(good.slots)
        slots[j] = replace(slots[j], offset=slots[i].offset)
        with pytest.raises(PlanError):
            check(demand, replace(good, slots=tuple(slots)))
