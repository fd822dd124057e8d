"""The space of schemes: its units, and choices as recipes and back."""

from __future__ import annotations

import pytest
import torch

import pockengine as pock
from pockengine.errors import RecipeError
from pockengine.recipe import Recipe, resolve
from pockengine.search import Space

KINDS = ("weight", "bias")


@pytest.fixture(scope="module")
def space() -> Space:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 1, 1),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 5),
    ).eval()
    graph = pock.from_torch(model, (torch.zeros(2, 3, 8, 8),))
    return Space.of(graph, Recipe("cross_entropy", {"name": "sgd", "lr": 0.1}))


def test_units_are_what_full_training_trains(space: Space) -> None:
    assert [unit.name for unit in space.units] == [
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "3.weight",
        "3.bias",
        "5.weight",
        "5.bias",
    ]
    first, bias = space.units[0], space.units[1]
    assert (first.axis, first.shares) == (1, (0.0, 0.25, 0.5, 1.0)), "1/8 and 1/4 of three channels are one channel"
    assert (bias.axis, bias.shares, bias.is_weight, bias.module) == (None, (0.0, 1.0), False, "0")


def test_each_choice_comes_back_from_its_recipe(space: Space) -> None:
    for place, unit in enumerate(space.units):
        for index in range(1, len(unit.shares)):
            choice = tuple(index if place == other else 0 for other in range(len(space.units)))
            assert space.choice_of(resolve(space.recipe(choice), space.graph)) == choice
    assert space.choice_of(resolve(space.recipe(space.full), space.graph)) == space.full


def test_channels_are_rounded_up_to_a_share(space: Space) -> None:
    scheme = resolve(space.base.with_(update=[{"params": "3.weight", "channels": 3}]), space.graph)
    unit = space.units[space.index["3.weight"]]
    assert unit.channels(space.choice_of(scheme)[space.index["3.weight"]]) == 4


def test_nothing_is_no_recipe(space: Space) -> None:
    with pytest.raises(RecipeError, match="empty"):
        space.recipe(space.frozen)
