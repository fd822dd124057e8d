"""Where a step may take its samples in parts, and the quickest form of a step that keeps to a memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pockengine as pock
from pockengine.errors import PockError
from pockengine.ir import Array, Graph
from pockengine.recipe import Recipe
from pockengine.search import Choice, Cost, ExactCosts, Space
from pockengine.search.choosing import Plans, Spared
from pockengine.search.micro_batches import MicroBatches
from pockengine.targets import get

BATCH, CLASSES = 12, 5
SGD: dict[str, Any] = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
PI = get("raspberry-pi-4")


@cache
def network(batch: int = BATCH) -> Graph:
    """Images [batch, 3, 16, 16] through two convolutions to scores of 5 classes at each place."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.SiLU(), nn.Conv2d(16, 16, 3, padding=1), nn.SiLU()]
    model = nn.Sequential(*layers, nn.Conv2d(16, CLASSES, 1))
    return pock.from_torch(model.eval(), (torch.zeros(batch, 3, 16, 16),))


def labels(ignored: int) -> dict[str, Array]:
    """Of 24 samples; of the first, so many places have a label that does not count."""
    answers = np.random.default_rng(0).integers(0, CLASSES, (24, 16, 16))
    answers[0].flat[:ignored] = -100
    return {"labels": answers}


def space_of(**changes: Any) -> Space:
    loss: Any = {"name": "cross_entropy", "axis": 1}
    return Space.of(network(), Recipe(**{"loss": loss, "optimizer": SGD, **changes}))


def test_the_same_schemes_with_less_at_once() -> None:
    space = space_of(accumulate=3)
    parts = MicroBatches.of(space, network, labels(0))
    assert parts.counts == (2, 4, 12)
    quarter = parts.space(4)
    assert (quarter.base.batch, quarter.base.accumulate, quarter.graph.batch) == (3, 12, 3)
    assert quarter.units == space.units and quarter.graph.data is space.graph.data
    assert MicroBatches.of(space_of(), network, labels(0)).space(2).base.accumulate == 2


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"batch_norm": "train"}, "batch norms look"),
        ({"norm_batches": 4}, "batch norms look"),
        ({"last_batch": "partial"}, "counts samples"),
        ({"loss": {"name": "cross_entropy", "axis": 1, "class_weights": [1.0] * CLASSES}}, "count differently"),
        ({"loss": {"name": "cross_entropy", "axis": 1, "mask": "valid"}}, "count differently"),
        ({"augment": [{"name": "mixup"}]}, "mixes the samples"),
    ],
)
def test_what_would_train_otherwise(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(PockError, match=f"would train otherwise: .*{reason}"):
        MicroBatches.of(space_of(**changes), network, labels(0))


def test_answers_that_do_not_count() -> None:
    with pytest.raises(PockError, match="samples count differently"):
        MicroBatches.of(space_of(), network, labels(7))
    everywhere = labels(0)
    everywhere["labels"][:, 0, :7] = -100
    assert MicroBatches.of(space_of(), network, everywhere).counts, "each sample has as many that do"


def test_a_model_for_one_number_of_samples() -> None:
    with pytest.raises(PockError, match="does not take 1 samples a step in the place of 12"):
        MicroBatches.of(space_of(), lambda batch: network(), labels(0))

    def refused(batch: int) -> Graph:
        raise PockError(f"this model is for 12 samples, not {batch}")

    with pytest.raises(PockError, match="for 12 samples, not 1"):
        MicroBatches.of(space_of(), refused, labels(0))


def test_the_quickest_form_that_fits() -> None:
    space = space_of()
    exact = ExactCosts(space, PI, 1)
    parts = MicroBatches.of(space, network, labels(0))
    plans, once = Plans(exact, True, parts), Plans(exact, False, parts)
    assert (plans.farthest, once.farthest, Plans(exact).farthest) == (36.0, 12.0, 1.0)
    full = exact.of(space.full)
    forms = {count: plans.exact(count).of(space.full) for count in (1, *parts.counts)}
    assert sorted(forms.values(), key=lambda cost: -cost.peak_bytes) == list(forms.values())
    assert forms[12].step_ms > full.step_ms, "a step has all of its micro-batches"
    seen = set()
    for memory in np.linspace(forms[12].peak_bytes, full.peak_bytes - 1, 12).astype(int).tolist():
        step, plain = plans.within(space.full, memory), once.within(space.full, memory)
        assert step is not None and plain is not None
        assert plans.has_form(space.full, memory) and once.has_form(space.full, memory)
        assert step.cost.peak_bytes <= memory and plain.memory is None
        assert plain.cost == forms[plain.micro_batches] and step.cost.step_ms <= plain.cost.step_ms
        assert plain.micro_batches == min(count for count, cost in forms.items() if cost.peak_bytes <= memory)
        seen |= {(step.micro_batches, step.memory is not None)}
    assert len(seen) > 2
    assert Plans(exact, True).within(space.full, forms[12].peak_bytes) is None
    assert once.within(space.full, forms[12].peak_bytes - 1) is None


ONCE = {1: Cost(100, 10.0), 2: Cost(60, 14.0), 4: Cost(40, 20.0), 12: Cost(30, 40.0)}
TWICE = {1: Cost(70, 12.0), 2: Cost(35, 16.0), 4: Cost(25, 25.0), 12: Cost(22, 50.0)}


class Told(ExactCosts):
    """What is told of steps of 1, 2, 4 and 12 micro-batches, and of those that compute nodes twice."""

    @property
    def count(self) -> int:
        return self.space.base.accumulate

    def of(self, choice: Choice) -> Cost:
        return ONCE[self.count]

    def recomputed(self, choice: Choice, memory: int) -> Cost | None:
        cost = TWICE[self.count]
        return cost if cost.peak_bytes <= memory else None


@pytest.mark.parametrize(
    "memory, micro_batches, twice, ms",
    [(80, 1, True, 12.0), (65, 2, False, 14.0), (45, 2, True, 16.0), (28, 4, True, 25.0), (23, 12, True, 50.0)],
)
def test_computing_twice_is_weighed_against_micro_batches(
    memory: int, micro_batches: int, twice: bool, ms: float
) -> None:
    space = space_of()
    plans = Plans(Told(space, PI, 1), True, MicroBatches.of(space, network, labels(0)))
    step = plans.within(space.full, memory)
    cost = (TWICE if twice else ONCE)[micro_batches]
    assert step == Spared(cost, memory if twice else None, micro_batches) and cost.step_ms == ms


def test_parts_that_take_more_are_no_reason_to_look_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, cost in {2: Cost(400, 14.0), 4: Cost(500, 20.0), 12: Cost(600, 40.0)}.items():
        monkeypatch.setitem(ONCE, count, cost)
    space = space_of()
    plans = Plans(Told(space, PI, 1), True, MicroBatches.of(space, network, labels(0)))
    assert plans.within(space.full, 80) == Spared(TWICE[1], 80, 1) and plans.has_form(space.full, 80)


def test_what_is_too_far_above_is_not_tried() -> None:
    space = space_of()
    plans = Plans(Told(space, PI, 1), True, MicroBatches.of(space, network, labels(0)))
    assert plans.within(space.full, 21) is None and plans.within(space.full, 9) is None
    assert not plans.has_form(space.full, 21) and not plans.has_form(space.full, 9)
    assert plans.has_form(space.full, 22) and plans.has_form(space.full, 30)
