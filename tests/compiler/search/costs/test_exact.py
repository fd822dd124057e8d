"""Costs by planning are what `pock check` says of the training step."""

from __future__ import annotations

import pytest

from pockengine.check import estimate
from pockengine.check.speed import CLOCKS, clock_of, fitted_clock
from pockengine.compile import Request, Scope, plan_programs, predicted_peak_bytes
from pockengine.errors import RecipeError
from pockengine.search import Costs, ExactCosts
from pockengine.targets import all as all_targets
from pockengine.targets import get
from tests.compiler.search.models import bottlenecks, perceptron, space_of

PI = get("raspberry-pi-4")


def test_a_choice_costs_what_its_plan_takes() -> None:
    space = space_of(perceptron())
    planned = plan_programs(Request(space.graph, space.recipe(space.full), PI, 2, scope=Scope.TRAINING))
    assert ExactCosts(space, PI, 2).of(space.full).peak_bytes == predicted_peak_bytes(planned)


def test_a_choice_is_planned_once() -> None:
    stages: list[str] = []
    space = space_of(perceptron())
    costs = ExactCosts(space, PI, progress=lambda stage, done, total: stages.append(stage))
    first = costs.of(space.full)
    assert stages
    stages.clear()
    assert costs.of(list(space.full)) == first  # type: ignore[arg-type]
    assert not stages


def test_time_goes_with_the_clock_and_less_training_takes_less() -> None:
    space = space_of(perceptron())
    slow, quick = ExactCosts(space, PI, clock=1e9), ExactCosts(space, PI, clock=2e9)
    assert slow.of(space.full).step_ms == pytest.approx(2 * quick.of(space.full).step_ms)
    head = (*space.frozen[:-1], 1)
    assert 0 < slow.of(head).step_ms < slow.of(space.full).step_ms
    assert slow.of(head).peak_bytes < slow.of(space.full).peak_bytes


def test_nothing_trained_is_refused() -> None:
    space = space_of(perceptron())
    with pytest.raises(RecipeError, match="empty"):
        ExactCosts(space, PI).of(space.frozen)


def test_nodes_are_computed_twice_where_that_keeps_to_the_memory() -> None:
    space = space_of(bottlenecks())
    stages: list[str] = []
    costs = ExactCosts(space, PI, 1, progress=lambda stage, done, total: stages.append(stage))
    full = costs.of(space.full)
    memory = round(0.9 * full.peak_bytes)
    twice = costs.recomputed(space.full, memory)
    assert twice is not None and twice.peak_bytes <= memory and twice.step_ms > full.step_ms
    stages.clear()
    assert costs.recomputed(list(space.full), memory) == twice and not stages, "it is planned once"  # type: ignore[arg-type]
    assert costs.recomputed(space.full, full.peak_bytes) == full, "it fits as it is"


@pytest.mark.parametrize("part", [0.9, 0.2])
def test_what_fits_no_way_has_no_cost(part: float) -> None:
    space = space_of(perceptron())
    costs = ExactCosts(space, PI, 1)
    assert costs.recomputed(space.full, round(part * costs.of(space.full).peak_bytes)) is None


def test_every_device_has_a_clock() -> None:
    names = {target.name for target in all_targets()}
    assert set(CLOCKS) <= names, "a clock of a device that there is not"
    assert all(2e8 < clock_of(target) < 1e10 for target in all_targets())


def test_measured_steps_give_the_clock_that_explains_them() -> None:
    assert fitted_clock([(2e6, 1.0), (6e6, 3.0)]) == pytest.approx(2e9)
    assert fitted_clock([(1e6, 1.0), (4e6, 1.0)]) == pytest.approx(2e9), "relative errors count alike"


@pytest.mark.parametrize("steps", [[], [(1e6, 0.0)], [(1e6, 1.0), (1e6, -1.0)]])
def test_steps_that_took_no_time_are_refused(steps: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        fitted_clock(steps)


@pytest.mark.parametrize("name", ["h100", "mali-g610"])
def test_a_gpu_is_planned_for_as_it_is_compiled_for(name: str) -> None:
    space, target = space_of(perceptron()), get(name)
    planned = estimate(space.graph, space.recipe(space.full), target)
    exact = ExactCosts(space, target).of(space.full)
    assert (exact.peak_bytes, exact.step_ms) == (planned.summary["predicted_peak_bytes"], planned.step_ms)
    about = Costs(space, target, schemes=6).of(space.full)
    assert about.peak_bytes == pytest.approx(exact.peak_bytes, rel=0.01)
    assert about.step_ms == pytest.approx(exact.step_ms, rel=0.01)
