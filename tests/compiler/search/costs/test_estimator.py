"""Estimated costs against planned ones, on schemes that nothing was learned from."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest

from pockengine.compile import plan_programs
from pockengine.errors import RecipeError
from pockengine.plan import Space as Block
from pockengine.search import Choice, Costs, ExactCosts, Space, random_choices
from pockengine.search.costs import estimator
from pockengine.search.costs.estimator import anchors
from pockengine.search.costs.exact import request_of
from pockengine.targets import get
from tests.compiler.search.models import MOMENTUM, bottlenecks, perceptron, space_of, transformer

PI = get("raspberry-pi-4")


@pytest.fixture(scope="module")
def convolutional() -> Costs:
    return Costs(space_of(bottlenecks()), PI, 2, schemes=24)


def _errors(costs: Costs, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Of peak and time, on schemes with another seed than the estimator's."""
    exact = ExactCosts(costs.space, PI, 2, costs.clock)
    pairs = [(costs.of(choice), exact.of(choice)) for choice in islice(random_choices(costs.space, 5), count)]
    peaks = [told.peak_bytes / true.peak_bytes - 1 for told, true in pairs]
    return np.abs(peaks), np.abs([told.step_ms / true.step_ms - 1 for told, true in pairs])


def test_random_schemes_of_a_convolutional_net(convolutional: Costs) -> None:
    peaks, times = _errors(convolutional, 10)
    assert np.median(peaks) < 0.02
    assert peaks.max() < 0.15
    assert np.median(times) < 0.05


def test_random_schemes_of_a_transformer() -> None:
    peaks, times = _errors(Costs(space_of(transformer()), PI, 2, schemes=16), 10)
    assert np.median(peaks) < 0.03
    assert peaks.max() < 0.15
    assert np.median(times) < 0.1


@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {"optimizer": {"name": "sgd", "lr": 0.1}},
        {"optimizer": {"name": "adamw", "lr": 1e-3}},
        {"optimizer": {"name": "adamw", "lr": 1e-3, "state": "int8"}},
        {"optimizer": {**MOMENTUM, "clip": {"norm": 1.0}}, "accumulate": 2},
        {"ema": 0.99},
    ],
    ids=["momentum", "sgd", "adamw", "int8 state", "clipped and accumulated", "average"],
)
def test_optimizer_state_is_exact(recipe: dict[str, Any]) -> None:
    _check_blocks(space_of(perceptron(), **recipe))


def test_a_table_that_stays_in_its_file_is_known() -> None:
    _check_blocks(space_of(transformer(), optimizer={"name": "sgd", "lr": 0.1}))


def _check_blocks(space: Space) -> None:
    costs = Costs(space, PI, 2, schemes=10)
    for choice in (space.full, _only(space, len(space.units) - 1), *islice(random_choices(space, 8), 2)):
        sizes = plan_programs(request_of(space, choice, PI, 2)).spaces.sizes
        told = sum(sizes[block] for block in (Block.PARAM, Block.STATE, Block.INPUT))
        assert costs.beside_arena(choice) == pytest.approx(told, abs=64)


def _only(space: Space, place: int) -> Choice:
    return tuple(int(place == other) for other in range(len(space.units)))


def test_training_more_of_a_weight_takes_no_less_state() -> None:
    space = space_of(perceptron())
    costs = Costs(space, PI, 2, schemes=6)
    for place, unit in enumerate(space.units):
        taken = [
            costs.beside_arena(tuple(index if place == other else 0 for other in range(len(space.units))))
            for index in range(len(unit.shares))
        ]
        assert taken == sorted(taken)


def test_schemes_that_were_shaped_are_known_and_more_can_be(convolutional: Costs) -> None:
    space, exact = convolutional.space, ExactCosts(convolutional.space, PI, 2, convolutional.clock)
    for choice in anchors(space, 24)[:2]:
        assert convolutional.of(choice).peak_bytes == pytest.approx(exact.of(choice).peak_bytes, rel=0.01)
    others = list(islice(random_choices(space, 6), 2))
    refined = convolutional.refined(others)
    for choice in others:
        assert refined.of(choice).peak_bytes == pytest.approx(exact.of(choice).peak_bytes, rel=0.01)
        assert refined.of(choice).step_ms == pytest.approx(exact.of(choice).step_ms, rel=0.01)


def test_one_bias_takes_next_to_nothing(convolutional: Costs) -> None:
    space = convolutional.space
    last, full = convolutional.of(_only(space, len(space.units) - 1)), convolutional.of(space.full)
    assert last.peak_bytes < 0.8 * full.peak_bytes
    assert last.step_ms < 0.7 * full.step_ms


def test_nothing_trained_is_refused(convolutional: Costs) -> None:
    with pytest.raises(RecipeError, match="empty"):
        convolutional.of(convolutional.space.frozen)
    with pytest.raises(RecipeError, match="empty"):
        convolutional.refined([convolutional.space.frozen])


def test_measured_steps_set_the_clock(convolutional: Costs) -> None:
    full = convolutional.space.full
    fitted = convolutional.measured([(full, 7.0)])
    assert fitted.of(full).step_ms == pytest.approx(7.0)
    assert convolutional.of(full).step_ms != pytest.approx(7.0), "the first one changed"


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    Costs(space_of(perceptron()), PI, 2, schemes=4, progress=lambda *stage: told.append(stage))
    assert {stage for stage, _, _ in told} == {"costs"}
    assert told[0][1] == 0
    assert told[-1][1] == told[-1][2]


def test_the_same_space_costs_the_same_however_many_processes_shape_it(monkeypatch: pytest.MonkeyPatch) -> None:
    space, told = space_of(perceptron()), set()
    for count in (1, 2, 3):
        monkeypatch.setattr(estimator, "processes", partial(int, count))
        told.add(Costs(space, PI, 2, schemes=5).of(space.full))
    assert len(told) == 1
