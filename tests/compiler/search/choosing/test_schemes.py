"""One scheme within limits: as good as there is where costs add up, repaired where estimates are wrong."""

from __future__ import annotations

import pytest

from pockengine.errors import MemoryBudgetError, PockError
from pockengine.search import Choice
from pockengine.search.choosing import Chooser, Limits, Spared, front
from pockengine.search.costs import Cost
from tests.compiler.search.choosing.problems import Chain, Peak, Shrinking, best_gain, random_gains, space_of


def limits_of(costs: Chain, space, share: float, time: float | None = None) -> Limits:
    """So much of the way from the cheapest scheme to training everything."""
    full, least = costs.of(space.full), Chooser(space, random_gains(space, 0), costs, costs).least()
    memory = int(least.peak_bytes + share * (full.peak_bytes - least.peak_bytes))
    return Limits(memory, None if time is None else least.step_ms + time * (full.step_ms - least.step_ms))


@pytest.mark.parametrize("time", [None, 0.6])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_where_costs_add_up(seed: int, share: float, time: float | None) -> None:
    space, costs = space_of(3), Chain(3, seed)
    gains, limits = random_gains(space, seed), limits_of(costs, space, share, time)
    chosen = Chooser(space, gains, costs, costs).choose(limits)
    best = best_gain(gains, lambda choice: any(choice) and limits.keeps(costs.of(choice)))
    assert limits.keeps(chosen.cost)
    assert chosen.gain == pytest.approx(best)
    assert chosen.bound >= chosen.gain - 1e-9
    assert chosen.gap == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_near_the_best_where_only_the_peak_is_known(seed: int) -> None:
    space, costs = space_of(3), Chain(3, seed)
    gains, limits = random_gains(space, seed), limits_of(costs, space, 0.4)
    chosen = Chooser(space, gains, Peak(costs), costs).choose(limits)
    best = best_gain(gains, lambda choice: any(choice) and limits.keeps(costs.of(choice)))
    assert best is not None and limits.keeps(chosen.cost)
    assert best * 0.9 <= chosen.gain <= best + 1e-9


