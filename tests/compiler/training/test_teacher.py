"""The model as it was before training as its own teacher, against PyTorch with a copy of the module."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pockengine as pock
from pockengine import interp
from pockengine.autodiff import Untrained, averaged, eval_graph, train_graph
from pockengine.frontends import from_torch
from pockengine.ir import Array, Graph
from pockengine.recipe import Recipe, resolve
from pockengine.verify.sides.side import Task
from pockengine.verify.sides.torch import Call, TorchSide
from pockengine.verify.sides.torch_training import train
from tests.compiler.training.small_models import CLASSES, MODELS

BATCH, STEPS, LR = 4, 3, 0.3
OWN = {"name": "kl", "against": "frozen", "temperature": 2, "weight": 0.7}
LOSS = ["cross_entropy", OWN]


class Images(nn.Module):
    """x [batch, 3, 6, 6] -> scores [batch, classes]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.body, self.drop, self.head = nn.Conv2d(8, 8, 3), nn.Dropout(0.5), nn.Linear(8 * 16, CLASSES)
        self.norm.running_mean, self.norm.running_var = torch.randn(8) * 0.1, torch.rand(8) + 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.stem(x)))
        scores: torch.Tensor = self.head(self.drop(torch.relu(self.body(hidden)).flatten(1)))
        return scores


@pytest.fixture(scope="module")
def model() -> Graph:
    return from_torch(Images().eval(), (torch.zeros(BATCH, 3, 6, 6),))


def feeds(model: Graph, step: int) -> dict[str, Array]:
    rng = np.random.default_rng(step)
    x = rng.standard_normal((BATCH, 3, 6, 6)).astype(np.float32)
    return {model.inputs[0].name: x, "labels": rng.integers(0, CLASSES, BATCH)}


def by_torch(model: Graph, trained: tuple[str, ...], batch_norm: str) -> tuple[list[float], dict[str, Array], float]:
    """Losses of the steps, what the module has then, and the loss on the last batch by the module as it evaluates."""
    torch.set_num_threads(1)
    module = Images().eval()
    teacher = copy.deepcopy(module)
    if batch_norm == "train":
        module.norm.train()
    optimizer = torch.optim.SGD([module.get_parameter(name) for name in trained], LR)

    def loss_of(step: int) -> torch.Tensor:
        given = feeds(model, step)
        x, labels = torch.tensor(given[model.inputs[0].name]), torch.tensor(given["labels"])
        with torch.no_grad():
            soft = F.softmax(teacher(x) / 2, -1)
        scores = module(x)
        kl = 4 * F.kl_div(F.log_softmax(scores / 2, -1), soft, reduction="batchmean")
        return F.cross_entropy(scores, labels) + 0.7 * kl

    losses = []
    for step in range(STEPS):
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    module.eval()
    return losses, {name: x.detach().numpy() for name, x in module.state_dict().items()}, loss_of(STEPS - 1).item()


@pytest.mark.parametrize(
    "update, batch_norm", [("full", "frozen"), ("full", "train"), ([{"params": "head.*"}], "frozen")]
)
def test_three_steps_against_pytorch(model: Graph, update: Any, batch_norm: str) -> None:
    recipe = Recipe(LOSS, {"name": "sgd", "lr": LR}, update, batch_norm=batch_norm)
    scheme = resolve(recipe, model)
    expected, tensors, last = by_torch(model, scheme.trained(), batch_norm)
    graph, state = train_graph(model, recipe, scheme), dict(model.data)
    losses = [float(interp.step(graph, feeds(model, step), state)["loss"]) for step in range(STEPS)]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for name in state:
        np.testing.assert_allclose(state[name], tensors[name], rtol=1e-4, atol=1e-6, err_msg=name)
    watched = eval_graph(model, recipe, Untrained.of(model, recipe, scheme))
    found = interp.evaluate(watched, {**state, **feeds(model, STEPS - 1)})["sample_loss"]
    assert found.mean() == pytest.approx(last, rel=1e-5)


def test_the_compiled_step_against_pytorch(model: Graph) -> None:
    """Only the last layer and the body are trained: their contents are there a second time, and nothing else."""
    update = [{"params": "head.*"}, {"params": "body.*"}]
    recipe = Recipe(LOSS, {"name": "sgd", "lr": LR}, update)
    plain = pock.compile(model, recipe.with_(loss="cross_entropy"), threads=1).summary
    artifact = pock.compile(model, recipe, threads=1)
    trained = 4 * (8 * 16 * CLASSES + CLASSES + 8 * 8 * 9 + 8)
    assert 0 <= artifact.summary["const_bytes"] - plain["const_bytes"] - trained < 8 * 64  # and what rounds them up
    with artifact.load() as session:
        losses = [session.step(feeds(model, step)) for step in range(STEPS)]
        expected, tensors, last = by_torch(model, resolve(recipe, model).trained(), "frozen")
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        for name, array in session.state().items():
            np.testing.assert_allclose(array, tensors[name], rtol=1e-3, atol=1e-5, err_msg=name)
        assert session.evaluate(feeds(model, STEPS - 1)).loss == pytest.approx(last, rel=1e-4)


