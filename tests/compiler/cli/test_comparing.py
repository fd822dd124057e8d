"""`pock check --compare`: named schemes and recipes beside each other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.compiler.cli.command import pock
from tests.compiler.frontends.onnx_models import model, save


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Two linear layers without biases in the first one, and a recipe."""
    folder, rng = tmp_path_factory.mktemp("compare"), np.random.default_rng(0)
    weights = {"fc1.weight": (64, 32), "fc2.weight": (5, 64), "fc2.bias": (5,)}
    nodes = [
        helper.make_node("Gemm", ["x", "fc1.weight"], ["h"], name="fc1", transB=1),
        helper.make_node("Relu", ["h"], ["a"], name="act"),
        helper.make_node("Gemm", ["a", "fc2.weight", "fc2.bias"], ["logits"], name="fc2", transB=1),
    ]
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in weights.items()}
    save(model(nodes, {"x": (np.float32, ["batch", 32])}, ["logits"], arrays), folder / "net.onnx")
    (folder / "base.yaml").write_text("loss: cross_entropy\noptimizer: adamw\nbatch: 8\nupdate: head\n")
    (folder / "half.yaml").write_text(
        "loss: cross_entropy\noptimizer: adamw\nbatch: 8\nupdate: [{params: fc1.weight, channels: 0.5}]\n"
    )
    return folder


@pytest.fixture
def run(capsys, monkeypatch):
    return lambda *arguments: pock("check", *arguments, capsys=capsys, monkeypatch=monkeypatch)


def test_as_an_object(files: Path, run) -> None:
    compare = f"full,bias,last2,half={files / 'half.yaml'}"
    code, out, err = run(files / "net.onnx", "--recipe", files / "base.yaml", "--compare", compare, "--json")
    assert (code, err) == (0, "")
    recipes = json.loads(out)["recipes"]
    trained = {name: found["trained_parameters"] for name, found in recipes.items()}
    assert trained == {"full": 64 * 32 + 5 * 64 + 5, "bias": 5, "last2": 5 * 64 + 5, "half": 64 * 16}
    assert recipes["bias"]["predicted_peak_bytes"] < recipes["full"]["predicted_peak_bytes"]


def test_the_estimates_are_those_of_the_recipes_alone(files: Path, run) -> None:
    _, out, _ = run(files / "net.onnx", "--recipe", files / "half.yaml", "--json")
    alone = json.loads(out)["estimate"]
    _, out, _ = run(files / "net.onnx", "--compare", f"x={files / 'half.yaml'}", "--batch", 8, "--json")
    assert json.loads(out)["recipes"]["x"] == alone


def test_for_a_person(files: Path, run) -> None:
    code, out, err = run(files / "net.onnx", "--batch", 8, "--compare", "full, head,last9")
    assert (code, err) == (0, "")
    assert "the head" in out and "last9" in out and "raspberry-pi-4" in out


@pytest.mark.parametrize(
    ("compare", "sentence"),
    [
        ("fool", "no scheme is called 'fool' (did you mean 'full'?); of a recipe, say NAME=RECIPE.yaml"),
        ("last0", "no scheme is called 'last0'"),
        ("last9999999999", "no scheme is called 'last9999999999'"),
        ("full,full", "--compare has 'full' twice"),
        ("full,,bias", "--compare takes names of schemes and NAME=RECIPE.yaml"),
        ("x=", "--compare takes names of schemes and NAME=RECIPE.yaml"),
        ("x=none.yaml", "there is no recipe 'none.yaml'"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(files: Path, run, compare: str, sentence: str) -> None:
    code, out, err = run(files / "net.onnx", "--batch", 8, "--compare", compare)
    assert (code, out) == (2, "") and err.count("\n") == 1 and sentence in err


def test_a_scheme_that_does_not_fit_the_model_is_left_out_with_its_reason(files: Path, run) -> None:
    (files / "other.yaml").write_text("loss: cross_entropy\noptimizer: sgd\nupdate: [{params: conv.weight}]\n")
    code, out, _ = run(files / "net.onnx", "--batch", 8, "--compare", f"full,other={files / 'other.yaml'}", "--json")
    assert code == 0
    assert "matches no parameter" in json.loads(out)["recipes"]["other"]["error"]
