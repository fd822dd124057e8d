"""Frozen weights in block-quantised integers, against PyTorch with the numbers that they stand for."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load, load_file, save_file
from torch import nn
from torch.nn import functional

from pockengine.artifact import Artifact
from pockengine.autodiff import Quantised, quantised
from pockengine.check import check
from pockengine.compile import Request, Scope, compile, plan_programs, summary
from pockengine.errors import DataError, ModelError, RecipeError
from pockengine.frontends import from_torch
from pockengine.insight import explain
from pockengine.ops.quantised import DEQUANTIZE, BlockFormat, quantize
from pockengine.recipe import Recipe, resolve
from pockengine.targets import get
from pockengine.tune import Tuning
from tests.compiler.training import lora_models
from tests.compiler.training.frozen_models import BATCHES, CLASSES, graph, replace, restored, train, transformer
from tests.compiler.training.test_lora import graph as mixed_graph
from tests.sweeps import some

SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
LAST = [{"params": "head.*"}, {"params": "blocks.0.first.*"}]
FORMATS = [one.value for one in BlockFormat]
MATRICES = [f"blocks.{i}.{name}.weight" for i in (0, 1) for name in ("query", "key", "value", "out", "up", "down")]


def built(weights: str, **keys: Any) -> Artifact:
    return compile(graph(), Recipe(optimizer=SGD, frozen={"weights": weights}, **keys))


def test_weights_are_quantised_once_until_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    model, recipe, calls = graph(), Recipe(optimizer=SGD, update=LAST, frozen={"weights": "int8"}), []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return quantize(*arguments)

    monkeypatch.setattr(quantised, "quantize", counted)
    scheme = resolve(recipe, model)
    assert recipe.frozen is not None
    for _ in range(2):
        changed, _ = quantised.with_quantised(model, recipe.frozen, scheme)
    first = len(calls)
    name, weight = "blocks.0.up.weight", model.data["blocks.0.up.weight"]
    before = changed.data[f"{name}.int8"].copy()
    model = model.with_(data={**model.data, name: weight.copy()})
    quantised.with_quantised(model, recipe.frozen, scheme)
    assert len(calls) == first + 1
    model.data[name][:] *= -1
    changed, _ = quantised.with_quantised(model, recipe.frozen, scheme)
    assert len(calls) == first + 2
    np.testing.assert_array_equal(changed.data[f"{name}.int8"], -before)


@pytest.mark.parametrize("weights", FORMATS)
def test_ten_steps_of_the_last_layer_and_an_early_norm(weights: str) -> None:
    """The norm of the first block needs the gradient through every matrix after it."""
    artifact, module = built(weights, update=LAST), transformer()
    with artifact.load() as session:
        tensors = session.state()
        replace(module, restored(artifact, tensors))
        predicted = session.predict({"token": BATCHES[0]["token"]})["output"]
        with torch.no_grad():
            expected = module(torch.from_numpy(BATCHES[0]["token"])).numpy()
        np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-5)
        losses = [session.step(feeds) for feeds in BATCHES]
        found = session.state()
    assert sorted(artifact.manifest.summary["quantised"]) == sorted(MATRICES)
    np.testing.assert_allclose(
        losses, train(module, lambda name: name.startswith(("head", "blocks.0.first"))), rtol=1e-4
    )
    np.testing.assert_allclose(found["head.weight"], module.head.weight.detach().numpy(), rtol=1e-3, atol=1e-4)
    for name in tensors:
        if name.endswith((f".{weights}", ".scales")):
            np.testing.assert_array_equal(found[name], tensors[name])


@pytest.mark.parametrize("weights", FORMATS)
def test_ten_steps_of_adapters_beside_quantised_weights(weights: str) -> None:
    artifact, module = built(weights, lora={"params": ["*.query", "*.value", "*.down"], "rank": 3}), transformer()
    with artifact.load() as session:
        initial = session.state()
        replace(module, restored(artifact, initial))
        losses = [session.step(feeds) for feeds in BATCHES]
        found = session.state()
    lora_models.adapt(module, initial, 16)
    np.testing.assert_allclose(losses, train(module, lambda name: ".lora_" in name), rtol=1e-4)
    expected = module.get_parameter("blocks.0.query.lora_B.weight").detach().numpy()
    np.testing.assert_allclose(found["blocks.0.query.lora_B.weight"], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("format", ["int4", "fp8"])
def test_convolutions_tables_and_matrices_stored_the_other_way(format: str) -> None:
    """Named weights of any size: 3x3 with stride, 1x1, of one axis, `[in, out]`, a layer used twice, a table."""
    recipe = Recipe(
        optimizer={"name": "sgd", "lr": 0.02, "momentum": 0.9},
        update=[{"params": "conv.bias"}, {"params": "head.*"}],
        frozen={"weights": format, "block": 16, "params": "*"},
    )
    artifact, module = compile(mixed_graph(), recipe), lora_models.mixed()
    batches = [lora_models.batch(seed) for seed in range(10)]
    with artifact.load() as session:
        weights = restored(artifact, session.state())
        losses = [session.step(feeds) for feeds in batches]
    names = ("conv", "pointwise", "signal", "wide", "shared", "table")
    assert sorted(weights) == sorted(f"{name}.weight" for name in names)
    replace(module, weights)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name in ("conv.bias", "head.weight", "head.bias"))
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.02, momentum=0.9)
    np.testing.assert_allclose(losses, lora_models.train(module, optimizer, batches), rtol=1e-4)


@pytest.mark.parametrize("weights, share", [("int8", 1 / 4), ("int4", 1 / 8), ("fp8", 1 / 4)])
def test_memory_and_error_are_those_reported(weights: str, share: float) -> None:
    """Beside the codes there is one bf16 scale for 32 numbers; rows of 144 and 200 are padded to 160 and 224."""
    host = get("host")
    recipe = Recipe(update=LAST)
    full = summary(plan_programs(Request(graph(), recipe, host)), kernels=0)
    planned = plan_programs(Request(graph(), recipe.with_(frozen={"weights": weights}), host))
    small = summary(planned, kernels=0)
    numbers = 2 * (4 * 144 * 144 + 2 * 144 * 200)
    padded = 2 * (4 * 144 * 160 + 200 * 160 + 144 * 224)
    saved = 4 * numbers - padded * (share * 4 + 2 / 32)
    assert full["param_bytes"] - small["param_bytes"] == pytest.approx(saved, abs=64 * 24)
    assert small["parameters"] == full["parameters"] and small["trained_parameters"] == full["trained_parameters"]
    module = dict(transformer().named_parameters())
    errors = []
    for name, how in small["quantised"].items():
        weight = module[name].detach().numpy()
        lost = next(one for one in planned.quantised if one.name == name).restored(planned.model.data) - weight
        errors.append(np.linalg.norm(lost) / np.linalg.norm(weight))
        assert how["relative_rms_error"] == pytest.approx(errors[-1], rel=1e-4)
    assert small["quantised_error_worst"] == pytest.approx(max(errors), rel=1e-4)
    assert small["quantised_error_mean"] == pytest.approx(np.mean(errors), rel=1e-4)
    explained = explain(planned, Tuning())["quantised"]
    assert [(row["name"], row["relative_rms_error"]) for row in explained] == [
        (name, how["relative_rms_error"]) for name, how in small["quantised"].items()
    ]
    assert sum(row["nbytes"] for row in explained) == padded * share * 4 + padded * 2 / 32
    assert small["quantised_error_worst"] < {"int8": 0.006, "int4": 0.11, "fp8": 0.03}[weights]
    alone = [step.node for program in planned.programs.values() for step in program.steps if step.node.op == DEQUANTIZE]
    assert not alone, "a weight is decompressed whole"


def test_the_artifact_holds_the_packed_weights_only() -> None:
    artifact = built("int4", update=LAST)
    rows = {tensor.name: tensor for tensor in artifact.manifest.tensors}
    stored = load(artifact.read("params.safetensors"))
    assert stored.keys() == {name for name, row in rows.items() if row.role == "param"}
    assert "blocks.0.up.weight" not in stored
    row = rows["blocks.0.up.weight.int4"]
    assert (row.dtype, row.shape, row.nbytes, row.trained) == ("u8", (200, 80), 16000, "frozen")
    assert rows["blocks.0.up.weight.scales"].shape == (200, 5)
    kinds = {node["op"] for program in artifact.manifest.programs.values() for node in program["nodes"]}
    assert "matmul" in kinds and DEQUANTIZE not in kinds


def test_check_reports_bytes_and_errors() -> None:
    recipe = Recipe(optimizer=SGD, update=LAST, frozen={"weights": "int4"})
    report = check(graph(), recipe).to_mapping()
    compiled = compile(graph(), recipe).summary
    for key in ("param_bytes", "arena_bytes", "predicted_peak_bytes", "quantised", "quantised_error_worst"):
        assert report["estimate"][key] == compiled[key]
    assert "quantised" not in report["recipes"]["head"]


def test_how_a_weight_is_stored_is_said_by_format_and_bits() -> None:
    """Artifacts of 0.1 say bits alone."""
    artifact = built("int4", update=LAST)
    name, how = next(iter(artifact.manifest.summary["quantised"].items()))
    assert (how["format"], how["bits"]) == ("int4", 4)
    older = {key: value for key, value in how.items() if key != "format"}
    assert Quantised.of(name, older) == Quantised.of(name, how)
    with pytest.raises(ModelError, match="'int9' is no format of quantised weights: int8, int4, fp8 are"):
        Quantised.of(name, {**how, "format": "int9"})


@pytest.mark.parametrize("format", ["int4", "fp8"])
def test_export_gives_the_weights_in_full(format: str, tmp_path: Path) -> None:
    artifact = built(format, lora={"params": "*.query", "rank": 2})
    with artifact.load() as session:
        for feeds in BATCHES[:3]:
            session.step(feeds)
        tensors = session.state()
        expected = session.predict({"token": BATCHES[0]["token"]})["output"]
    artifact.export(tmp_path / "merged.safetensors", weights=tensors, merge=True)
    module = transformer()
    module.load_state_dict(load_file_as_torch(tmp_path / "merged.safetensors"))
    with torch.no_grad():
        found = module(torch.from_numpy(BATCHES[0]["token"])).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    artifact.export(tmp_path / "model.onnx", weights=tensors)
    with pytest.raises(
        DataError, match=f"'blocks.0.up.weight' is kept in {format} and takes no floating-point weights"
    ):
        artifact.export(
            tmp_path / "other.safetensors", weights={"blocks.0.up.weight": np.zeros((200, 144), np.float32)}
        )


def load_file_as_torch(path: Path) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in load_file(path).items()}


def test_floating_point_weights_are_refused(tmp_path: Path) -> None:
    artifact = built("int8", update=LAST)
    weight = np.zeros((200, 144), np.float32)
    with artifact.load() as session, pytest.raises(DataError, match=r"is kept in int8 .* without 'frozen'"):
        session.set_tensor("blocks.0.up.weight", weight)
    save_file({"blocks.0.up.weight": weight}, tmp_path / "weights.safetensors")
    save_file(BATCHES[0], tmp_path / "data.safetensors")
    command: list[str | Path] = [artifact.unpack() / "bin/model", "eval", "--data", tmp_path / "data.safetensors"]
    done = subprocess.run([*command, "--load", tmp_path / "weights.safetensors"], capture_output=True, text=True)
    assert done.returncode and "keeps quantised" in done.stderr + done.stdout


@pytest.mark.parametrize("format", some(["int4", "fp8"], 2))
def test_aarch64_gives_the_hosts_losses(format: str, tmp_path: Path) -> None:
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        pytest.skip("qemu-user is not installed (Debian: qemu-user-static)")
    recipe = Recipe(optimizer=SGD, update=LAST, frozen={"weights": format})
    data = {key: np.concatenate([feeds[key] for feeds in BATCHES]) for key in BATCHES[0]}
    save_file(data, tmp_path / "data.safetensors")
    model = compile(graph(), recipe, "raspberry-pi-4").unpack() / "bin/model"
    options: list[str | Path] = ["--steps", "10", "--no-shuffle", "--report", tmp_path / "report.json"]
    subprocess.run([emulator, model, "train", "--data", tmp_path / "data.safetensors", *options], check=True)
    with compile(graph(), recipe).load() as session:
        losses = [session.step(feeds) for feeds in BATCHES]
    np.testing.assert_allclose(json.loads((tmp_path / "report.json").read_text())["loss"], losses, rtol=1e-4)


class Tied(nn.Module):
    """A table that is also the last matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.hidden = nn.Embedding(CLASSES, 16), nn.Linear(16, 16)

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        return functional.linear(torch.tanh(self.hidden(self.table(token))).mean(1), self.table.weight)