def _count(graph: Graph, op: str) -> int:
    return sum(node.op == op and node.phase == "forward" for node in graph.nodes)


def test_what_comes_before_the_trained_layers_is_shared(model: Graph) -> None:
    for update, convolutions in (([{"params": "head.*"}], 2), ([{"params": "body.*"}], 3), ("full", 4)):
        recipe = Recipe(LOSS, update=update)
        assert _count(train_graph(model, recipe, resolve(recipe, model)), "conv2d") == convolutions


def test_the_teacher_never_drops(model: Graph) -> None:
    """Without dropout student and teacher begin as one, and the loss is 0; with it they are apart."""
    for dropout in (False, True):
        recipe = Recipe([OWN], {"name": "sgd", "lr": LR}, dropout=dropout)
        graph, state = train_graph(model, recipe, resolve(recipe, model)), dict(model.data)
        state |= {value.name: np.zeros(value.type.shape, value.type.dtype.numpy) for value in graph.states}
        loss = float(interp.step(graph, feeds(model, 0), state)["loss"])
        assert (loss > 1e-3) == dropout and loss > -1e-6


def test_the_teacher_sees_the_changed_samples(model: Graph) -> None:
    """Noise, and each sample mixed with the next: student and teacher begin as one."""
    augment = [{"name": "noise", "std": 1.0}, {"name": "mixup", "alpha": 1.0}]
    recipe = Recipe([OWN], {"name": "sgd", "lr": LR}, augment=augment)
    graph, state = train_graph(model, recipe, resolve(recipe, model)), dict(model.data)
    state |= {value.name: np.zeros(value.type.shape, value.type.dtype.numpy) for value in graph.states}
    assert abs(float(interp.step(graph, feeds(model, 0), state)["loss"])) < 1e-6


def test_averages_are_judged_against_the_same_teacher(model: Graph) -> None:
    recipe = Recipe([OWN], {"name": "sgd", "lr": LR}, [{"params": "head.*"}], ema=0.5)
    scheme = resolve(recipe, model)
    read = averaged(model, [model.param(name) for name in scheme.trained()])
    graph = eval_graph(read, recipe, Untrained.of(model, recipe, scheme))
    state = {**model.data, **{f"{name}.ema": model.data[name] for name in scheme.trained()}}
    assert interp.evaluate(graph, {**state, **feeds(model, 0)})["sample_loss"].max() < 1e-6
    state["head.bias.ema"] = state["head.bias.ema"] + np.arange(CLASSES, dtype=np.float32)
    assert interp.evaluate(graph, {**state, **feeds(model, 0)})["sample_loss"].min() > 0.1


def test_an_output_called_frozen_is_that_output() -> None:
    small = MODELS["perceptron"].build()
    small = small.with_(outputs={"logits": small.outputs["logits"], "frozen": small.outputs["features"]})
    recipe = Recipe({**OWN, "output": "logits"})
    scheme = resolve(recipe, small)
    other = small.with_(outputs={"logits": small.outputs["logits"], "features": small.outputs["frozen"]})
    against = Recipe({**OWN, "output": "logits", "against": "features"})
    assert len(train_graph(small, recipe, scheme).nodes) == len(train_graph(other, against, scheme).nodes)


@pytest.mark.parametrize("batch_norm", ["frozen", "train"])
def test_verify_trains_pytorch_with_a_copy_of_the_module(model: Graph, batch_norm: str) -> None:
    recipe = Recipe(LOSS, {"name": "sgd", "lr": LR}, batch_norm=batch_norm)
    scheme = resolve(recipe, model)
    task = Task((model.inputs[0].name,), recipe, scheme, (), model.data)
    side = TorchSide(Images().eval(), Call())
    trained = train(side, task, [feeds(model, step) for step in range(STEPS)])
    expected, tensors, _ = by_torch(model, scheme.trained(), batch_norm)
    np.testing.assert_allclose(trained.losses, expected, rtol=1e-6)
    np.testing.assert_allclose(trained.tensors["head.weight"], tensors["head.weight"], rtol=1e-5, atol=1e-7)
