"""Artifacts of the reference backend against those of the C backend: the same session, command line and losses."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pockengine.artifact import Artifact
from pockengine.artifact.run import model_command
from pockengine.codegen import backends
from pockengine.codegen.reference import ReferenceBackend
from pockengine.compile import Request, compile, plan_inference, plan_programs
from pockengine.errors import PockError, TargetError
from pockengine.insight import explain
from pockengine.recipe import Recipe
from pockengine.targets import get
from pockengine.tune import Tuning
from tests.compiler.cli.command import pock
from tests.compiler.cli.test_cli import classifier
from tests.compiler.frontends.onnx_models import save
from tests.compiler.training.networks import BATCH, CNN, TIED, Network
from tests.compiler.training.test_runs import EVERYTHING, TIME, Program, dataset, tokens

STEPS = 10
SPARSE = Recipe(optimizer={"name": "adamw", "lr": 1e-2}, update=[{"params": "conv2.weight", "channels": 0.5}])
AVERAGED = Recipe(optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.9}, accumulate=2, ema=0.9)


def _both(network: Network, recipe: Recipe) -> list[Any]:
    return [compile(network.build(BATCH), recipe, threads=1, backend=name).load() for name in ("c", "reference")]


@pytest.mark.parametrize("network, recipe", [(CNN, SPARSE), (TIED, AVERAGED)], ids=["cnn-sparse", "tied-averaged"])
def test_ten_steps_agree_with_machine_code(network: Network, recipe: Recipe) -> None:
    compiled, reference = _both(network, recipe)
    batches = [network.batch(step, recipe.accumulate * BATCH) for step in range(STEPS)]
    losses = [[session.step(batch) for batch in batches] for session in (compiled, reference)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert losses[0][-1] < losses[0][0]
    for mine, theirs in (
        (reference.state(), compiled.state()),
        (reference.optimizer_state(), compiled.optimizer_state()),
    ):
        assert mine.keys() == theirs.keys()
        for name, array in theirs.items():
            np.testing.assert_allclose(mine[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
    held_out = network.batch(STEPS, 3 * BATCH - 1)
    np.testing.assert_allclose(
        reference.evaluate(held_out).sample_loss, compiled.evaluate(held_out).sample_loss, rtol=1e-4
    )
    for name, array in compiled.predict(held_out).items():
        np.testing.assert_allclose(reference.predict(held_out)[name], array, rtol=1e-4, atol=1e-5)


class ReferenceProgram(Program):
    """The same, whose executable is data."""

    def call(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = model_command(self.folder / "model.pock", str(arguments[0]), [*map(str, arguments[1:])])
        assert command[:3] == [sys.executable, "-m", "pockengine.codegen.reference"]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=self.folder)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, ReferenceProgram]:
    """A model with dropout, accumulation, averages, clipping and a schedule, by both backends, beside its data."""
    folder = tmp_path_factory.mktemp("runs")
    save_file(dataset(19, 1), folder / "train.safetensors")
    save_file(dataset(11, 2), folder / "eval.safetensors")
    compiled, reference = (compile(tokens(masked=True), EVERYTHING, threads=1, backend=b) for b in ("c", "reference"))
    reference.save(folder / "model.pock")
    return Program(compiled, folder), ReferenceProgram(Artifact.open(folder / "model.pock"), folder)


TRAIN = ("train", "--data", "train.safetensors", "--epochs", 3, "--seed", 5)


@pytest.mark.parametrize("watched", [("--eval-data", "eval.safetensors"), ("--eval-share", 0.4, "--eval-seed", 3)])
def test_a_run_tells_what_the_executable_tells(
    programs: tuple[Program, ReferenceProgram], watched: tuple[object, ...]
) -> None:
    compiled, reference = (p.run(*TRAIN, *watched, "--save", f"{type(p).__name__}.st") for p in programs)
    assert [list(event) for event in reference] == [list(event) for event in compiled]
    for mine, theirs in zip(reference, compiled, strict=True):
        numbers = {key for key, value in theirs.items() if isinstance(value, float)}
        assert {k: v for k, v in mine.items() if k not in numbers} == {
            k: v for k, v in theirs.items() if k not in numbers
        }
        np.testing.assert_allclose([mine[key] for key in numbers], [theirs[key] for key in numbers], rtol=1e-4)
    folder = programs[0].folder
    mine, theirs = load_file(folder / "ReferenceProgram.st"), load_file(folder / "Program.st")
    assert mine.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_allclose(mine[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


def test_saved_weights_evaluate_and_predict_alike(programs: tuple[Program, ReferenceProgram]) -> None:
    compiled, reference = programs
    compiled.run("train", "--data", "train.safetensors", "--steps", 2, "--save", "weights.st")
    told = [p.run("eval", "--data", "eval.safetensors", "--load", "weights.st", "--report", "r.json") for p in programs]
    assert told[0][0]["samples"] == told[1][0]["samples"] == 11
    assert told[1][0]["loss"] == pytest.approx(told[0][0]["loss"], rel=1e-5)
    report = json.loads((reference.folder / "r.json").read_text())
    assert report["entry"] == "eval" and report["loss"] == [told[1][0]["loss"]]
    for program, out in ((compiled, "c.st"), (reference, "r.st")):
        done = program.call("predict", "--data", "eval.safetensors", "--out", out)
        assert done.returncode == 0, done.stderr
    mine, theirs = (load_file(reference.folder / name)["logits"] for name in ("r.st", "c.st"))
    assert mine.shape == theirs.shape == (11, TIME, 6)
    np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_info_says_what_the_executable_says(programs: tuple[Program, ReferenceProgram]) -> None:
    told = [json.loads(program.call("info").stdout) for program in programs]
    same = ("name", "target", "threads", "batch", "accumulate", "last_batch", "inputs", "outputs", "tensors")
    assert {key: told[1][key] for key in same} == {key: told[0][key] for key in same}


@pytest.mark.parametrize(
    "arguments, code, part",
    [
        (("train", "--data", "train.safetensors"), 2, "train needs --steps or --epochs"),
        (("train", "--data", "train.safetensors", "--steps", 0), 2, "at least 1, not '0'"),
        (
            ("train", "--data", "train.safetensors", "--steps", 1, "--resume", "c"),
            2,
            "the reference backend has no --resume",
        ),
        (("train", "--data", "train.safetensors", "--steps", 1, "--eval-share", 2), 2, "between 0 and 1"),
        (("train", "--data", "train.safetensors", "--steps", 1, "--eval-share", 0.01), 3, "holds out none"),
        (("train", "--data", "train.safetensors", "--stepz", 1), 2, "did you mean '--steps'"),
        (("bench", "--steps", 1), 2, "compile with --backend c"),
        (("eval", "--data", "none.safetensors"), 3, "there is no file"),
        (("eval", "--data", "wrong.safetensors"), 3, "no input of the model"),
        (("eval", "--data", "large.safetensors"), 3, "where 0 to 5"),
        (("eval", "--data", "model.pock"), 3, "is not a safetensors file"),
    ],
)
def test_errors_are_one_sentence_with_the_executables_codes(
    programs: tuple[Program, ReferenceProgram], arguments: tuple[object, ...], code: int, part: str
) -> None:
    program = programs[1]
    data = dataset(5, 3)
    save_file({**data, "other": data["input_ids"]}, program.folder / "wrong.safetensors")
    save_file({**data, "input_ids": data["input_ids"] + 9}, program.folder / "large.safetensors")
    done = program.call(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert part in done.stderr and done.stderr.count("\n") == 1


def test_what_the_backend_cannot_make_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TargetError, match="does not multiply in bf16"):
        compile(CNN.build(BATCH), SPARSE, replace(get("host"), compute="bf16"), backend="reference")
    monkeypatch.setattr(ReferenceBackend, "memory", lambda backend, target: target.memory("gpu"))
    with pytest.raises(TargetError, match="the target 'host' does not have the memory 'gpu'"):
        compile(CNN.build(BATCH), SPARSE, backend="reference")
    monkeypatch.undo()
    with pytest.raises(PockError, match="nothing to tune"):
        compile(CNN.build(BATCH), SPARSE, backend="reference", tune="fast")
    with pytest.raises(PockError, match="no backend 'referenc' .did you mean 'reference'"):
        compile(CNN.build(BATCH), SPARSE, backend="referenc")


def test_commands_take_the_backend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, recipe, artifact = tmp_path / "model.onnx", tmp_path / "r.yaml", tmp_path / "model.pock"
    save(classifier(4), model)
    recipe.write_text("{loss: cross_entropy, optimizer: sgd, update: full}\n")

    def told(*arguments: object) -> Any:
        code, out, err = pock(*arguments, capsys=capsys, monkeypatch=monkeypatch)
        assert code == 0, err
        return json.loads(out)

    checked = told("check", model, "--recipe", recipe, "--backend", "reference", "--json")
    made = told("compile", model, "--recipe", recipe, "-o", artifact, "--backend", "reference", "--explain", "--json")
    assert made["predicted_peak_bytes"] == checked["estimate"]["predicted_peak_bytes"]
    assert made["explain"]["contractions"] == []
    manifest = Artifact.open(artifact).manifest
    assert manifest.backend == "reference" and set(manifest.to_dict()["entry_points"].values()) == {"program.json"}
    code, _, err = pock("profile", artifact, capsys=capsys, monkeypatch=monkeypatch)
    assert (code, err) == (
        2,
        "pock: the reference backend is not measured: compile with --backend c to measure a step\n",
    )
    tuned = ["tune", model, "--recipe", recipe]
    refused = pock(*tuned, "--backend", "reference", capsys=capsys, monkeypatch=monkeypatch)
    sentence = "the backend 'reference' has nothing to tune: build untuned, or choose another with --backend"
    assert refused == (2, "", f"pock: {sentence}\n")
    for command in (["check", model], ["compile", model, "--recipe", recipe, "-o", artifact], tuned):
        code, _, err = pock(*command, "--backend", "referenc", capsys=capsys, monkeypatch=monkeypatch)
        assert (code, err) == (2, "pock: there is no backend 'referenc' (did you mean 'reference'?)\n")


def test_explaining_asks_the_backend_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(classifier(4), tmp_path / "model.onnx")
    (tmp_path / "r.yaml").write_text("{loss: cross_entropy, optimizer: sgd, update: full}\n")
    monkeypatch.chdir(tmp_path)
    build = ("compile", "model.onnx", "--recipe", "r.yaml", "-o", "model.pock", "--explain")
    told = {}
    for backend in ("c", "reference"):
        code, out, err = pock(*build, "--json", "--backend", backend, capsys=capsys, monkeypatch=monkeypatch)
        assert code == 0, err
        told[backend] = json.loads(out)["explain"]
    assert told["c"]["contractions"] and not told["reference"]["contractions"]
    assert any(len(region["operators"]) > 1 for region in told["c"]["regions"])
    assert all(len(region["operators"]) == 1 for region in told["reference"]["regions"])
    planned = plan_programs(Request(CNN.build(BATCH), SPARSE, get("host"), 2, backend=ReferenceBackend()))
    monkeypatch.setattr(backends, "get", lambda name=backends.DEFAULT: pytest.fail(f"{name} was asked too"))
    assert explain(planned, Tuning())["contractions"] == []


@pytest.mark.parametrize("name", backends.NAMES)
def test_inference_is_planned_for_the_backend_that_was_asked_for(name: str) -> None:
    steps = plan_inference(
        CNN.build(BATCH), get("sm_89" if name == "cuda" else "host"), 2, backends.get(name)
    ).program.steps
    kernels = [call.kernel.symbol for step in steps for call in step.lowered.calls]
    assert kernels and all(kernel.startswith("numpy_") == (name == "reference") for kernel in kernels)
