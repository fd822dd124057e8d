"""Schedules against PyTorch's and transformers': the factor itself, and training through warm-up and decay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler
from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup

from pockengine import interp
from pockengine.autodiff.rates import factor
from pockengine.compile import Request, compile, plan_programs
from pockengine.errors import RecipeError
from pockengine.ir import Builder, DType, TensorType
from pockengine.ops import Emitter
from pockengine.recipe import RateSchedule, Recipe
from pockengine.targets import get
from pockengine.verify.sides.torch_optimizers import factor as torch_factor

from .networks import MLP, Torch, assert_same_training

Scheduler = Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler]
STEPS = 16
"""More than every schedule below has: what comes after its end is tested too, where PyTorch's stays there."""


def _after_warmup(warmup: int, start: float, then: Scheduler) -> Scheduler:
    def make(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
        rising = lr_scheduler.LinearLR(optimizer, start_factor=start, total_iters=warmup)
        return lr_scheduler.SequentialLR(optimizer, [rising, then(optimizer)], milestones=[warmup])

    return make


SCHEDULES: dict[str, tuple[dict[str, Any], Scheduler, int]] = {
    "warmup": (
        {"name": "constant", "warmup": 5, "warmup_start": 0.2},
        lambda o: lr_scheduler.LinearLR(o, start_factor=0.2, total_iters=5),
        STEPS,
    ),
    "linear": (
        {"name": "linear", "steps": 12, "end": 0.1},
        lambda o: lr_scheduler.LinearLR(o, start_factor=1.0, end_factor=0.1, total_iters=12),
        STEPS,
    ),
    "linear-transformers": (
        {"name": "linear", "steps": 12, "warmup": 4},
        lambda o: get_linear_schedule_with_warmup(o, 4, 12),
        STEPS,
    ),
    "cosine": (
        {"name": "cosine", "steps": 13, "end": 0.25},
        lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=13, eta_min=0.25 * 0.2),
        13,
    ),
    "cosine-warmup": (
        {"name": "cosine", "steps": 14, "warmup": 4, "warmup_start": 0.1, "end": 0.25},
        _after_warmup(4, 0.1, lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=10, eta_min=0.25 * 0.2)),
        14,
    ),
    "cosine-transformers": (
        {"name": "cosine", "steps": 14, "warmup": 3},
        lambda o: get_cosine_schedule_with_warmup(o, 3, 14),
        14,
    ),
    "step": (
        {"name": "step", "every": 4, "gamma": 0.3, "warmup": 3, "warmup_start": 0.5},
        _after_warmup(3, 0.5, lambda o: lr_scheduler.StepLR(o, step_size=4, gamma=0.3)),
        STEPS,
    ),
}


def _factors(schedule: RateSchedule, steps: int) -> list[float]:
    builder = Builder("factor")
    done = builder.input("done", TensorType(DType.I64, ()))
    builder.outputs = {"factor": factor(Emitter(builder), schedule, done)}
    graph = builder.finish()
    return [float(interp.evaluate(graph, {"done": np.asarray(step, np.int64)})["factor"]) for step in range(steps)]


@pytest.mark.parametrize("name", SCHEDULES)
def test_factor_is_pytorchs(name: str) -> None:
    settings, make, steps = SCHEDULES[name]
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.2)
    scheduler = make(optimizer)
    expected = []
    for _ in range(steps):
        expected.append(optimizer.param_groups[0]["lr"] / 0.2)
        optimizer.step()
        scheduler.step()
    recipe = Recipe(optimizer={"name": "sgd", "lr": 0.2, "schedule": settings})
    schedule = recipe.optimizer.schedule
    np.testing.assert_allclose(_factors(schedule, steps), expected, atol=3e-7)
    np.testing.assert_allclose([torch_factor(schedule, step) for step in range(steps)], expected, atol=3e-7)


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_after_its_end_a_schedule_stays_there(name: str) -> None:
    found = _factors(RateSchedule(name, warmup=2, steps=6, end=0.3), 20)
    np.testing.assert_allclose(found[6:], 0.3, rtol=1e-6)


@pytest.mark.parametrize("name", ["cosine-warmup", "step", "linear-transformers"])
def test_training_under_a_schedule_follows_pytorch(name: str) -> None:
    settings, make, steps = SCHEDULES[name]
    recipe = Recipe(
        optimizer={
            "name": "adamw",
            "lr": 0.2,
            "betas": [0.8, 0.9],
            "eps": 1e-3,
            "weight_decay": 0.1,
            "groups": [{"params": "fc1.*", "lr": 0.05}],
            "schedule": {**settings, "end": 0.0} if "cosine" in name else settings,
        }
    )
    side = Torch.of(MLP, recipe)
    groups: list[dict[str, Any]] = [
        {"params": [leaf for name, leaf in side.leaves.items() if name.startswith("fc1")], "lr": 0.05},
        {"params": [leaf for name, leaf in side.leaves.items() if name.startswith("fc2")]},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.2, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1)
    if "cosine" in name:  # PyTorch's smallest rate is the same number for all groups, ours a share of each: 0 is both
        make = _after_warmup(4, 0.1, lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=10))
    expected = list(side.steps(optimizer, steps, scheduler=make(optimizer)))
    session = compile(MLP.build(8), recipe, threads=1).load()
    losses = [session.step(MLP.batch(step)) for step in range(steps)]
    assert_same_training(session.state(), losses, side, expected)
    assert session.optimizer_state()["step"] == steps


def test_a_constant_rate_needs_no_step_and_no_further_kernel() -> None:
    plain, constant = (
        plan_programs(Request(MLP.build(8), Recipe(optimizer=optimizer), get("raspberry-pi-4")))
        for optimizer in ({"name": "adamw"}, {"name": "adamw", "schedule": "constant"})
    )
    assert [value.name for value in constant.programs["train"].graph.states if value.name == "step"] == []
    assert _kernels(constant) == _kernels(plain)


def _kernels(planned: Any) -> list[str]:
    return [call.kernel.symbol for step in planned.programs["train"].steps for call in step.lowered.calls]


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("cosin", ["no schedule 'cosin'", "did you mean 'cosine'"]),
        (["cosine"], ["a name or a mapping"]),
        ({"name": ["cosine"], "steps": 3}, ["no schedule"]),
        ("cosine", ["optimizer.schedule 'cosine'", "needs 'steps'"]),
        ({"name": "step", "gamma": 0.1}, ["needs 'every'"]),
        ({"name": "linear", "steps": 10, "warmup": 10}, ["optimizer.schedule.steps", "more than 10"]),
        ({"name": "linear", "steps": 10, "every": 2}, ["'every'", "linear"]),
        ({"name": "cosine", "steps": 10.5}, ["optimizer.schedule.steps", "whole number"]),
        ({"name": "cosine", "steps": 10, "warmup": -1}, ["optimizer.schedule.warmup", "-1"]),
        ({"name": "cosine", "steps": 10, "end": 2}, ["optimizer.schedule.end", "at most 1"]),
        ({"name": "step", "every": 2, "gamma": 0}, ["optimizer.schedule.gamma", "greater than 0"]),
    ],
)
def test_bad_schedules(schedule: object, words: list[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe(optimizer={"name": "sgd", "schedule": schedule})
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_recipe_says_its_schedule_again(name: str) -> None:
    recipe = Recipe(optimizer={"name": "sgd", "schedule": SCHEDULES[name][0]})
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
