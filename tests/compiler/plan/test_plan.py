"""The planner against its independent checker, on random lifetimes and on lifetimes shaped like training."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pockengine.plan import Buffer, Demand, check, plan
from tests.compiler.plan.demands import inference_demand, random_demand, training_demand


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    steps = draw(st.integers(1, 12))
    count = draw(st.integers(0, 25))
    buffers = []
    for index in range(count):
        first = draw(st.integers(0, steps - 1))
        last = draw(st.integers(first, steps - 1))
        buffers.append(Buffer(f"b{index}", draw(st.integers(0, 1000)), first, last, "activation"))
    return Demand(steps, tuple(buffers))


@settings(max_examples=200)
@given(demands())
def test_any_demand_gets_a_valid_plan(demand: Demand) -> None:
    result = plan(demand)
    check(demand, result)
    assert [slot.value for slot in result.slots] == [buffer.name for buffer in demand.buffers if buffer.nbytes]


@settings(max_examples=50)
@given(demands())
def test_planning_is_deterministic(demand: Demand) -> None:
    assert plan(demand) == plan(demand)


@settings(max_examples=50)
@given(demands(), st.randoms(use_true_random=False))
def test_the_lower_bound_does_not_depend_on_the_order_of_the_buffers(demand: Demand, chance) -> None:
    shuffled = list(demand.buffers)
    chance.shuffle(shuffled)
    assert plan(Demand(demand.steps, tuple(shuffled))).lower_bound_bytes == plan(demand).lower_bound_bytes


@pytest.mark.parametrize("layers", [20, 60, 150, 400])
@pytest.mark.parametrize("seed", range(4))
def test_training_arena_is_within_one_percent_of_the_lower_bound(layers: int, seed: int) -> None:
    demand = training_demand(layers, seed)
    result = plan(demand)
    check(demand, result)
    assert result.arena_bytes <= 1.01 * result.lower_bound_bytes


@pytest.mark.parametrize("seed", range(6))
def test_inference_arena_is_within_one_percent_of_the_lower_bound(seed: int) -> None:
    demand = inference_demand(100, seed)
    result = plan(demand)
    check(demand, result)
    assert result.arena_bytes <= 1.01 * result.lower_bound_bytes


@pytest.mark.parametrize("seed", [8, 9])
def test_the_search_closes_the_gap_that_the_greedy_orders_leave(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    demand = random_demand(1000, 500, seed)
    searched = plan(demand)
    check(demand, searched)
    monkeypatch.setattr("pockengine.plan.offsets.planner._improve", lambda lives, best, *_: best)
    greedy = plan(demand)
    assert searched.arena_bytes < greedy.arena_bytes
    assert searched.arena_bytes <= 1.01 * searched.lower_bound_bytes


def test_buffers_that_are_never_alive_together_share_their_bytes() -> None:
    demand = Demand(3, tuple(Buffer(f"b{step}", 100, step, step, "activation") for step in range(3)))
    result = plan(demand)
    assert [slot.offset for slot in result.slots] == [0, 0, 0]
    assert result.arena_bytes == 128 == result.lower_bound_bytes


def test_the_last_step_of_one_buffer_keeps_the_first_step_of_the_next_apart() -> None:
    demand = Demand(2, (Buffer("a", 64, 0, 1, "activation"), Buffer("b", 64, 1, 1, "activation")))
    first, second = plan(demand).slots
    assert first.offset != second.offset
    assert first.offset % demand.alignment == second.offset % demand.alignment == 0


def test_nothing_to_place_needs_no_arena() -> None:
    result = plan(Demand(4, (Buffer("empty", 0, 0, 3, "activation"),)))
    assert (result.slots, result.arena_bytes, result.lower_bound_bytes) == ((), 0, 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Buffer("a", -1, 0, 0, "activation"), "negative size"),
        (lambda: Buffer("a", 1, 2, 1, "activation"), "not a lifetime"),
        (lambda: Demand(1, (Buffer("a", 1, 0, 1, "activation"),)), "until step 1 of only 1"),
        (lambda: Demand(1, (Buffer("a", 1, 0, 0, "activation"),) * 2), "two buffers are named 'a'"),
    ],
)
def test_an_impossible_demand_is_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
