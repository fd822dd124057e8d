"""Masks of activations are kept as bits where frozen weights let gradients pass: steps are PyTorch's, on every kernel
that reads or writes them, and the bytes are an eighth of those of bools."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from pockengine import from_torch
from pockengine.compile import Request, compile, plan_programs
from pockengine.insight import explain
from pockengine.ir import DType, Graph, Value
from pockengine.plan.pipeline import PIPELINE, Pipeline
from pockengine.recipe import Recipe
from pockengine.targets import get
from pockengine.tune import Tuning
from tests.compiler.codegen.emulated import EMULATOR

BATCH, SIDE, CLASSES, STEPS, RATE = 4, 18, 5, 3, 0.3
ROWS, WIDE = 64, 512
BIASES = Recipe(optimizer={"name": "sgd", "lr": RATE}, update=[{"params": "*.bias"}])


class Images(nn.Module):
    """Convolutions of all families, with one bit (relu, relu6, hardtanh) or two (maximum) an activation."""

    def __init__(self, few: int, many: int) -> None:
        super().__init__()
        self.first, self.depth = nn.Conv2d(3, few, 3, padding=1), nn.Conv2d(few, few, 3, padding=1, groups=few)
        self.point, self.strided = nn.Conv2d(few, many, 1), nn.Conv2d(many, many, 3, padding=1, stride=2)
        self.taps, self.fc = nn.Conv2d(many, many, 3, padding=1), nn.Linear(many, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.point(F.relu6(self.depth(F.relu(self.first(x))))))
        h = F.hardtanh(self.strided(h), -0.5, 0.7)
        h = torch.maximum(self.taps(h), 0.3 * h)
        return self.fc(h.mean((2, 3)))


class Rows(nn.Module):
    """Masks that a norm's gradient reads, row by row, before its sums and after them."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(7, wide), nn.Linear(wide, wide), nn.Linear(wide, CLASSES)
        self.before, self.after = nn.LayerNorm(wide), nn.LayerNorm(wide)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.after(F.relu(F.relu(self.before(self.second(F.relu(self.first(x))))))))


def example(module: nn.Module) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    shape = (BATCH, 3, SIDE, SIDE) if isinstance(module, Images) else (ROWS, 7)
    return {"x": rng.standard_normal(shape).astype(np.float32), "labels": rng.integers(0, CLASSES, shape[0])}


def imported(module: nn.Module) -> Graph:
    return from_torch(module, (torch.from_numpy(example(module)["x"]),))


def bits(graph: Graph, threads: int = 2, pipeline: Pipeline = PIPELINE) -> list[Value]:
    train = plan_programs(Request(graph, BIASES, get("host"), threads, pipeline=pipeline)).programs["train"].graph
    return [value for node in train.nodes for value in node.outputs if value.type.dtype is DType.BIT]


def pytorch(module: nn.Module) -> list[float]:
    """Losses of the steps; the module is trained."""
    batch = {name: torch.from_numpy(array) for name, array in example(module).items()}
    trained = [p for name, p in module.named_parameters() if name.endswith("bias")]
    losses = []
    for _ in range(STEPS):
        loss = F.cross_entropy(module(batch["x"]), batch["labels"])
        for bias, gradient in zip(trained, torch.autograd.grad(loss, trained), strict=True):
            bias.data -= RATE * gradient
        losses.append(loss.item())
    return losses


def made(kind: type[nn.Module], *sizes: int) -> nn.Module:
    torch.manual_seed(1)
    return kind(*sizes)


@pytest.mark.parametrize(
    ("kind", "sizes", "threads", "expected"),
    (
        (Images, (8, 16), 1, True),
        (Images, (24, 40), 4, True),
        (Images, (32, 64), 2, True),
        (Images, (12, 20), 2, False),  # no whole bytes along the channels: bools are kept
        (Rows, (WIDE,), 3, True),
        (Rows, (328,), 2, True),
    ),
    ids=str,
)
def test_steps_are_pytorchs(kind: type[nn.Module], sizes: tuple[int, ...], threads: int, expected: bool) -> None:
    module = made(kind, *sizes)
    graph, batch = imported(module), example(module)
    assert bool(bits(graph, threads)) is expected
    session = compile(graph, BIASES, "host", threads).load()
    feed = {graph.inputs[0].name: batch["x"], "labels": batch["labels"]}
    np.testing.assert_allclose([session.step(feed) for _ in range(STEPS)], pytorch(module), rtol=2e-5)
    found = session.state()
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):
            np.testing.assert_allclose(found[name], parameter.detach().numpy(), rtol=1e-4, atol=2e-6)


def test_a_mask_takes_a_bit_an_element() -> None:
    graph = imported(made(Rows, WIDE))
    masks = bits(graph)
    assert sum(value.type.nbytes for value in masks) == len(masks) * ROWS * WIDE // 8 > 0
    planned = plan_programs(Request(graph, BIASES, get("host")))
    rows = explain(planned, Tuning())["masks"]
    assert [row["nbytes"] for row in rows] == [ROWS * WIDE // 8] * len(masks)
    assert {row["as_bools"] for row in rows} == {ROWS * WIDE}
    assert not bits(graph, pipeline=PIPELINE.without("masks_as_bits"))


@pytest.mark.skipif(EMULATOR is None, reason="qemu-user is not installed (Debian: qemu-user-static)")
def test_aarch64_trains_as_the_host_does(tmp_path: Path) -> None:
    module = made(Images, 24, 40)
    graph, batch = imported(module), example(module)
    save_file({graph.inputs[0].name: batch["x"], "labels": batch["labels"]}, tmp_path / "data.safetensors")
    model = compile(graph, BIASES, "raspberry-pi-4", 2).unpack() / "bin/model"
    command: list[str | Path] = [
        str(EMULATOR),
        model,
        "train",
        "--data",
        tmp_path / "data.safetensors",
        "--steps",
        str(STEPS),
    ]
    command += ["--no-shuffle", "--report", tmp_path / "report.json"]
    subprocess.run(command, check=True, timeout=300)
    found = json.loads((tmp_path / "report.json").read_text())["loss"]
    np.testing.assert_allclose(found, pytorch(module), rtol=2e-5)
