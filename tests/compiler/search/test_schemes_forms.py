"""Schemes whose steps have other forms: a third of full's memory, the same numbers as in whole steps, measured time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.schemes import searching, step_times
from benchmarks.schemes.__main__ import rows_of, said_of
from benchmarks.schemes.campaign import Campaign, run
from benchmarks.schemes.costs import TARGET, THREADS, Costs
from benchmarks.schemes.methods import FOUND, IN_A_THIRD, in_micro_batches, method_of
from benchmarks.schemes.running import Means, Scheme
from benchmarks.schemes.searching import CLOCK, Searching
from benchmarks.schemes.setting import Setting
from benchmarks.schemes.store import Store
from benchmarks.tasks import networks, pretraining
from benchmarks.tasks.models import BATCH, MODELS, TASKS, Model
from pockengine.search import Costs as Estimates
from pockengine.search import Space
from pockengine.targets import get

NAME, TASK = "motion/streams", "new-activities"


@pytest.fixture(scope="module")
def model() -> Model:
    """Small, so that activations are most of its memory, and pre-trained for some steps only."""
    network = partial(networks.motion, widths=(8, 12))
    return replace(MODELS[NAME], network=network, samples=20 * BATCH, epochs=1, least=0.0)


def rough(space: Space) -> Estimates:
    """From fewer schemes than usual."""
    return Estimates(space, get(TARGET), THREADS, CLOCK, schemes=6)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "estimated", rough)


def test_a_third_of_full_and_less_than_the_head_at_once(model: Model) -> None:
    task, weights = TASKS[TASK], dict(model.graph().data)
    costs = Costs(model)
    space = Space.of(model.graph(weights), model.recipe())
    share = -costs.head.memory_bytes / 4 / (costs.full.memory_bytes - costs.head.memory_bytes)
    setting = Setting(model, space, costs, share, task, task.data(0).train, weights, Searching(model, costs, weights))
    assert setting.limit == pytest.approx(0.75 * costs.head.memory_bytes, rel=1e-3)
    third, split = (method_of(name)(setting) for name in (IN_A_THIRD, FOUND))
    assert third is not None and costs.of(third.recipe).memory_bytes <= costs.full.memory_bytes / 3
    assert split is not None and setting.fits(split.recipe)
    assert split.recipe.accumulate > 1 and split.recipe.batch == BATCH // split.recipe.accumulate
    for made in (third, split):
        assert 0 < made.about["gain"] <= made.about["bound"] + 1e-9
    quarter, eighth = (costs.of(in_micro_batches(model.recipe(), count)).memory_bytes for count in (4, 8))
    assert eighth < quarter < costs.full.memory_bytes


def test_rows_and_measured_times(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "default_folder", lambda: tmp_path)
    monkeypatch.setitem(MODELS, NAME, model)
    monkeypatch.setattr(step_times, "ROUNDS", 2)
    campaign = Campaign((NAME,), (TASK,), (FOUND, IN_A_THIRD), 1, 0, (0.5,), steps=3)
    store, folder = Store(tmp_path / "here.jsonl"), tmp_path / "found"
    assert run(campaign, store, folder)
    rows = {row["method"]: row for row in rows_of(campaign, store)}
    full, split, third = (rows[name] for name in ("full", FOUND, IN_A_THIRD))
    assert third["memory"] <= 1 / 3 < split["memory"] < full["memory"] == 1
    assert split["accuracy"] == full["accuracy"], "all of it is trained, and the same way"
    schemes = [Scheme(FOUND, 0.5), Scheme(IN_A_THIRD, 1.0)]
    step_times.measure(model, TASKS[TASK], schemes, store, Means(store, folder))
    said = said_of(campaign, store, cells=False)
    assert "share of full's measured step time, a third of full's memory" in said
    assert "share of full's measured step time, limit 50%" in said
    assert f"| {IN_A_THIRD} | 33 % of full |" in said
    ratios = [one["ratio"] for one in store if one.get("kind") == step_times.KIND]
    assert len(ratios) == 2 and all(np.isfinite(one) and one > 0 for one in ratios)
