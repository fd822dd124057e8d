"""Integer programming finds what looking at every choice finds, and proves it."""

from __future__ import annotations

import numpy as np
import pytest

from pockengine.search.choosing import Chooser, Evolution, Problem, evolve, gain_of, solve
from tests.compiler.search.choosing.problems import Chain, best_gain, random_gains, random_problem, space_of


@pytest.mark.parametrize("start", range(0, 120, 20))
def test_as_good_as_looking_at_every_choice(start: int) -> None:
    for seed in range(start, start + 20):
        problem = random_problem(seed)
        best, found = best_gain(problem.gains, problem.allows), solve(problem)
        if best is None:
            assert found.choice is None and found.bound == 0.0, seed
            continue
        assert found.choice is not None and problem.allows(found.choice), seed
        assert (found.gain, found.bound, found.gap) == (best, best, 0.0), seed
        assert found.gain == gain_of(problem.gains, found.choice), seed


def test_some_of_the_problems_have_no_solution_and_some_have() -> None:
    solved = [solve(random_problem(seed)).choice is not None for seed in range(60)]
    assert 5 < sum(solved) < 58


def large() -> Problem:
    rng = np.random.default_rng(7)
    gains = tuple((0.0, *(float(one) for one in np.sort(rng.exponential(size=4)))) for _ in range(40))
    takes = tuple(np.vstack([np.zeros(4), np.cumsum(rng.random((4, 4)), axis=0)]) for _ in gains)
    reach = np.cumsum(rng.random((40, 4)), axis=0)[::-1]
    return Problem(gains, takes, reach, np.full(4, 40.0))


def test_the_same_problem_has_the_same_answer() -> None:
    first, second = solve(large()), solve(large())
    assert first == second and first.choice is not None


def test_a_short_time_leaves_a_bound_that_holds() -> None:
    whole, hurried = solve(large()), solve(large(), seconds=0.05)
    assert whole.gap < 1e-6
    assert hurried.bound >= whole.gain - 1e-6
    assert hurried.choice is None or large().allows(hurried.choice)
    assert hurried.gain <= whole.gain + 1e-9


def test_the_solver_writes_nothing_on_standard_output(capfd) -> None:
    solve(large())
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("seed", range(6))
def test_evolution_is_no_better_and_always_within_the_limits(seed: int) -> None:
    space = space_of(3)
    gains, costs = random_gains(space, seed), Chain(3, seed)
    limit = (costs.of(space.full).peak_bytes + Chooser(space, gains, costs, costs).least().peak_bytes) // 2

    def allows(choice) -> bool:
        return any(choice) and costs.of(choice).peak_bytes <= limit

    few = Evolution(population=20, generations=5)
    found = evolve(space, gains, allows, seed, few)
    assert found is not None and allows(found)
    best = best_gain(gains, allows)
    assert best is not None and gain_of(gains, found) <= best + 1e-12
    assert found == evolve(space, gains, allows, seed, few)


def test_evolution_finds_nothing_where_there_is_nothing() -> None:
    space = space_of(2)
    assert evolve(space, random_gains(space, 0), lambda choice: False) is None
