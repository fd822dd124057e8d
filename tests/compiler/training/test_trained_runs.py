"""Trained weights in bf16 as the executable keeps them: saved, loaded, resumed, averaged, exported."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pockengine.artifact import Artifact
from pockengine.compile import compile
from pockengine.errors import DataError
from pockengine.ir import Array
from pockengine.recipe import Recipe

from .networks import BATCH, TIED
from .test_state8 import batch, data, network

ROUNDED = ml_dtypes.bfloat16
BF16 = {"weights": "bf16"}
ADAMW = {"name": "adamw", "lr": 2e-3, "state": "int8"}
DECAY = 0.9


@cache
def built(threads: int = 1, **keys: Any) -> Artifact:
    return compile(network(), Recipe(optimizer=ADAMW, trained=BF16, **keys), threads=threads)


def tensors(path: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = load_file(path)
    return found


def ran(artifact: Artifact, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    executable = artifact.unpack() / artifact.manifest.entry_points.executable
    return subprocess.run([str(executable), *map(str, arguments)], capture_output=True, text=True, timeout=300)


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    save_file({name: torch.from_numpy(array) for name, array in data().items()}, tmp_path / "data.safetensors")
    return tmp_path / "data.safetensors"


def test_threads_do_not_change_a_bit() -> None:
    found = []
    for threads in (1, 4):
        with built(4).load(threads) as session:
            losses = [session.step(batch(step)) for step in range(6)]
            found.append((losses, {**session.state(), **session.optimizer_state()}))
    assert found[0][0] == found[1][0]
    for name, tensor in found[0][1].items():
        np.testing.assert_array_equal(found[1][1][name], tensor, name)


def test_resuming_is_bit_identical(samples: Path, tmp_path: Path) -> None:
    artifact = built(accumulate=2, ema=DECAY)

    def train(*arguments: str | Path) -> list[float]:
        done = ran(artifact, "train", "--data", samples, *arguments)
        assert done.returncode == 0, done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [event["loss"] for event in events if event["event"] == "step"]

    whole, resumed, checkpoint = (tmp_path / f"{name}.safetensors" for name in ("whole", "resumed", "checkpoint"))
    wanted = train("--steps", "9", "--save", whole, "--seed", "3")
    first = train("--steps", "4", "--checkpoint", checkpoint, "--checkpoint-every", "4", "--seed", "3")
    assert first + train("--steps", "9", "--resume", checkpoint, "--save", resumed) == wanted
    assert tensors(checkpoint)["fc.weight"].dtype is torch.bfloat16
    for name, tensor in tensors(whole).items():
        assert torch.equal(tensors(resumed)[name], tensor), name
    other = train("--steps", "9", "--seed", "4", "--save", resumed)
    assert other != wanted and not torch.equal(tensors(resumed)["fc.weight"], tensors(whole)["fc.weight"])


@pytest.mark.parametrize("backend", ["c", "reference", "emulated"])
def test_averages_are_f32_and_saved_rounded(backend: str, tmp_path: Path) -> None:
    """Of what lies in memory after each step. They start with the weights, and again with loaded ones."""
    recipe = Recipe(optimizer={"name": "adamw", "lr": 0.01}, trained={**BF16, "params": "*.weight"}, ema=DECAY)
    with compile(TIED.build(BATCH), recipe, threads=1, backend=backend).load() as session:
        averages = {name: tensor.astype(np.float32) for name, tensor in session.state().items()}
        for name, average in averages.items():
            np.testing.assert_array_equal(session.optimizer_state()[f"{name}.ema"], average)
        for step in range(7):
            session.step(TIED.batch(step))
            for name, tensor in session.state().items():
                averages[name] = np.float32(DECAY) * averages[name] + np.float32(1 - DECAY) * tensor.astype(np.float32)
        states, weights = session.optimizer_state(), session.state()
        for name, average in averages.items():
            assert states[f"{name}.ema"].dtype == np.float32
            np.testing.assert_allclose(states[f"{name}.ema"], average, atol=1e-6)
        session.save(tmp_path / "saved.safetensors")
        saved = tensors(tmp_path / "saved.safetensors")
        for name, tensor in weights.items():
            assert saved[name].dtype is (torch.bfloat16 if tensor.dtype == ROUNDED else torch.float32)
            rounded = states[f"{name}.ema"].astype(tensor.dtype)
            np.testing.assert_array_equal(saved[name].float().numpy(), rounded.astype(np.float32), name)
            assert (rounded != tensor).any()
        session.load(tmp_path / "saved.safetensors")
        for name, one in saved.items():
            np.testing.assert_array_equal(session.optimizer_state()[f"{name}.ema"], one.float().numpy(), name)
        expected = session.predict({"x": TIED.batch(0)["x"]})["logits"]
        loaded = {name: one.float() for name, one in saved.items()}
        found = TIED.forward(loaded, torch.from_numpy(TIED.batch(0)["x"]))
        np.testing.assert_allclose(expected, found.numpy(), rtol=1e-4, atol=1e-5)


def test_pieces_of_large_averages(samples: Path, tmp_path: Path) -> None:
    """All of them, and those that training changes alone: what lies before one in a file is counted."""
    recipe = Recipe(optimizer=ADAMW, trained=BF16, ema=DECAY, update=[{"params": "conv.*"}, {"params": "last.*"}])
    artifact = compile(network(), recipe, threads=1)
    everything, trained, checkpoint = (tmp_path / f"{name}.safetensors" for name in ("all", "trained", "checkpoint"))
    steps = ("train", "--data", samples, "--steps", "3", "--no-shuffle")
    done = ran(artifact, *steps, "--save", everything, "--checkpoint", checkpoint, "--checkpoint-every", "3")
    done = done if done.returncode else ran(artifact, *steps, "--save-trained", trained)
    assert done.returncode == 0, done.stderr
    kept = tensors(checkpoint)
    assert tensors(trained).keys() == {"conv.weight", "last.weight"} < tensors(everything).keys()
    for name, tensor in tensors(everything).items():
        average = kept.get(f"{name}.ema")
        if average is not None:
            assert torch.equal(tensors(trained)[name], average.to(tensor.dtype))
            assert torch.equal(tensor, average.to(tensor.dtype)), name
    assert tensors(everything)["conv.weight"].dtype is torch.bfloat16


def test_whoever_gives_weights_gives_them_in_bf16(samples: Path, tmp_path: Path) -> None:
    artifact, weights = built(), tmp_path / "weights.safetensors"
    with artifact.load() as session:
        first: Array = session.tensor("fc.weight")
        assert first.dtype == ROUNDED
        with pytest.raises(DataError, match="'fc.weight' is bfloat16.128, 128., not float32.128, 128."):
            session.set_tensor("fc.weight", first.astype(np.float32))
        session.set_tensor("fc.weight", -first)
        np.testing.assert_array_equal(session.tensor("fc.weight"), -first)
        session.save(weights)
    done = ran(artifact, "train", "--data", samples, "--steps", "1", "--load", weights)
    assert done.returncode == 0, done.stderr
    save_file({name: one.float() for name, one in tensors(weights).items()}, tmp_path / "wide.safetensors")
    done = ran(artifact, "train", "--data", samples, "--steps", "1", "--load", tmp_path / "wide.safetensors")
    assert done.returncode == 3 and "wide.safetensors is F32, the model needs BF16" in done.stderr


def test_export_writes_the_types_of_the_model(tmp_path: Path) -> None:
    artifact, weights = built(), tmp_path / "weights.safetensors"
    with artifact.load() as session:
        session.step(batch(0))
        session.save(weights)
    artifact.export(tmp_path / "model.safetensors", weights=weights)
    exported = tensors(tmp_path / "model.safetensors")
    assert {one.dtype for one in exported.values()} == {torch.float32}
    for name, tensor in tensors(weights).items():
        assert torch.equal(exported[name], tensor.float()), name