@pytest.mark.parametrize("wrong", [0.05, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_wrong_estimates_never_lead_over_the_limit(seed: int, wrong: float) -> None:
    space, costs, planned = space_of(8), Chain(8, seed), Chain(8, seed, wrong)
    gains, limits = random_gains(space, seed), limits_of(costs, space, 0.3)
    if not limits.keeps(Chooser(space, gains, costs, planned).least()):
        pytest.skip("nothing fits at all")
    chosen = Chooser(space, gains, costs, planned).choose(limits)
    assert limits.keeps(chosen.cost) and chosen.cost == planned.of(chosen.choice)
    assert chosen.gain <= chosen.bound


@pytest.mark.parametrize("seed", range(5))
def test_more_is_trained_where_nodes_are_computed_twice(seed: int) -> None:
    space, costs = space_of(6), Shrinking(6, seed)
    gains, limits = random_gains(space, seed), limits_of(costs, space, 0.4)
    assert limits.memory_bytes is not None
    chooser = Chooser(space, gains, costs, costs)
    chosen, once = chooser.choose(limits), Chooser(space, gains, costs, Chain(6, seed)).choose(limits)
    assert limits.keeps(chosen.cost)
    assert costs.within(chosen.choice, limits.memory_bytes) == Spared(chosen.cost, limits.memory_bytes)
    assert once.gain < chosen.gain <= chosen.bound + 1e-9
    assert (chosen.method, chosen.memory) == ("spared", limits.memory_bytes) and once.memory is None
    assert costs.of(chosen.choice).peak_bytes > limits.memory_bytes
    kept = chooser.once(limits)
    assert kept is not None and limits.keeps(costs.of(kept)) and chooser.gain(kept) == pytest.approx(once.gain)

    hurried = Limits(limits.memory_bytes, once.cost.step_ms)
    quick = chooser.choose(hurried)
    assert hurried.keeps(quick.cost), "what is computed twice counts for time"
    assert chooser.choose(Limits()).choice == space.full, "no limit, nothing twice"


@pytest.mark.parametrize("seed", range(3))
def test_where_nothing_fits_but_what_computes_twice(seed: int) -> None:
    space, costs = space_of(6), Shrinking(6, seed)
    gains = random_gains(space, seed)
    chooser, once = Chooser(space, gains, costs, costs), Chooser(space, gains, costs, Chain(6, seed))
    limits = Limits(int(0.9 * once.least().peak_bytes))
    chosen = chooser.choose(limits)
    assert limits.keeps(chosen.cost) and chosen.is_spared and chosen.gain <= chosen.bound + 1e-9
    points = front(chooser, limits)
    assert all(limits.keeps(point.cost) and point.memory is not None for point in points)
    for narrow, one in ((limits, once), (Limits(int(0.6 * once.least().peak_bytes)), chooser)):
        with pytest.raises(MemoryBudgetError):
            one.choose(narrow)


@pytest.mark.parametrize("share", [0.3, 0.6, 1.5])
def test_single_samples_are_looked_at_where_all_at_once_leave_something_out(share: float) -> None:
    space, costs, fine = space_of(6), Splitting(6, 2), Chain(6, 2)
    fine.saved = fine.saved // 8
    gains = random_gains(space, 2)
    finest = Chooser(space, gains, fine, fine)
    chooser = Chooser(space, gains, costs, costs, finest=lambda: finest)
    alone = Chooser(space, gains, costs, Chain(6, 2))
    limits = limits_of(fine, space, share)
    chosen = chooser.choose(limits)
    assert limits.keeps(chosen.cost) and chosen.gain <= chosen.bound + 1e-9
    assert chosen.gain >= finest.choose(limits).gain
    if limits.keeps(alone.least()):
        assert chosen.gain >= alone.choose(limits).gain
    assert (chosen.micro_batches > 1) == (costs.of(chosen.choice).peak_bytes > limits.memory_bytes)  # type: ignore[operator]
    assert share < 1 or chosen.choice == space.full


def test_single_samples_that_take_more_are_left() -> None:
    space, costs, heavy = space_of(6), Chain(6, 2), Chain(6, 2)
    heavy.state = heavy.state * 50 + 10**7
    gains, limits = random_gains(space, 2), limits_of(costs, space, 0.5)
    finest = Chooser(space, gains, heavy, heavy)
    chooser = Chooser(space, gains, costs, costs, finest=lambda: finest)
    assert chooser.choose(limits) == Chooser(space, gains, costs, costs).choose(limits)
    with pytest.raises(MemoryBudgetError) as both:
        chooser.choose(Limits(1000))
    with pytest.raises(MemoryBudgetError) as alone:
        Chooser(space, gains, costs, costs).choose(Limits(1000))
    assert str(both.value) == str(alone.value), "the least that there is"


class Splitting(Chain):
    """The same where a step may take its samples one by one, with an eighth of what is saved and twice the time."""

    farthest = 8.0

    def within(self, choice: Choice, memory: int) -> Spared | None:
        fine = Chain(len(self.ms), 2)
        fine.saved = fine.saved // 8
        cost = fine.of(choice)
        return Spared(Cost(cost.peak_bytes, 2 * cost.step_ms), None, 8) if cost.peak_bytes <= memory else None


class Optimist:
    """Says the half of what a scheme takes."""

    def __init__(self, costs: Chain) -> None:
        self.costs = costs

    def of(self, choice):
        cost = self.costs.of(choice)
        return Cost(cost.peak_bytes // 2, cost.step_ms)


def test_a_repair_is_told() -> None:
    space, planned = space_of(6), Chain(6, 3)
    gains, limits = random_gains(space, 3), limits_of(planned, space, 0.3)
    chosen = Chooser(space, gains, Optimist(planned), planned).choose(limits)
    assert limits.keeps(chosen.cost)
    assert any("above the limits when it was planned" in note for note in chosen.notes)


def test_what_a_person_would_write_is_taken_where_it_is_better() -> None:
    space, costs = space_of(4), Chain(4, 2)
    gains, limits = random_gains(space, 2), limits_of(costs, space, 0.5)
    best = Chooser(space, gains, costs, costs).choose(limits).choice
    blind = Chooser(space, gains, Pessimist(), costs)
    assert blind.choose(limits).gain < blind.choose(limits, [best]).gain == pytest.approx(blind.gain(best))


class Pessimist:
    """Says that whatever trains more than one unit takes more than there is."""

    def of(self, choice):
        return Cost(1 << 20 if sum(map(bool, choice)) == 1 else 1 << 40, 1.0)


def test_the_same_seed_gives_the_same_scheme() -> None:
    space, costs = space_of(8), Chain(8, 1)
    gains, limits = random_gains(space, 1), limits_of(costs, space, 0.3)
    first, second = (Chooser(space, gains, costs, costs, seed=5).choose(limits) for _ in range(2))
    assert first == second


def test_too_little_memory_says_the_least() -> None:
    space, costs = space_of(3), Chain(3, 0)
    chooser = Chooser(space, random_gains(space, 0), costs, costs)
    least = chooser.least().peak_bytes
    assert chooser.choose(Limits(least)).cost.peak_bytes == least
    with pytest.raises(MemoryBudgetError, match=str(least)) as error:
        chooser.choose(Limits(least - 1))
    assert error.value.least_bytes == least


def test_too_little_time_says_the_least() -> None:
    space, costs = space_of(3), Chain(3, 0)
    with pytest.raises(PockError, match="no scheme's step takes less than 0.001 ms"):
        Chooser(space, random_gains(space, 0), costs, costs).choose(Limits(None, 0.001))


def test_without_limits_everything_that_brings_something_is_trained() -> None:
    space, costs = space_of(3), Chain(3, 0)
    gains = ((0.0, -1.0, -2.0, -2.0, -3.0), *random_gains(space, 0)[1:])
    chosen = Chooser(space, gains, costs, costs).choose(Limits())
    assert chosen.choice == (0, *space.full[1:])


class Pupil:
    """Says the half of what a scheme takes, but for those that it was shown."""

    def __init__(self, costs: Chain, known: frozenset = frozenset()) -> None:
        self.costs, self.known = costs, known

    def of(self, choice):
        cost = self.costs.of(choice)
        return cost if choice in self.known else Cost(cost.peak_bytes // 2, cost.step_ms)

    def refined(self, choices, progress):
        return Pupil(self.costs, self.known | set(choices))


def test_estimates_that_can_learn_are_shown_where_they_were_wrong() -> None:
    space, planned = space_of(6), Chain(6, 3)
    gains, limits = random_gains(space, 3), limits_of(planned, space, 0.3)
    chooser = Chooser(space, gains, Pupil(planned), planned)
    chosen = chooser.choose(limits)
    assert limits.keeps(chosen.cost) and chosen.gain <= chosen.bound
    assert isinstance(chooser.costs, Pupil) and chooser.costs.known
