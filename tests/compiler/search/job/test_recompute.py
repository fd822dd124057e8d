"""A search that counts as fitting what keeps to the memory because forward nodes are computed twice."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pockengine as pock
from pockengine.compile import Request, plan_programs, predicted_peak_bytes
from pockengine.errors import PockError
from pockengine.ir import Graph
from pockengine.plan.budget import RESERVE
from pockengine.recipe import Recipe
from pockengine.search.choosing import Limits
from pockengine.search.job import Found, SearchRequest, run
from pockengine.search.job.found import ONCE
from pockengine.targets import get

TARGET = get("raspberry-pi-4")
BATCH, SIZE, CLASSES = 8, 24, 5
BASE = Recipe("cross_entropy", {"name": "sgd", "lr": 0.05, "momentum": 0.9})


@cache
def network() -> Graph:
    """Images [8, 3, 24, 24] through four convolutions, whose activations are most of the memory, to 5 classes."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inputs in (3, 16, 16, 16):
        layers += [nn.Conv2d(inputs, 16, 3, padding=1), nn.SiLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES))
    return pock.from_torch(model.eval(), (torch.zeros(BATCH, 3, SIZE, SIZE),))


def peak(recipe: Recipe) -> int:
    """As `pock compile` plans it."""
    return predicted_peak_bytes(plan_programs(Request(network(), recipe, TARGET, 1)))


@cache
def limits() -> Limits:
    """A third of what training everything takes beyond the head."""
    head, full = (peak(BASE.with_(update=update)) for update in ("head", "full"))
    return Limits(head + (full - head) // 3)


def request(**changes: Any) -> SearchRequest:
    chance = np.random.default_rng(0)
    (image,) = (port.name for port in network().inputs)
    images = chance.standard_normal((64, 3, SIZE, SIZE), np.float32)
    data: dict[str, np.ndarray] = {image: images, "labels": chance.integers(0, CLASSES, 64)}
    return SearchRequest(
        **{"base": BASE, "limits": limits(), **changes}, graph=network(), data=data, target=TARGET, threads=1
    )


@pytest.fixture(scope="module")
def found() -> Found:
    return run(request())


def test_the_recipe_says_the_memory_and_keeps_to_it(found: Found) -> None:
    limit = limits().memory_bytes
    assert limit is not None
    recipe = Recipe.parse(found.recipe)
    assert recipe.memory == limit + RESERVE
    assert peak(recipe) == found.chosen.cost.peak_bytes <= limit
    assert peak(recipe.with_(memory=None)) > limit, "it fits no other way"
    assert "forward nodes are computed twice, as `memory` says" in found.recipe
    artifact = pock.compile(network(), recipe, TARGET, 1)
    assert artifact.summary["predicted_peak_bytes"] == found.chosen.cost.peak_bytes
    assert artifact.summary["recomputed_nodes"] > 0


def test_it_brings_more_than_what_is_computed_once(found: Found) -> None:
    once = run(request(recompute=False))
    assert Recipe.parse(once.recipe).memory is None
    assert found.chosen.gain > once.chosen.gain
    assert found.chosen.cost.step_ms > once.chosen.cost.step_ms
    most = [max(one.numbers for one in result.compared if one.name.startswith("last")) for result in (found, once)]
    assert most[0] > most[1], "what a person would write may compute nodes twice, too"
    assert Found.from_mapping(found.to_mapping()) == found


def test_the_front_and_what_is_preferred_know_of_it(found: Found) -> None:
    most = max(point.gain for point in found.front)
    assert most >= 0.99 * found.chosen.gain and any(point.memory is not None for point in found.front)
    less = run(request(prefer="memory"))
    assert less.chosen.gain >= 0.95 * most and less.chosen.cost.peak_bytes < found.chosen.cost.peak_bytes
    assert peak(Recipe.parse(less.recipe)) == less.chosen.cost.peak_bytes


def test_a_base_recipe_with_a_memory_is_searched_without_it() -> None:
    said = run(request(base=BASE.with_(memory=1 << 20), limits=Limits()))
    assert Recipe.parse(said.recipe).memory is None


def test_there_has_to_be_a_limit() -> None:
    with pytest.raises(PockError, match="give one, or leave recompute out"):
        request(recompute=True, limits=Limits(step_ms=1.0))


@pytest.mark.large
def test_tried_beside_what_is_computed_once(tmp_path: Path) -> None:
    found = run(request(tries=True, lr_steps=3, folder=tmp_path))
    assert ONCE in {one.name for one in found.compared} and found.rates is not None
    assert peak(Recipe.parse(found.recipe)) == found.chosen.cost.peak_bytes
