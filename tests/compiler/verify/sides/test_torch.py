"""The PyTorch side of `verify` agrees with the interpreter, and with PyTorch's functions.

The interpreter evaluates the compiler's own graphs; the functions are those of the tests of training.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pockengine import interp
from pockengine.autodiff import adapters_of, train_graph, with_adapters
from pockengine.errors import RecipeError
from pockengine.frontends import from_torch
from pockengine.ir import Array
from pockengine.recipe import Recipe, resolve
from pockengine.verify import compare_changes
from pockengine.verify.sides.ours import comparable
from pockengine.verify.sides.side import Task
from pockengine.verify.sides.steps import Trained
from pockengine.verify.sides.torch import Call, TorchSide
from pockengine.verify.sides.torch_losses import objective, refuse_unmirrored
from pockengine.verify.sides.torch_training import train
from tests.compiler.training.loss_cases import CASES
from tests.compiler.training.small_models import MODELS

BATCH, STEPS = 6, 4


class Net(nn.Module):
    """A convolution, a batch norm, a norm that computes in float32 whatever it is in, and two layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.fc, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.norm(self.conv(x))).mean((2, 3)).to(torch.float32)
        return self.head(torch.tanh(self.fc(h / h.float().norm(dim=-1, keepdim=True))))


X = torch.randn(BATCH, 2, 5, 5, generator=torch.Generator().manual_seed(1))
GRAPH = from_torch(Net(), (X,))
SIDE = TorchSide(Net(), Call.of({"x": X}, (X,), {}))


def trained(recipe: Recipe, feeds: list[dict[str, Array]], double: bool = False) -> Trained:
    return train(SIDE, task_of(recipe), feeds, double)


def task_of(recipe: Recipe) -> Task:
    model = with_adapters(GRAPH, recipe.lora) if recipe.lora else GRAPH
    adapters = adapters_of(GRAPH, recipe.lora) if recipe.lora else ()
    return Task(("x",), recipe, resolve(recipe, model), adapters, dict(model.data))


def batches(samples: int = BATCH) -> list[dict[str, Array]]:
    rng = np.random.default_rng(0)
    shape = (samples, 2, 5, 5)
    return [
        {"x": rng.standard_normal(shape).astype(np.float32), "labels": rng.integers(0, 3, samples)}
        for _ in range(STEPS)
    ]


def by_interpreter(recipe: Recipe) -> Trained:
    model = with_adapters(GRAPH, recipe.lora) if recipe.lora else GRAPH
    graph, tensors = train_graph(model, recipe, resolve(recipe, model)), dict(model.data)
    losses = [float(interp.step(graph, feeds, tensors)["loss"]) for feeds in batches()]
    return Trained(tuple(losses), tensors, {})


RECIPES: dict[str, dict[str, Any]] = {
    "sgd": {"optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}},
    "adam": {"optimizer": {"name": "adam", "lr": 0.01, "betas": [0.8, 0.99], "weight_decay": 0.1}},
    "adamw": {
        "optimizer": {
            "name": "adamw",
            "lr": 0.01,
            "exclude": "*.bias",
            "groups": [{"params": "head.*", "lr": 0.05}],
            "schedule": {"name": "cosine", "warmup": 2, "warmup_start": 0.1, "steps": 5, "end": 0.2},
            "clip": {"norm": 0.1},
        }
    },
    "lion": {"optimizer": {"name": "lion", "lr": 0.001, "weight_decay": 0.1}},
    "adafactor": {"optimizer": {"name": "adafactor", "lr": 0.05, "clip": {"value": 0.01}}},
    "lamb": {"optimizer": {"name": "lamb", "lr": 0.01, "schedule": {"name": "step", "every": 2, "gamma": 0.3}}},
    "channels": {
        "optimizer": {"name": "lamb", "lr": 0.01},
        "update": [{"params": "conv.weight", "channels": 0.5}, {"params": "head.*"}],
    },
    "lora": {"optimizer": {"name": "adam", "lr": 0.01}, "lora": {"params": ["fc", "conv"], "rank": 2}},
    "norms": {"batch_norm": "train", "optimizer": {"name": "sgd", "lr": 0.1}},
}


@pytest.mark.parametrize("name", RECIPES)
def test_training_is_what_the_graphs_say(name: str) -> None:
    recipe = Recipe(**RECIPES[name])
    found, wanted = trained(recipe, batches()), by_interpreter(recipe)
    np.testing.assert_allclose(found.losses, wanted.losses, rtol=1e-5)
    start = task_of(recipe).initial
    changes = compare_changes(start, wanted.tensors, found.tensors, sorted(start), STEPS)
    moved = {change.name for change in changes if change.theirs > 0}
    assert moved >= set(resolve(recipe, GRAPH if not recipe.lora else with_adapters(GRAPH, recipe.lora)).trained())
    assert max(change.error for change in changes) < 2e-3
    assert moved.intersection({"norm.running_mean"}) == ({"norm.running_mean"} if name == "norms" else set())


def test_micro_batches_make_one_step() -> None:
    recipe = Recipe(optimizer={"name": "sgd", "lr": 0.1})
    whole = trained(recipe, batches())
    halves = trained(recipe.with_(accumulate=2), batches())
    np.testing.assert_allclose(halves.losses, whole.losses, rtol=1e-6)
    np.testing.assert_allclose(halves.tensors["fc.weight"], whole.tensors["fc.weight"], atol=1e-6)


def test_float64_is_float64_all_through() -> None:
    """The module converts to float32 twice; as a referee it must not."""
    recipe = Recipe(optimizer={"name": "sgd", "lr": 0.1})
    one, other = (trained(recipe, batches(), double=True) for _ in range(2))
    single = trained(recipe, batches())
    assert one.losses == other.losses
    assert one.tensors["conv.weight"].dtype == np.float64
    assert 0 < abs(one.losses[0] - single.losses[0]) < 1e-6
    with pytest.raises(RuntimeError, match="same dtype"):  # what converting the module alone comes to
        Net().double()(X.double())
    assert torch.get_default_dtype() == torch.float32


def test_the_module_given_stays_as_it_is() -> None:
    module, recipe = SIDE.module, Recipe(optimizer={"name": "sgd", "lr": 0.1})
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    trained(recipe, batches())
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert module.training and all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.parametrize("name", CASES)
def test_losses_are_pytorchs(name: str) -> None:
    case = CASES[name]
    model = MODELS[case.model]
    graph = model.build()
    feeds = {key: torch.tensor(array) for key, array in case.feeds(0).items()}
    outputs = model.forward({key: torch.tensor(array) for key, array in graph.data.items()}, feeds)
    found = objective(case.of().bound(graph), outputs, feeds)
    assert float(found) == pytest.approx(float(case.torch(outputs, feeds)), rel=1e-6)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (Recipe(frozen={"weights": "int4"}, update=[{"params": "head.*"}]), ["'frozen'", "without"]),
        (Recipe(optimizer={"name": "adam", "state": "int8"}), ["8 bits", "state: f32"]),
        (Recipe(loss={"onnx": "loss.onnx"}), ["'loss.onnx'", "Python function"]),
    ],
)
def test_what_cannot_be_mirrored_is_refused(recipe: Recipe, words: list[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        refuse_unmirrored(comparable(recipe)[0])
    assert [word for word in words if word not in str(caught.value)] == []


def test_what_is_left_out_is_said() -> None:
    recipe, notes = comparable(Recipe(dropout=True, ema=0.9))
    assert (recipe.dropout, recipe.ema) == (False, None)
    assert ["dropout" in notes[0], "averages" in notes[1]] == [True, True]
