"""Gradient clipping against PyTorch's, and what the global norm costs in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from pockengine.check import estimate
from pockengine.compile import Request, compile, plan_programs, summary
from pockengine.errors import RecipeError
from pockengine.plan import aligned
from pockengine.recipe import Recipe
from pockengine.targets import ALIGNMENT, get

from .networks import CNN, MLP, TIED, Network, Torch, assert_same_training

STEPS = 12
SPARSE = [{"params": "fc.*"}, {"params": "conv2.weight", "channels": 0.5}]
CLIPS: dict[str, tuple[dict[str, float], Callable[[list[nn.Parameter]], Any]]] = {
    "value": ({"value": 0.02}, lambda p: nn.utils.clip_grad_value_(p, 0.02)),
    "norm": ({"norm": 0.3}, lambda p: nn.utils.clip_grad_norm_(p, 0.3)),
    "norm-out-of-reach": ({"norm": 1e4}, lambda p: nn.utils.clip_grad_norm_(p, 1e4)),
}
CASES: list[tuple[Network, object, str]] = [
    *[(MLP, "full", clip) for clip in CLIPS],
    (CNN, SPARSE, "norm"),
    (CNN, SPARSE, "value"),
    (TIED, "full", "norm"),
]


@pytest.mark.parametrize("network, update, name", CASES, ids=[f"{net.name}-{name}" for net, _, name in CASES])
def test_clipping_follows_pytorch(network: Network, update: object, name: str) -> None:
    settings, clip = CLIPS[name]
    recipe = Recipe(
        optimizer={"name": "sgd", "lr": 0.2, "momentum": 0.9, "weight_decay": 0.01, "clip": settings}, update=update
    )
    side = Torch.of(network, recipe)
    optimizer = torch.optim.SGD(side.leaves.values(), lr=0.2, momentum=0.9, weight_decay=0.01)
    expected = list(side.steps(optimizer, STEPS, clip=clip))
    session = compile(network.build(8), recipe, threads=2).load()
    losses = [session.step(network.batch(step)) for step in range(STEPS)]
    assert_same_training(session.state(), losses, side, expected)


def test_the_bounds_of_these_tests_bind() -> None:
    side = Torch.of(MLP, Recipe())
    side.loss(MLP.batch(0)).backward()
    gradients = [leaf.grad for leaf in side.leaves.values() if leaf.grad is not None]
    assert 0.3 < torch.cat([gradient.flatten() for gradient in gradients]).norm() < 1e4
    assert max(gradient.abs().max() for gradient in gradients) > 0.02


def test_the_plan_says_what_the_global_norm_costs() -> None:
    plain, norm, value = (
        plan_programs(Request(MLP.build(8), Recipe(optimizer={"name": "sgd", "clip": clip}), get("raspberry-pi-4"), 1))
        for clip in (None, {"norm": 1.0}, {"value": 1.0})
    )
    waiting = sum(aligned(value.type.nbytes, ALIGNMENT) for value in norm.model.params)
    assert norm.clip_norm_bytes == summary(norm, 0)["clip_norm_bytes"] == waiting
    assert 0 < norm.programs["train"].plan.arena_bytes - plain.programs["train"].plan.arena_bytes <= waiting
    assert plain.clip_norm_bytes == value.clip_norm_bytes == 0
    assert value.programs["train"].plan.arena_bytes == plain.programs["train"].plan.arena_bytes
    shown = estimate(MLP.build(8), norm.recipe, get("raspberry-pi-4"), 1).to_mapping()
    assert shown["clip_norm_bytes"] == waiting


def test_only_gradients_of_what_is_trained_wait_for_the_norm() -> None:
    adam = {"name": "adamw", "schedule": {"name": "cosine", "steps": 9}, "clip": {"norm": 1.0}}
    planned = plan_programs(Request(CNN.build(8), Recipe(optimizer=adam, update=SPARSE), get("raspberry-pi-4"), 1))
    sizes = {value.name: value.type.nbytes for value in planned.model.params}
    expected = [sizes["fc.weight"], sizes["fc.bias"], sizes["conv2.weight"] // 2]
    assert planned.clip_norm_bytes == sum(aligned(nbytes, ALIGNMENT) for nbytes in expected)


@pytest.mark.parametrize(
    ("clip", "words"),
    [
        (1.0, ["optimizer.clip", "{norm: 1.0}"]),
        ({}, ["optimizer.clip", "{norm: 1.0}"]),
        ({"norm": 1.0, "value": 1.0}, ["optimizer.clip"]),
        ({"nrom": 1.0}, ["'nrom'", "did you mean 'norm'"]),
        ({"norm": 0}, ["optimizer.clip.norm", "greater than 0"]),
        ({"value": "much"}, ["optimizer.clip.value", "a number"]),
    ],
)
def test_bad_clipping(clip: object, words: list[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe(optimizer={"name": "sgd", "clip": clip})
    assert [word for word in words if word not in str(caught.value)] == []
