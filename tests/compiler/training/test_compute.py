"""Training with contractions in bf16: ten steps against PyTorch under autocast, and the same bytes and losses each
time. PyTorch also keeps what stands between two bf16 contractions in bf16, so agreement is that of bf16: a relative
2^-8 each number."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch.nn import functional as F

from pockengine.artifact import Artifact, model_command
from pockengine.compile import compile
from pockengine.ir import Array, DType, Graph, TensorType
from pockengine.recipe import SGD, Recipe
from pockengine.targets import get
from tests.compiler.codegen.emulated import EMULATOR
from tests.compiler.passes.networks import Net

BATCH, WIDTH, HIDDEN, CLASSES, STEPS = 32, 48, 80, 16, 10
LOSS_TOLERANCE = 1e-2
CHANGE_TOLERANCE = 3e-2
"""Of what ten steps changed in a weight, in Euclidean norm."""

DEVICE = "host" if "bf16" in get("host").formats else "snapdragon-8-gen-3"
"""What multiplies bf16: this machine, or one that the emulator stands for."""
pytestmark = pytest.mark.skipif(
    DEVICE != "host" and EMULATOR is None, reason="qemu-user is not installed (Debian: qemu-user-static)"
)


def network() -> Graph:
    """x [batch, width] -> logits [batch, classes]: three linear layers."""
    net = Net("perceptron", seed=5)
    x = net.builder.input("x", TensorType(DType.F32, (BATCH, WIDTH)))
    first = net.e.op("tanh", net.linear(x, "fc1", HIDDEN))
    second = net.e.op("tanh", net.linear(first, "fc2", HIDDEN))
    return net.finish(net.linear(second, "fc3", CLASSES))


def recipe() -> Recipe:
    return Recipe(optimizer=SGD(lr=0.05, momentum=0.9), update=({"params": "*"},), batch=BATCH)


def batch(step: int) -> dict[str, Array]:
    rng = np.random.default_rng(step)
    x = rng.standard_normal((BATCH, WIDTH)).astype(np.float32)
    return {"x": x, "labels": rng.integers(0, CLASSES, BATCH)}


def pytorch_training(graph: Graph) -> tuple[list[float], dict[str, Array]]:
    params = {value.name: torch.tensor(graph.data[value.name], requires_grad=True) for value in graph.params}
    optimizer = torch.optim.SGD(params.values(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(STEPS):
        feed = {name: torch.from_numpy(array) for name, array in batch(step).items()}
        with torch.autocast("cpu", torch.bfloat16):
            x = feed["x"]
            for layer in ("fc1", "fc2", "fc3"):
                x = F.linear(x, params[f"{layer}.weight"], params[f"{layer}.bias"])
                x = x if layer == "fc3" else torch.tanh(x)
            loss = F.cross_entropy(x.float(), feed["labels"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, {name: tensor.detach().numpy() for name, tensor in params.items()}


def trained(artifact: Artifact, folder: Path) -> tuple[list[float], dict[str, Array]]:
    """Losses and weights of the steps, by the artifact's own program."""
    folder.mkdir()
    samples = [batch(step) for step in range(STEPS)]
    data, report, saved = (folder / name for name in ("data", "report", "saved"))
    save_file({name: np.concatenate([one[name] for one in samples]) for name in ("x", "labels")}, data)
    artifact.save(folder / "net.pock")
    command = model_command(folder / "net.pock", "train", ["--data", str(data), "--no-shuffle"])
    options = ["--steps", str(STEPS), "--report", str(report), "--save", str(saved)]
    subprocess.run([*command, *options], check=True, timeout=300)
    return json.loads(report.read_text())["loss"], load_file(saved)


def test_ten_steps_as_pytorch_under_autocast(tmp_path: Path) -> None:
    graph = network()
    artifact = compile(graph, recipe(), DEVICE, compute="bf16")
    assert artifact.summary["compute"] == "bf16" and artifact.manifest.target["compute"] == "bf16"
    losses, found = trained(artifact, tmp_path / "bf16")
    wanted, tensors = pytorch_training(graph)
    np.testing.assert_allclose(losses, wanted, rtol=LOSS_TOLERANCE)
    for name, tensor in found.items():
        moved = float(np.linalg.norm(tensors[name] - graph.data[name]))
        assert np.linalg.norm(tensor - tensors[name]) <= CHANGE_TOLERANCE * moved, name
    exact, _ = trained(compile(graph, recipe(), DEVICE), tmp_path / "f32")
    assert losses != exact, "contractions did not round"


def test_builds_and_runs_repeat(tmp_path: Path) -> None:
    first, second = (compile(network(), recipe(), DEVICE, compute="bf16") for _ in range(2))
    first.save(tmp_path / "first.pock")
    second.save(tmp_path / "second.pock")
    assert (tmp_path / "first.pock").read_bytes() == (tmp_path / "second.pock").read_bytes()
    (losses, found), (again, other) = (trained(one, tmp_path / name) for name, one in (("a", first), ("b", second)))
    assert losses == again
    for name in found:
        np.testing.assert_array_equal(found[name], other[name])
