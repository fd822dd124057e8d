"""Moving averages of the weights as timm's ModelEmaV2 has them: a copy at the start, then a blend after each step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

from pockengine.artifact import Session
from pockengine.compile import compile
from pockengine.errors import RecipeError
from pockengine.ir import Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.recipe import Recipe

from .networks import BATCH, CNN, MLP, Network, Torch, assert_same_training

STEPS = 13
DECAY = 0.8
SPARSE = [{"params": "fc.*"}, {"params": "conv2.weight", "channels": 0.5}]


def _trained(network: Network, update: object) -> tuple[Session, Torch, dict[str, torch.Tensor]]:
    """A session after training, the PyTorch side, and its averages."""
    recipe = Recipe(optimizer={"name": "adamw", "lr": 0.01, "eps": 1e-6}, update=update, ema=DECAY)
    side = Torch.of(network, recipe)
    optimizer = torch.optim.AdamW(side.leaves.values(), lr=0.01, eps=1e-6)
    averages = {name: leaf.detach().clone() for name, leaf in side.leaves.items()}
    expected = []
    for loss in side.steps(optimizer, STEPS):
        expected.append(loss)
        for name, leaf in side.leaves.items():
            averages[name] = DECAY * averages[name] + (1.0 - DECAY) * leaf.detach()
    session = compile(network.build(BATCH), recipe, threads=2).load()
    losses = [session.step(network.batch(step)) for step in range(STEPS)]
    assert_same_training(session.state(), losses, side, expected)
    return session, side, averages


@pytest.mark.parametrize(("network", "update"), [(MLP, "full"), (CNN, SPARSE)], ids=["mlp", "cnn-sparse"])
def test_average_follows_timm(network: Network, update: object, tmp_path: Path) -> None:
    session, side, averages = _trained(network, update)
    states, averaged = session.optimizer_state(), side.parameters(averages)
    trained = side.scheme.trained()
    assert sorted(name for name in states if name.endswith(".ema")) == sorted(f"{name}.ema" for name in trained)
    for name in trained:
        np.testing.assert_allclose(states[f"{name}.ema"], averaged[name].numpy(), rtol=0, atol=2e-6, err_msg=name)
    batch = network.batch(77)
    logits = network.forward(averaged, torch.from_numpy(batch["x"])).detach().numpy()
    np.testing.assert_allclose(session.predict({"x": batch["x"]})["logits"], logits, rtol=1e-4, atol=1e-5)
    loss = nn.functional.cross_entropy(torch.from_numpy(logits), torch.from_numpy(batch["labels"])).item()
    assert session.evaluate(batch).loss == pytest.approx(loss, rel=1e-5)
    assert abs(side.loss(batch).item() - loss) > 1e-3  # the weights themselves would give something else
    session.save(tmp_path / "averaged.safetensors")
    saved = load_file(tmp_path / "averaged.safetensors")
    assert saved.keys() == averaged.keys()
    for name, tensor in saved.items():
        np.testing.assert_array_equal(tensor, states.get(f"{name}.ema", session.state()[name]), name)


def test_the_average_starts_with_the_weights_and_again_with_loaded_ones(tmp_path: Path) -> None:
    session, side, _ = _trained(MLP, "full")
    session.save(tmp_path / "weights.safetensors")
    saved = load_file(tmp_path / "weights.safetensors")
    fresh = compile(MLP.build(BATCH), Recipe(ema=DECAY), threads=1).load()
    for name, tensor in side.start.items():
        np.testing.assert_array_equal(fresh.optimizer_state()[f"{name}.ema"], tensor.numpy(), name)
    fresh.load(tmp_path / "weights.safetensors")
    for name, array in saved.items():
        np.testing.assert_array_equal(fresh.optimizer_state()[f"{name}.ema"], array, name)
    fresh.set_tensor("fc2.bias", np.zeros(4, np.float32))
    assert not fresh.optimizer_state()["fc2.bias.ema"].any()


def _normed(batch: int) -> Graph:
    builder = Builder("normed")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (batch, 3, 4, 4)))
    four = TensorType(DType.F32, (3,))
    data = {"weight": np.ones(3), "bias": np.zeros(3), "running_mean": np.zeros(3), "running_var": np.ones(3)}
    tensors = [builder.param(f"norm.{key}", four, array.astype(np.float32)) for key, array in data.items()]
    h = e.op("batch_norm", x, *tensors, epsilon=1e-5, momentum=0.1, training=False)
    builder.outputs = {"logits": e.reshape(e.mean(e.op("tanh", h), (2, 3)), (batch, 3))}
    return builder.finish()


def test_running_statistics_are_averaged_too() -> None:
    recipe = Recipe(optimizer={"name": "sgd", "lr": 0.1}, batch_norm="train", ema=DECAY)
    session = compile(_normed(BATCH), recipe, threads=1).load()
    norm = nn.BatchNorm2d(3)
    optimizer = torch.optim.SGD(norm.parameters(), lr=0.1)
    averages = {name: tensor.detach().clone() for name, tensor in norm.state_dict().items()}
    for step in range(STEPS):
        rng = np.random.default_rng(step)
        x = (rng.standard_normal((BATCH, 3, 4, 4)) * 2 + 1).astype(np.float32)
        labels = rng.integers(0, 3, BATCH)
        loss = nn.functional.cross_entropy(torch.tanh(norm(torch.from_numpy(x))).mean((2, 3)), torch.from_numpy(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for name, tensor in norm.state_dict().items():
            averages[name] = DECAY * averages[name] + (1.0 - DECAY) * tensor
        assert session.step({"x": x, "labels": labels}) == pytest.approx(loss.item(), rel=1e-5)
    states = session.optimizer_state()
    for key in ("weight", "bias", "running_mean", "running_var"):
        np.testing.assert_allclose(states[f"norm.{key}.ema"], averages[key].numpy(), rtol=1e-5, err_msg=key)


@pytest.mark.parametrize(
    ("ema", "words"),
    [
        (1.0, ["ema", "less than 1"]),
        (0, ["ema", "greater than 0"]),
        (True, ["ema", "a number"]),
        ({"rate": 0.9}, ["'rate'", "decay"]),
        ({}, ["ema needs a decay"]),
    ],
)
def test_bad_averages(ema: object, words: list[str]) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe(ema=ema)
    assert [word for word in words if word not in str(caught.value)] == []
