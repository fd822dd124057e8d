"""The comparison of schemes on one small model and one task: it trains, and what the search finds is worth it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks.schemes import campaign as campaigns
from benchmarks.schemes import searching
from benchmarks.schemes.__main__ import rows_of
from benchmarks.schemes.campaign import Campaign
from benchmarks.schemes.costs import TARGET, THREADS
from benchmarks.schemes.scores import FULL, Scores
from benchmarks.schemes.searching import CLOCK
from benchmarks.schemes.store import Store
from benchmarks.tasks import networks, pretraining
from benchmarks.tasks.models import BATCH, MODELS
from pockengine.search import Costs as Estimates
from pockengine.targets import get

pytestmark = pytest.mark.large

NAME = "motion/streams"


def test_what_is_found_comes_near_full_training_and_ahead_of_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loose bounds: two seeds of a net that was pre-trained for a second."""
    network = partial(networks.motion, widths=(12, 16, 24))
    monkeypatch.setitem(MODELS, NAME, replace(MODELS[NAME], network=network, samples=400 * BATCH, epochs=1))
    monkeypatch.setattr(pretraining, "default_folder", lambda: tmp_path)
    monkeypatch.setattr(pretraining, "_CHECKED", 400)
    monkeypatch.setattr(searching, "estimated", lambda space: Estimates(space, get(TARGET), THREADS, CLOCK, schemes=12))
    campaign = Campaign((NAME,), ("new-user",), ("found", "head", "random"), 2, 4, (1 / 3,), steps=150)
    store = Store(tmp_path / "results.jsonl")
    assert campaigns.run(campaign, store, tmp_path / "found")
    scores = Scores(rows_of(campaign, store))
    found, head = ("found", 1 / 3), ("head", 1 / 3)
    ((cell, _),) = scores.runs[FULL].items()
    accuracy = {name: scores.cells(name, "accuracy")[cell] for name in scores.runs}
    assert accuracy[FULL] > 0.5
    assert scores.differences(found, FULL)[cell] > -0.1
    assert scores.differences(found, head)[cell] > 0.05
    assert scores.cells(found, "memory")[cell] < 0.95 * scores.cells(FULL, "memory")[cell]
    random = [value for (method, _), value in accuracy.items() if method.startswith("random")]
    assert len(random) == 4 and accuracy[found] > max(random) - 0.02
