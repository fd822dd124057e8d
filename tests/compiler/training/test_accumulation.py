"""Gradient accumulation against PyTorch on one batch of all the micro-batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pockengine.compile import Request, compile, plan_programs
from pockengine.errors import RecipeError
from pockengine.recipe import Recipe
from pockengine.targets import get

from .networks import BATCH, CNN, MLP, TIED, Network, Torch, assert_same_training

STEPS = 12
MICRO = 3
SPARSE = [{"params": "fc.*"}, {"params": "conv2.weight", "channels": 0.5}]
SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
CASES: list[tuple[Network, object, dict[str, Any]]] = [
    (MLP, "full", SGD),
    (MLP, "full", {**SGD, "clip": {"norm": 0.2}, "schedule": {"name": "linear", "steps": 10, "warmup": 3}}),
    (CNN, SPARSE, SGD),
    (TIED, "full", SGD),
    (MLP, "full", {**SGD, "weight_decay": 0.05}),
    (MLP, "full", {**SGD, "nesterov": True}),
    (MLP, "full", {"name": "sgd", "lr": 0.1}),
]
NAMES = ["mlp", "mlp-norm-schedule", "cnn-sparse", "tied", "mlp-decay", "mlp-nesterov", "mlp-plain"]


@pytest.mark.parametrize("network, update, optimizer", CASES, ids=NAMES)
def test_micro_batches_are_one_batch(network: Network, update: object, optimizer: dict[str, Any]) -> None:
    recipe = Recipe(optimizer=optimizer, update=update, accumulate=MICRO)
    side = Torch.of(network, recipe)
    settings = {name: value for name, value in optimizer.items() if name not in ("name", "clip", "schedule")}
    torch_optimizer = torch.optim.SGD(side.leaves.values(), **settings)
    extra: dict[str, Any] = {}
    if "clip" in optimizer:
        extra["clip"] = lambda p: torch.nn.utils.clip_grad_norm_(p, 0.2)
        extra["scheduler"] = torch.optim.lr_scheduler.LambdaLR(
            torch_optimizer, lambda step: step / 3 if step < 3 else max(0.0, (10 - step) / 7)
        )
    expected = list(side.steps(torch_optimizer, STEPS, MICRO * BATCH, **extra))
    session = compile(network.build(BATCH), recipe, threads=2).load()
    losses = [session.step(network.batch(step, MICRO * BATCH)) for step in range(STEPS)]
    assert_same_training(session.state(), losses, side, expected)
    states = session.optimizer_state()
    in_velocity = not {"clip", "nesterov"} & optimizer.keys() and "momentum" in optimizer
    for name, leaf in side.leaves.items():
        if in_velocity:
            velocity = torch_optimizer.state[leaf]["momentum_buffer"].detach().numpy()
            np.testing.assert_allclose(states[f"{name}.momentum"], 0.9 * velocity, rtol=1e-3, atol=1e-5)
            assert f"{name}.accumulated" not in states
        else:
            assert states[f"{name}.accumulated"].shape == tuple(leaf.shape)
            assert not states[f"{name}.accumulated"].any()
    if "schedule" in optimizer:
        assert states["step"] == STEPS


def test_the_program_accumulate_only_accumulates() -> None:
    recipe = Recipe(optimizer={"name": "adamw", "schedule": {"name": "constant", "warmup": 2}}, accumulate=2, ema=0.9)
    planned = plan_programs(Request(MLP.build(BATCH), recipe, get("raspberry-pi-4")))
    graph = planned.programs["accumulate"].graph
    names = [f"{value.name}.accumulated" for value in planned.model.params]
    assert sorted(value.name for value in graph.updates) == sorted(names)
    assert list(graph.outputs) == ["loss"]


def test_without_accumulation_there_is_no_such_program() -> None:
    planned = plan_programs(Request(MLP.build(BATCH), Recipe(accumulate=1), get("raspberry-pi-4")))
    assert list(planned.programs) == ["train", "eval", "predict"]
    assert not planned.programs["train"].graph.states


@pytest.mark.parametrize("accumulate", [0, 1.5, True, "3"])
def test_bad_accumulation(accumulate: object) -> None:
    with pytest.raises(RecipeError, match="accumulate must be"):
        Recipe.from_mapping({"loss": "mse", "update": "full", "accumulate": accumulate})


def test_a_recipe_says_its_accumulation_and_average_again() -> None:
    recipe = Recipe(accumulate=4, ema={"decay": 0.99})
    assert (recipe.accumulate, recipe.ema) == (4, 0.99)
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
    assert recipe.with_batch(2).accumulate == 4
    np.testing.assert_equal(recipe.with_(update="head").ema, 0.99)
