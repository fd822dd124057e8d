"""Frozen weights lie in memory as panels; whoever asks for them gets the original."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from pockengine.compile import Request, compile, plan_programs
from pockengine.errors import DataError
from pockengine.ir import Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.codegen.emulated import EMULATOR

BATCH = 2
SHAPES = {
    "stem.weight": (32, 8, 3, 3),
    "grouped.weight": (64, 16, 3, 3),
    "point.weight": (80, 64, 1, 1),
    "fc.weight": (4, 80),
}
RECIPE = Recipe(optimizer={"name": "sgd", "lr": 0.1}, update=[{"params": "fc.*"}])


def _weights(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: (0.2 * rng.standard_normal(shape)).astype(np.float32) for name, shape in SHAPES.items()}


def _graph() -> Graph:
    builder = Builder("frozen")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (BATCH, 8, 9, 9)))
    p = {name: builder.param(name, TensorType(DType.F32, array.shape), array) for name, array in _weights().items()}
    attrs = {"stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "layout": "NCHW"}
    h = e.op("tanh", e.op("conv2d", x, p["stem.weight"], groups=1, **attrs))
    h = e.op("tanh", e.op("conv2d", h, p["grouped.weight"], groups=2, **attrs))
    h = e.op("tanh", e.op("conv2d", h, p["point.weight"], groups=1, **{**attrs, "pad": (0, 0, 0, 0)}))
    pooled = e.reshape(e.mean(h, (2, 3)), (BATCH, 80))
    builder.outputs = {"logits": e.matmul(pooled, e.transpose(p["fc.weight"], (1, 0)))}
    return builder.finish()


def _logits(p: dict[str, Tensor], x: Tensor) -> Tensor:
    h = torch.tanh(F.conv2d(x, p["stem.weight"], padding=1))
    h = torch.tanh(F.conv2d(h, p["grouped.weight"], padding=1, groups=2))
    return F.linear(torch.tanh(F.conv2d(h, p["point.weight"])).mean((2, 3)), p["fc.weight"])


def _batch() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {"x": rng.standard_normal((BATCH, 8, 9, 9)).astype(np.float32), "labels": rng.integers(0, 4, BATCH)}


def _tensors(weights: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array.copy()) for name, array in weights.items()}


def test_frozen_weights_are_packed_once() -> None:
    planned = plan_programs(Request(_graph(), RECIPE, get("host"), 2))
    assert {"grouped.weight", "point.weight"} <= set(planned.packed) <= set(SHAPES) - {"fc.weight"}
    for program in planned.programs.values():
        for step in program.steps:
            if any(value.name in planned.packed for value in step.node.inputs):
                assert not any("k_pack" in call.kernel.symbol for call in step.lowered.calls)


def test_everyone_gets_the_original(tmp_path: Path) -> None:
    artifact = compile(_graph(), RECIPE, "host", 2)
    again = compile(_graph(), RECIPE, "host", 2)
    artifact.save(tmp_path / "a.pock")
    again.save(tmp_path / "b.pock")
    assert (tmp_path / "a.pock").read_bytes() == (tmp_path / "b.pock").read_bytes()
    session, weights, batch = artifact.load(), _weights(), _batch()
    torch.set_num_threads(1)
    leaf = _tensors(weights)
    leaf["fc.weight"].requires_grad_()
    for _ in range(3):
        loss = F.cross_entropy(_logits(leaf, torch.from_numpy(batch["x"])), torch.from_numpy(batch["labels"]))
        loss.backward()
        assert abs(session.step(batch) - loss.item()) < 1e-5 * abs(loss.item())
        with torch.no_grad():
            gradient = leaf["fc.weight"].grad
            assert gradient is not None
            leaf["fc.weight"] -= 0.1 * gradient
        leaf["fc.weight"].grad = None
    session.save(tmp_path / "saved.safetensors")
    saved = load_file(tmp_path / "saved.safetensors")
    for name in set(SHAPES) - {"fc.weight"}:
        np.testing.assert_array_equal(session.state()[name], weights[name])
        np.testing.assert_array_equal(saved[name], weights[name])
    before = session.predict(batch)["logits"]
    session.set_tensor("grouped.weight", weights["grouped.weight"])
    with pytest.raises(DataError, match="differs from the one compiled in"):
        session.set_tensor("grouped.weight", _weights(1)["grouped.weight"])
    save_file({"point.weight": weights["point.weight"]}, tmp_path / "same.safetensors")
    session.load(tmp_path / "same.safetensors")
    np.testing.assert_array_equal(session.predict(batch)["logits"], before)
    now = {name: session.state()[name] for name in SHAPES}
    expected = _logits(_tensors(now), torch.from_numpy(batch["x"])).numpy()
    np.testing.assert_allclose(before, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(EMULATOR is None, reason="qemu-user is not installed (Debian: qemu-user-static)")
def test_aarch64_gives_the_hosts_loss(tmp_path: Path) -> None:
    assert plan_programs(Request(_graph(), RECIPE, get("raspberry-pi-4"))).packed
    model, batch = compile(_graph(), RECIPE, "raspberry-pi-4").unpack() / "bin/model", _batch()
    save_file(batch, tmp_path / "data.safetensors")
    paths = {name: tmp_path / name for name in ("report", "saved")}
    options: list[str | Path] = ["--steps", "1", "--no-shuffle", "--report", paths["report"], "--save", paths["saved"]]
    subprocess.run([str(EMULATOR), model, "train", "--data", tmp_path / "data.safetensors", *options], check=True)
    logits = _logits(_tensors(_weights()), torch.from_numpy(batch["x"]))
    expected = F.cross_entropy(logits, torch.from_numpy(batch["labels"])).item()
    assert json.loads(paths["report"].read_text())["loss"][0] == pytest.approx(expected, rel=1e-4)
    np.testing.assert_array_equal(load_file(paths["saved"])["point.weight"], _weights()["point.weight"])


def test_the_executable_saves_and_resumes(tmp_path: Path) -> None:
    artifact, batch = compile(_graph(), RECIPE, "host", 2), _batch()
    data = {"x": np.concatenate([batch["x"]] * 3), "labels": np.concatenate([batch["labels"]] * 3)}
    save_file(data, tmp_path / "data.safetensors")
    model = artifact.unpack() / artifact.manifest.entry_points.executable

    def train(steps: int, *options: object) -> dict[str, np.ndarray]:
        save = tmp_path / "w.safetensors"
        given = ["train", "--data", tmp_path / "data.safetensors", "--steps", steps, "--save", save, *options]
        subprocess.run([str(model), *map(str, given)], check=True, capture_output=True)
        return load_file(save)

    whole = train(4)
    checkpoint = tmp_path / "c.ckpt"
    train(2, "--checkpoint", checkpoint, "--checkpoint-every", 1)
    resumed = train(4, "--resume", checkpoint)
    for name, array in _weights().items():
        np.testing.assert_array_equal(whole[name], resumed[name])
        if name != "fc.weight":
            np.testing.assert_array_equal(whole[name], array)
