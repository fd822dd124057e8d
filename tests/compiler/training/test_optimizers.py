"""Every optimizer against the same one in PyTorch, through the compiled binary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pockengine.artifact import Session
from pockengine.compile import Request, compile, plan_programs
from pockengine.errors import RecipeError
from pockengine.recipe import Recipe
from pockengine.targets import get
from pockengine.verify.sides.torch_optimizers import Lamb, Lion
from tests.sweeps import some

from .networks import CNN, MLP, TIED, Network, Torch, assert_same_training

STEPS = 14
Make = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

OPTIMIZERS: dict[str, tuple[dict[str, Any], Make]] = {
    "sgd": ({"name": "sgd", "lr": 0.1}, lambda p: torch.optim.SGD(p, lr=0.1)),
    "sgd-nesterov": (
        {"name": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    "adam": (
        {"name": "adam", "lr": 0.01, "betas": [0.8, 0.99], "weight_decay": 0.1},
        lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99), weight_decay=0.1),
    ),
    "adamw": (
        {"name": "adamw", "lr": 0.01, "eps": 1e-6, "weight_decay": 0.1},
        lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-6, weight_decay=0.1),
    ),
    "lion": (
        {"name": "lion", "lr": 0.001, "betas": [0.9, 0.95], "weight_decay": 0.1},
        lambda p: Lion(p, lr=0.001, betas=(0.9, 0.95), weight_decay=0.1),
    ),
    "adafactor": (
        {"name": "adafactor", "lr": 0.05, "weight_decay": 0.1},
        lambda p: torch.optim.Adafactor(p, lr=0.05, weight_decay=0.1),
    ),
    "lamb": (
        {"name": "lamb", "lr": 0.01, "weight_decay": 0.1},
        lambda p: Lamb(p, lr=0.01, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.1),
    ),
}
SPARSE = [{"params": "fc.*"}, {"params": "conv2.weight", "channels": 0.5}]
PER_TENSOR = ("adafactor", "lamb")
"""Optimizers that look at a tensor as a whole: the slice that is trained is their tensor."""
CASES = [
    *[(MLP, "full", name) for name in OPTIMIZERS],
    *[(CNN, SPARSE, name) for name in ("adamw", *PER_TENSOR)],
    *[(TIED, "full", name) for name in ("sgd-nesterov", "adafactor")],
]


@pytest.mark.parametrize(
    "network, update, name", some(CASES, 2), ids=[f"{net.name}-{name}" for net, _, name in some(CASES, 2)]
)
def test_optimizer_follows_pytorch(network: Network, update: object, name: str) -> None:
    settings, make = OPTIMIZERS[name]
    recipe = Recipe(optimizer=settings, update=update)
    side = Torch.of(network, recipe)
    expected = list(side.steps(make(side.leaves.values()), STEPS))
    session = compile(network.build(8), recipe, threads=1).load()
    losses = [session.step(network.batch(step)) for step in range(STEPS)]
    assert_same_training(session.state(), losses, side, expected)


@pytest.mark.parametrize(
    ("optimizer", "shapes"),
    [
        ("sgd", {}),
        ({"name": "sgd", "momentum": 0.9}, {"conv2.weight.momentum": (8, 3, 3, 3), "fc.bias.momentum": (4,)}),
        (
            "adafactor",
            {
                "conv2.weight.row_variance": (8, 3, 3, 1),
                "conv2.weight.column_variance": (8, 3, 1, 3),
                "fc.bias.variance": (4,),
                "step": (),
            },
        ),
        (
            "lamb",
            {
                "conv2.weight.m": (8, 3, 3, 3),
                "conv2.weight.v": (8, 3, 3, 3),
                "fc.bias.m": (4,),
                "fc.bias.v": (4,),
                "optimizer.beta1_correction": (),
                "optimizer.beta2_correction": (),
            },
        ),
    ],
    ids=["sgd", "momentum", "adafactor", "lamb"],
)
def test_state_is_kept_only_for_what_is_trained(optimizer: object, shapes: dict[str, tuple[int, ...]]) -> None:
    recipe = Recipe(optimizer=optimizer, update=[{"params": "fc.bias"}, {"params": "conv2.weight", "channels": 0.5}])
    planned = plan_programs(Request(CNN.build(8), recipe, get("raspberry-pi-4")))
    found = {value.name: value.type.shape for value in planned.programs["train"].graph.states}
    assert found == shapes


def test_groups_and_exclusions_follow_pytorchs_parameter_groups() -> None:
    recipe = Recipe(
        optimizer={
            "name": "adamw",
            "lr": 0.01,
            "weight_decay": 0.2,
            "exclude": ["*.bias"],
            "groups": [{"params": "fc2.*", "lr": 0.03}, {"params": "*.weight", "weight_decay": 0.05}],
        }
    )
    side = Torch.of(MLP, recipe)
    leaves = side.leaves
    optimizer = torch.optim.AdamW(
        [
            {"params": [leaves["fc1.weight"]], "weight_decay": 0.05},
            {"params": [leaves["fc1.bias"]], "weight_decay": 0.0},
            {"params": [leaves["fc2.weight"]], "lr": 0.03},
            {"params": [leaves["fc2.bias"]], "lr": 0.03, "weight_decay": 0.0},
        ],
        lr=0.01,
        weight_decay=0.2,
    )
    expected = list(side.steps(optimizer, STEPS))
    session = compile(MLP.build(8), recipe, threads=1).load()
    losses = [session.step(MLP.batch(step)) for step in range(STEPS)]
    assert_same_training(session.state(), losses, side, expected)


@pytest.mark.parametrize("schedule", ["constant", {"name": "linear", "steps": 8}], ids=["constant", "linear"])
def test_adjustable_rates_are_those_that_are_set(schedule: object) -> None:
    """Compiled with some rates and set to others, as compiled with those."""

    def trained(adjustable: bool, lr: float, group: float, decay: float) -> Session:
        groups = [{"params": "fc1.bias", "weight_decay": decay}, {"params": "fc2.*", "lr": group}]
        optimizer = {"name": "adamw", "lr": lr, "groups": groups, "schedule": schedule, "adjustable": adjustable}
        return compile(MLP.build(8), Recipe(optimizer=optimizer), threads=1).load()

    changed, plain = trained(True, 1.0, 0.5, 0.3), trained(False, 0.01, 0.03, 0.3)
    assert {"rate": 1.0, "rate.1": 0.5}.items() <= changed.optimizer_state().items()
    for name, rate in {"rate": 0.01, "rate.1": 0.03}.items():
        changed.set_tensor(name, np.array(rate, np.float32))
    for step in range(5):
        assert changed.step(MLP.batch(step)) == pytest.approx(plain.step(MLP.batch(step)), rel=1e-5)
    assert changed.tensor("rate") == np.float32(0.01), "no step changes it"
    for name, array in plain.state().items():
        np.testing.assert_allclose(changed.tensor(name), array, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (
            {"name": "adamw", "groups": [{"params": "head.*", "lr": 1.0}]},
            ["optimizer.groups", "'head.*'", "matches no"],
        ),
        ({"name": "adamw", "exclude": ["fc1.wieght"]}, ["optimizer.exclude", "did you mean 'fc1.weight'"]),
    ],
    ids=["group", "exclude"],
)
def test_patterns_that_match_nothing_are_refused(optimizer: object, words: list[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        plan_programs(Request(MLP.build(8), Recipe(optimizer=optimizer), get("raspberry-pi-4")))
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        ({"name": "adafactor", "eps": 1e-3}, ["optimizer.eps", "two numbers"]),
        ({"name": "adafactor", "beta2_decay": 0.5}, ["optimizer.beta2_decay", "at most 0"]),
        ({"name": "adafactor", "d": 0.5}, ["optimizer.d", "at least 1"]),
        ({"name": "adafactor", "betas": [0.9, 0.9]}, ["'adafactor'", "'betas'"]),
        ({"name": "lamb", "eps": 0}, ["optimizer.eps", "greater than 0"]),
        ({"name": "sgd", "sheduler": "cosine"}, ["'sheduler'", "did you mean 'schedule'"]),
        ({"name": "sgd", "groups": {"params": "x"}}, ["optimizer.groups must be a list"]),
        ({"name": "sgd", "groups": ["x"]}, ["optimizer.groups[0] must be a mapping"]),
        ({"name": "sgd", "groups": [{"params": "x"}]}, ["optimizer.groups[0]", "'lr' or 'weight_decay'"]),
        ({"name": "sgd", "groups": [{"lr": 1.0}]}, ["optimizer.groups[0]", "'params'"]),
        ({"name": "sgd", "groups": [{"params": "x", "lr": -1}]}, ["optimizer.groups[0].lr", "-1"]),
        ({"name": "sgd", "groups": [{"params": "x", "momentum": 0.9}]}, ["'momentum'", "weight_decay"]),
        ({"name": "sgd", "exclude": 3}, ["optimizer.exclude must be a list"]),
        ({"name": "sgd", "exclude": [3]}, ["optimizer.exclude must be a text"]),
    ],
)
def test_bad_optimizers(optimizer: object, words: list[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe(optimizer=optimizer)
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_recipe_says_its_optimizer_again() -> None:
    recipe = Recipe(
        optimizer={
            "name": "adafactor",
            "eps": [1e-6, 1e-2],
            "exclude": "*.bias",
            "groups": [{"params": "fc*", "lr": 0.1}, {"params": "*", "weight_decay": 0.2}],
            "clip": {"norm": 2},
            "adjustable": True,
        }
    )
    assert recipe.optimizer.rates_of("fc1.weight") == (0.1, 0.0)
    assert recipe.optimizer.rates_of("stem.weight") == (0.01, 0.2)
    assert recipe.optimizer.rates_of("stem.bias") == (0.01, 0.0)
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
