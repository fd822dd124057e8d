"""Training on augmented samples: against PyTorch with the same random numbers, repeated, resumed, on other machines."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch.nn import functional

from pockengine import interp
from pockengine.artifact import Artifact
from pockengine.autodiff import GENERATOR, train_graph
from pockengine.compile import compile
from pockengine.ir import Array
from pockengine.recipe import Recipe, resolve
from pockengine.verify.sides.ours import comparable
from tests.compiler.codegen.emulated import EMULATOR
from tests.compiler.training.augmented import (
    ALPHA,
    PADDING,
    STD,
    Draws,
    cropped,
    flipped,
    mixed_up,
    model,
    noised,
    numbers,
)
from tests.compiler.training.networks import BATCH, CNN, Torch, assert_same_training

SGD: dict[str, Any] = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
EVERYTHING: list[Any] = [
    "flip",
    {"name": "crop", "padding": PADDING},
    {"name": "noise", "std": STD},
    {"name": "mixup", "alpha": ALPHA},
]
STEPS = 6


def everything(x: Array, generator: int) -> tuple[Array, float]:
    draw = Draws(generator)
    return mixed_up(noised(cropped(flipped(x, draw), draw), draw), draw)


@pytest.fixture(scope="module")
def artifacts() -> dict[str, Artifact]:
    """A convolutional network with every operation, by backend."""
    recipe = Recipe(optimizer=SGD, augment=EVERYTHING)
    return {backend: compile(CNN.build(BATCH), recipe, threads=2, backend=backend) for backend in ("c", "reference")}


def _torch_loss(side: Torch, x: Array, labels: Array, generator: int, **options: Any) -> torch.Tensor:
    changed, share = everything(x, generator)
    logits = CNN.forward(side.parameters(), torch.from_numpy(changed))

    def loss(wanted: Array) -> torch.Tensor:
        return functional.cross_entropy(logits, torch.from_numpy(wanted), **options)

    return share * loss(labels) + (1 - share) * loss(np.roll(labels, -1))


@pytest.mark.parametrize(("backend", "seed"), [("c", 0), ("c", 3), ("reference", 3)])
def test_steps_are_those_of_pytorch_on_the_same_samples(
    artifacts: dict[str, Artifact], backend: str, seed: int
) -> None:
    side = Torch.of(CNN, Recipe(optimizer=SGD))
    optimizer = torch.optim.SGD(side.leaves.values(), lr=SGD["lr"], momentum=SGD["momentum"])
    expected = []
    for step in range(STEPS):
        batch = CNN.batch(step)
        loss = _torch_loss(side, batch["x"], batch["labels"], (seed << 32) + step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    with artifacts[backend].load(seed=seed) as session:
        losses = [session.step(CNN.batch(step)) for step in range(STEPS)]
        assert session.optimizer_state()[GENERATOR] == (seed << 32) + STEPS
        assert_same_training(session.state(), losses, side, expected)


def test_micro_batches_draw_numbers_of_their_own_and_class_weights_keep_their_meaning() -> None:
    weights = [1.0, 2.0, 0.5, 1.5]
    loss = {"name": "cross_entropy", "class_weights": weights, "label_smoothing": 0.1}
    recipe = Recipe(loss=loss, optimizer={"name": "sgd", "lr": 0.1}, accumulate=2, augment=EVERYTHING)
    side = Torch.of(CNN, Recipe(optimizer=SGD))
    optimizer = torch.optim.SGD(side.leaves.values(), lr=0.1)
    options = {"weight": torch.tensor(weights), "label_smoothing": 0.1}
    with compile(CNN.build(BATCH), recipe, threads=1, backend="reference").load() as session:
        for step in range(3):
            batch = CNN.batch(step, 2 * BATCH)
            parts = [
                _torch_loss(side, batch["x"][part], batch["labels"][part], 2 * step + micro, **options)
                for micro, part in enumerate((slice(0, BATCH), slice(BATCH, None)))
            ]
            loss_of_both = (parts[0] + parts[1]) / 2
            optimizer.zero_grad()
            loss_of_both.backward()
            optimizer.step()
            assert session.step(batch) == pytest.approx(loss_of_both.item(), rel=1e-5)


def test_the_seed_decides_and_threads_do_not(artifacts: dict[str, Artifact]) -> None:
    found = []
    for threads, seed in ((1, 0), (1, 0), (2, 0), (1, 1)):
        with artifacts["c"].load(threads, seed) as session:
            found.append([session.step(CNN.batch(0)) for _ in range(2)])
    assert found[0] == found[1] and found[2] == pytest.approx(found[0], rel=1e-6)
    assert found[3] != pytest.approx(found[0], rel=1e-3)
    assert found[0][1] != pytest.approx(found[0][0], rel=1e-3)


def test_evaluation_and_prediction_are_those_of_a_recipe_without(artifacts: dict[str, Artifact]) -> None:
    plain = compile(CNN.build(BATCH), Recipe(optimizer=SGD), threads=2)
    kernels = [
        {name: [node["kernel"] for node in one.manifest.programs[name]["nodes"]] for name in ("eval", "predict")}
        for one in (plain, artifacts["c"])
    ]
    assert kernels[0] == kernels[1]
    with plain.load() as wanted, artifacts["c"].load() as found:
        np.testing.assert_array_equal(found.predict(CNN.batch(0))["logits"], wanted.predict(CNN.batch(0))["logits"])
        assert found.evaluate(CNN.batch(0)).loss == wanted.evaluate(CNN.batch(0)).loss
        assert found.optimizer_state()[GENERATOR] == 0


def _train(command: Sequence[str | Path], *arguments: str | Path) -> list[float]:
    done = subprocess.run([*map(str, command), *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [event["loss"] for event in events if event["event"] == "step"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.safetensors"
    save_file(CNN.batch(0, samples=3 * BATCH + 3), path)
    return path


def test_a_resumed_run_is_the_one_that_was_not_interrupted(
    artifacts: dict[str, Artifact], data: Path, tmp_path: Path
) -> None:
    executable = artifacts["c"].unpack() / artifacts["c"].manifest.entry_points.executable
    checkpoint = tmp_path / "c.safetensors"
    command: list[str | Path] = [executable, "train", "--data", data]
    wanted = _train(command, "--steps", "7", "--seed", "3", "--save", tmp_path / "a.safetensors")
    first = _train(command, "--steps", "3", "--seed", "3", "--checkpoint", checkpoint, "--checkpoint-every", "3")
    resumed = _train(command, "--steps", "7", "--resume", checkpoint, "--save", tmp_path / "b.safetensors")
    assert first + resumed == wanted
    whole, parts = (load_file(tmp_path / f"{name}.safetensors") for name in "ab")
    assert all(np.array_equal(parts[name], tensor) for name, tensor in whole.items())
    assert load_file(checkpoint)[GENERATOR] == (3 << 32) + 3


def test_a_recipe_says_it_only_where_it_is_asked_for() -> None:
    assert "augment" not in Recipe().to_mapping() and Recipe(augment=None) == Recipe(augment=[]) == Recipe()
    recipe = Recipe(augment=["flip", {"name": "crop", "padding": 2, "axes": [-1], "input": "x"}, "mixup"])
    assert recipe.to_mapping()["augment"] == [
        {"name": "flip"},
        {"name": "crop", "input": "x", "axes": [-1], "padding": 2},
        {"name": "mixup", "alpha": 0.2},
    ]
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe


def test_verify_leaves_it_out_and_says_so() -> None:
    recipe, notes = comparable(Recipe(augment="flip"))
    assert recipe == Recipe() and notes == ("augmentation is left out: the two would draw different numbers",)


def _own(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, labels, reduction="none") ** 2


def test_every_target_and_mask_is_that_of_the_next_sample_in_the_other_loss() -> None:
    """Of losses with a mask, of several ones, and of the user's own."""
    graph = model()
    losses = [
        {"name": "cross_entropy", "mask": "counts"},
        {"name": "mse", "target": "wanted", "weight": 0.5},
        {"module": _own, "targets": {"labels": "i64[batch]"}},
    ]
    recipe = Recipe(loss=losses, augment={"name": "mixup", "alpha": 2}).bound(graph)
    x, wanted, labels = numbers(4, 1, 2, 3), numbers(4, 3)[::-1].copy(), np.array([0, 2, 1, 1])
    feeds = {"x": x, "wanted": wanted, "labels": labels, "counts": np.array([1, 0, 1, 0.5], np.float32)}
    step = train_graph(graph, recipe, resolve(recipe, graph))
    found = interp.evaluate(step, {**feeds, GENERATOR: np.array(5)})["loss"]
    changed_x, share = mixed_up(x, Draws(5), 2.0)
    scores = torch.from_numpy(changed_x.reshape(4, 6) @ graph.data["w"])
    expected = 0.0
    for part, turns in ((share, 0), (1 - share, -1)):
        mixed = {name: torch.from_numpy(np.roll(array, turns, 0)) for name, array in feeds.items()}
        plain = functional.cross_entropy(scores, mixed["labels"], reduction="none")
        total = (plain * mixed["counts"]).sum() / mixed["counts"].sum() + (plain**2).mean()
        expected += part * float(total + 0.5 * functional.mse_loss(scores, mixed["wanted"]))
    assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.skipif(EMULATOR is None, reason="qemu-user is not installed (Debian: qemu-user-static)")
def test_aarch64_trains_as_the_host_does(tmp_path: Path) -> None:
    recipe = Recipe(optimizer=SGD, augment=["flip", {"name": "crop", "padding": 1}, "noise", "mixup"])
    host, other = (compile(model(), recipe, target, 1).unpack() / "bin/model" for target in ("host", "raspberry-pi-4"))
    save_file({"x": numbers(9, 1, 2, 3), "labels": np.arange(9) % 3}, tmp_path / "data.safetensors")
    arguments = ("train", "--data", tmp_path / "data.safetensors", "--steps", "5", "--seed", "5")
    np.testing.assert_allclose(_train([str(EMULATOR), other], *arguments), _train([host], *arguments), rtol=1e-5)