@pytest.mark.parametrize(
    "frozen, message",
    [
        ({"weights": "int4", "params": "head"}, "'head.weight' cannot be kept in int4: the recipe trains it"),
        ({"weights": "int4", "params": "blocks.1.first"}, "it is no matrix of numbers"),
        ({"weights": "int8", "params": "blocks.0.uq"}, "matches no weight.*'blocks.0.up'"),
        ({"weights": "int3"}, "frozen.weights must be int8, int4 or fp8, not a text"),
        ({"weights": "fp9"}, "not a text .'fp9'. .did you mean 'fp8'"),
        ({"weights": "int4", "block": 20}, "frozen.block must be one of 16, 32"),
        ({"weights": "int4", "parms": "*"}, "unknown key 'parms'.*params"),
        ({"block": 32}, "no 'weights': say int8, int4 or fp8"),
        ({"weights": "int4", "params": []}, "frozen.params is empty"),
        ("int4", "must be a mapping"),
    ],
)
def test_bad_recipes(frozen: object, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        plan_programs(Request(graph(), Recipe(update=LAST, frozen=frozen), get("host"), scope=Scope.TRAINING))


def test_a_weight_shared_with_a_trained_use_or_read_otherwise_is_refused() -> None:
    tied = from_torch(Tied().eval(), torch.zeros((2, 4), dtype=torch.int64))
    shared = Recipe(update={"params": "table.weight"}, frozen={"weights": "int4", "params": "table"})
    with pytest.raises(RecipeError, match=r"'table.weight' cannot be kept in int4: the recipe trains it"):
        plan_programs(Request(tied, shared, get("host")))
    grouped = Recipe(update="head", frozen={"weights": "int4", "params": "depthwise"})
    with pytest.raises(RecipeError, match="its convolution is grouped"):
        plan_programs(Request(mixed_graph(), grouped, get("host")))


def test_a_tied_table_is_quantised_once_where_it_is_named() -> None:
    torch.manual_seed(1)
    module, token = Tied().eval(), np.random.default_rng(0).integers(0, CLASSES, (2, 4))
    recipe = Recipe(update={"params": "hidden.*"}, frozen={"weights": "int8", "block": 16, "params": "table"})
    artifact = compile(from_torch(module, torch.from_numpy(token)), recipe)
    with artifact.load() as session:
        replace(module, restored(artifact, session.state()))
        found = session.predict({"token": token})["output"]
    with torch.no_grad():
        np.testing.assert_allclose(found, module(torch.from_numpy(token)).numpy(), rtol=1e-4, atol=1e-6)


def test_the_recipe_says_itself_again() -> None:
    recipe = Recipe(frozen={"weights": "int4", "params": "encoder.*"})
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
