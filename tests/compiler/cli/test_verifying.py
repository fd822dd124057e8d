"""`pock verify` as a person or a script meets it: a model, its module, a dataset, faults, and mistakes."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import torch
from safetensors.numpy import save_file
from torch import Tensor, nn

from pockengine.ops import registry
from tests.compiler.cli.command import pock

Run = Callable[..., Any]

RECIPE = "loss: cross_entropy\noptimizer: {name: sgd, lr: 0.1}\nupdate: full\n"
FACTORIES = """
import torch
from tests.compiler.cli.test_verifying import Net
from tests.compiler.verify.test_verify import Doubled, Pooled

def make():
    torch.manual_seed(0)
    return Net(), {"x": torch.randn(4, 6)}

def stopped():
    torch.manual_seed(0)
    return Net(stop=True), (torch.randn(2, 6),)

def other():
    torch.manual_seed(1)
    return Net()

def nothing():
    return 3

def pooled():
    return Pooled(), (torch.randn(4, 5, 6), torch.tensor([2, 3]))

def jax():
    import jax

    weights = jax.random.normal(jax.random.key(0), (6, 3))
    return lambda params, x: jax.numpy.tanh(x @ params["w"]), {"w": weights}, (jax.numpy.ones((4, 6)),)

def keras():
    import keras

    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((6,), name="x"), keras.layers.Dense(3, activation="tanh")], name="net")

RULES = {Doubled: lambda x: 2.0 * x}
"""


class Net(nn.Module):
    """Two layers; between them, what passes no gradient if `stop`."""

    def __init__(self, stop: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.stop = nn.Linear(6, 8), nn.Linear(8, 3), stop

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return self.second(torch.tanh(h) + (h.detach() if self.stop else h) * 0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module's file, recipe, dataset, and the Python that makes the module."""
    folder = tmp_path_factory.mktemp("verify")
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "factories.py").write_text(FACTORIES)
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((6, 6)).astype(np.float32), rng.integers(0, 3, 6)
    save_file({"x": x, "labels": labels}, folder / "data.safetensors")
    torch.manual_seed(0)
    options: dict[str, Any] = {"dynamo": True, "optimize": False, "external_data": False, "verbose": False}
    torch.onnx.export(Net().eval(), (torch.randn(4, 6),), folder / "net.onnx", input_names=["x"], **options)
    return folder


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)
    arguments = ("verify", "--recipe", "recipe.yaml", "--steps", "2")
    return lambda *more: pock(*arguments, *more, capsys=capsys, monkeypatch=monkeypatch)


def test_a_module_alone(run: Run) -> None:
    code, out, _ = run("--torch", "factories:make")
    assert code == 0
    assert "Net trains as PyTorch does: 2 steps, 4 tensors" in out
    assert out.count("same") == 2 + 2 * 4


def test_a_file_against_its_module_and_a_dataset(run: Run) -> None:
    code, out, _ = run("net.onnx", "--torch", "factories:make", "--data", "data.safetensors", "--json")
    found = json.loads(out)
    assert (code, found["agrees"], found["steps"]) == (0, True, 2)
    assert {change["name"] for change in found["changes"]} == {
        f"{a}.{b}" for a in ("first", "second") for b in ("weight", "bias")
    }


def test_a_file_that_lost_a_detach(run: Run) -> None:
    code, out, _ = run("net.onnx", "--torch", "factories:stopped")
    assert code == 1
    assert "Net does not train as PyTorch does" in out and "'first.weight', 'first.bias'" in out
    assert "backward part, at the gradient of 'mul' (test_verifying.py, line" in out


def test_a_file_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run("net.onnx")
    assert code == 0
    assert "compared with those of onnxruntime" in out and "--torch can tell" in out
    record = registry.get("tanh")
    rule = record.vjps[0]
    assert rule is not None
    wrong = dataclasses.replace(record, vjps=(lambda e, n, d: e.mul(rule(e, n, d), 1.1),))
    monkeypatch.setitem(registry._REGISTRY, "tanh", wrong)
    code, out, _ = run("net.onnx")
    assert code == 1
    assert "not the slopes of the loss, by finite differences: 'first.weight', 'first.bias'" in out


@pytest.mark.large
def test_a_function_of_jax_and_a_model_of_keras(run: Run) -> None:
    code, out, _ = run("--jax", "factories:jax")
    assert (code, "trains as JAX does: 2 steps, 1 tensors" in out, "loss by JAX" in out) == (0, True, True)
    code, out, _ = run("--keras", "factories:keras", "--batch", "4")
    assert (code, "net trains as Keras does: 2 steps, 2 tensors" in out) == (0, True)


def test_a_module_that_needs_more_than_examples(run: Run) -> None:
    code, out, _ = run("--torch", "factories:pooled", "--fixed", "lengths", "--functions", "factories:RULES")
    assert code == 0
    assert "Pooled trains as PyTorch does" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["an ONNX model", "(--torch)", "(--jax)", "(--keras)"]),
        (("--torch", "factories:make", "--jax", "factories:jax"), ["one of --torch, --jax and --keras"]),
        (("net.onnx", "--jax", "factories:jax"), ["with a PyTorch module", "leave the file out"]),
        (("--jax", "factories:jax", "--fixed", "x"), ["PyTorch modules alone"]),
        (("--jax", "factories:nothing"), ["'factories:nothing' makes int", "(function, parameters, arguments)"]),
        (("--keras", "factories:nothing"), ["'factories:nothing' makes int", "(model, arguments)"]),
        (("net.onnx", "--torch", "factories:other"), ["different contents of 'first.", "weights that were exported"]),
        (("--torch", "factories:nothing"), ["'factories:nothing' makes int", "(module, arguments)"]),
        (("--torch", "factories:made"), ["'factories' has no 'made'"]),
        (("--torch", "factories"), ["--torch must name a function"]),
        (("net.onnx", "--torch", "factories:make", "--fixed", "x"), ["--fixed", "imported already"]),
        (("--torch", "factories:make", "--fixed", "y"), ["no argument 'y' to be fixed"]),
        (("--torch", "factories:make", "--functions", "factories:make"), ["--functions takes a mapping"]),
        (("net.onnx", "--data", "none.safetensors"), ["no dataset 'none.safetensors'"]),
    ],
)
def test_mistakes(run: Run, arguments: tuple[str, ...], words: list[str]) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert [word for word in words if word not in err] == []
