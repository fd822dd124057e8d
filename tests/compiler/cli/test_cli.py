"""The `pock` command as a person or a script meets it: output, exit codes, one sentence for each mistake."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from safetensors.numpy import load_file, save_file

import pockengine.cli.compiling
from pockengine.artifact import Artifact
from tests.compiler.cli.command import pock
from tests.compiler.frontends.onnx_models import model, save

RECIPE = """
loss: cross_entropy
optimizer: {name: sgd, lr: 0.1}
batch: 4
update: [{params: "fc2.*"}]
"""
RNG = np.random.default_rng(3)


def classifier(batch: int | str) -> onnx.ModelProto:
    """Two linear layers under PyTorch-like names."""
    weights = {"fc1.weight": (16, 8), "fc1.bias": (16,), "fc2.weight": (3, 16), "fc2.bias": (3,)}
    nodes = [
        helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], name="fc1", transB=1),
        helper.make_node("Relu", ["h"], ["a"], name="act"),
        helper.make_node("Gemm", ["a", "fc2.weight", "fc2.bias"], ["logits"], name="fc2", transB=1),
    ]
    arrays = {name: RNG.normal(size=shape).astype(np.float32) for name, shape in weights.items()}
    return model(nodes, {"x": (np.float32, [batch, 8])}, ["logits"], arrays)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A folder with a model, a recipe and a dataset."""
    folder = tmp_path_factory.mktemp("cli")
    save(classifier("batch"), folder / "net.onnx")
    (folder / "recipe.yaml").write_text(RECIPE)
    labels = RNG.integers(0, 3, 20)
    save_file({"x": RNG.normal(size=(20, 8)).astype(np.float32), "labels": labels}, folder / "data.safetensors")
    return folder


@pytest.fixture
def run(capsys, monkeypatch):
    return lambda *arguments: pock(*arguments, capsys=capsys, monkeypatch=monkeypatch)


@pytest.fixture(scope="module")
def artifact(files) -> Path:
    """The artifact that `pock compile` makes, through a real process."""
    path = files / "net.pock"
    command = [sys.executable, "-m", "pockengine.cli", "compile", str(files / "net.onnx")]
    command += ["--recipe", str(files / "recipe.yaml"), "-o", str(path), "--threads", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (files / "summary.json").write_text(done.stdout)
    return path


def test_compile_prints_one_object(files, artifact):
    summary = json.loads((files / "summary.json").read_text())
    promised = ["arena_bytes", "lower_bound_bytes", "param_bytes", "state_bytes", "nodes_forward", "nodes_backward"]
    promised += ["nodes_backward_dense", "kernels", "compile_seconds", "cache_hits"]
    assert summary.keys() >= set(promised)
    assert summary["nodes_backward"] < summary["nodes_backward_dense"]
    assert summary["trained_parameters"] == 3 * 16 + 3
    assert summary["output"] == str(artifact)
    manifest = Artifact.open(artifact).manifest
    assert manifest.recipe["batch"] == 4
    assert [port.shape for port in manifest.inputs] == [(4, 8), (4,)]


def test_run_passes_its_options_on(files, artifact):
    weights, report = files / "w.safetensors", files / "report.json"
    command = [sys.executable, "-m", "pockengine.cli", "run", str(artifact), "train", "--data"]
    command += [str(files / "data.safetensors"), "--steps", "30", "--save", str(weights), "--report", str(report)]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["start", *["step"] * 30, "saved", "done"]
    losses = json.loads(report.read_text())["loss"]
    assert len(losses) == 30
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    initial = {t.name: np.array(onnx.numpy_helper.to_array(t)) for t in onnx.load(files / "net.onnx").graph.initializer}
    trained = load_file(weights)
    np.testing.assert_array_equal(trained["fc1.weight"], initial["fc1.weight"])
    assert not np.array_equal(trained["fc2.weight"], initial["fc2.weight"])


def test_run_says_what_happens(files, artifact):
    data, weights = files / "data.safetensors", files / "said.safetensors"
    command = [sys.executable, "-m", "pockengine.cli", "run", artifact, "train", "--data", data, "--epochs", "20"]
    command += ["--eval-data", data, "--eval-every", "2", "--patience", "1", "--save", weights, "--profile"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"epoch 1, step 2: loss \S+, accuracy 0\.\d+ \(best\)", lines[0])
    (ended,) = [index for index, line in enumerate(lines) if line == f"saved {weights}"]
    assert re.fullmatch(
        r"\d+ steps: loss \S+ → \S+, \S+ ms each \(\S+ to \S+\), peak memory \S+ [KM]B", lines[ended + 1]
    )
    assert "Slowest kernels" in done.stdout


def test_run_shows_a_bar_on_a_terminal(files, artifact):
    data = files / "data.safetensors"
    command = [sys.executable, "-m", "pockengine.cli", "run", artifact, "train", "--data", data, "--steps", "400"]
    main_end, child_end = pty.openpty()
    process = subprocess.Popen(list(map(str, command)), stdout=child_end, stderr=child_end)
    os.close(child_end)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal on Linux
        while chunk := os.read(main_end, 4096):
            shown += chunk
    os.close(main_end)
    assert process.wait() == 0
    text = shown.decode()
    assert "epoch" in text and "/400" in text and "━" in text
    assert "400 steps: loss" in text


def test_run_evaluates_and_predicts(files, artifact, run):
    data = files / "data.safetensors"
    done = [run("run", artifact, "eval", "--data", data), run("run", artifact, "bench", "--steps", 2)]
    assert all(code == 0 for code, *_ in done), done
    assert re.match(r"20 samples: loss \S+, accuracy 0\.\d+\n5 batches: ", done[0][1])
    assert done[1][1].startswith("2 steps: ")


def test_run_gives_the_programs_exit_code(artifact, files):
    command = [
        sys.executable,
        "-m",
        "pockengine.cli",
        "run",
        str(artifact),
        "train",
        "--data",
        "nowhere",
        "--steps",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (3, 4)
    assert len(done.stderr.strip().splitlines()) == 1


def test_batch_option_overrides_the_recipe(files, tmp_path, run):
    out = tmp_path / "b.pock"
    code, text, _ = run(
        "compile", files / "net.onnx", "--recipe", files / "recipe.yaml", "-o", out, "--batch", 2, "--json"
    )
    assert code == 0
    assert json.loads(text)["output"] == str(out)
    assert Artifact.open(out).manifest.recipe["batch"] == 2


def test_dump_writes_each_stage(files, tmp_path, run):
    out, dump = tmp_path / "d.pock", tmp_path / "dump"
    code, *_ = run("compile", files / "net.onnx", "--recipe", files / "recipe.yaml", "-o", out, "--dump", dump)
    assert code == 0
    assert len(list((dump / "train").rglob("*.txt"))) > 5


def test_check_as_json(files, run):
    code, text, _ = run(
        "check", files / "net.onnx", "--recipe", files / "recipe.yaml", "--target", "raspberry-pi-4", "--json"
    )
    report = json.loads(text)
    assert code == 0
    assert report["supported"] is True
    assert {use["operator"]: use["count"] for use in report["operators"]} == {"Gemm": 2, "Relu": 1}
    assert [layer["name"] for layer in report["layers"]] == ["fc1", "fc2"]
    trained = {p["name"]: p["trained"] for layer in report["layers"] for p in layer["parameters"]}
    assert trained == {"fc1.weight": "frozen", "fc1.bias": "frozen", "fc2.weight": "all", "fc2.bias": "all"}
    estimate = report["estimate"]
    assert estimate["target"] == "raspberry-pi-4"
    assert estimate["fits"] is True
    assert estimate["arena_bytes"] >= estimate["lower_bound_bytes"] > 0


def test_estimate_is_what_compile_reports(files, artifact, run):
    _, text, _ = run("check", files / "net.onnx", "--recipe", files / "recipe.yaml", "--json")
    estimate, summary = json.loads(text)["estimate"], json.loads((files / "summary.json").read_text())
    for key in ("arena_bytes", "param_bytes", "state_bytes", "kernels", "nodes_backward", "predicted_peak_bytes"):
        assert estimate[key] == summary[key], key


def test_check_for_a_person(files, run):
    code, text, _ = run("check", files / "net.onnx", "--dim", "batch=4")
    assert code == 0
    assert "Gemm" in text
    assert "fc2" in text


def test_check_reports_unsupported_operators(tmp_path, run):
    nodes = [helper.make_node("NonZero", ["x"], ["i"], name="find"), helper.make_node("Cast", ["i"], ["y"], to=1)]
    path = save(model(nodes, {"x": (np.float32, [3])}, ["y"]), tmp_path / "m.onnx")
    code, text, _ = run("check", path, "--json")
    assert code == 2
    (node,) = json.loads(text)["unsupported"]
    assert (node["operator"], node["node"]) == ("NonZero", "find")
    code, text, _ = run("check", path)
    assert code == 2
    assert "NonZero of f32[3] (node 'find')" in text
    assert "what to do: use Where with a mask" in text


def test_version(run):
    from importlib.metadata import version

    assert run("--version") == (0, f"pock {version('pockengine')}\n", "")


def test_targets(run):
    code, text, _ = run("targets", "--json")
    names = [target["name"] for target in json.loads(text)]
    assert code == 0
    assert names[0] == "host"
    assert "raspberry-pi-4" in names
    assert "raspberry-pi-4" in run("targets")[1]


BAD = {
    "no model": (["check", "nowhere.onnx"], "no model"),
    "not a model": (["check", "{files}/recipe.yaml"], "not an ONNX model"),
    "dynamic batch": (["check", "{files}/net.onnx"], "--dim batch=VALUE"),
    "bad dim": (["check", "{files}/net.onnx", "--dim", "batch"], "NAME=VALUE"),
    "zero dim": (["check", "{files}/net.onnx", "--dim", "batch=0"], "NAME=VALUE"),
    "unknown dim": (["check", "{files}/net.onnx", "--dim", "bach=2", "--batch", "2"], "did you mean 'batch'"),
    "unknown target": (["check", "{files}/net.onnx", "--batch", "1", "--target", "raspberry"], "no target"),
    "no recipe": (["check", "{files}/net.onnx", "--recipe", "{files}/recipe.yml"], "did you mean"),
    "unknown command": (["chek"], "check"),
    "unknown option": (["check", "{files}/net.onnx", "--recip", "x"], "--recip"),
    "missing option": (["compile", "{files}/net.onnx", "--recipe", "{files}/recipe.yaml"], "--output"),
    "no folder": (
        ["compile", "{files}/net.onnx", "--recipe", "{files}/recipe.yaml", "-o", "{files}/no/such.pock"],
        "does not exist",
    ),
    "folder as output": (
        ["compile", "{files}/net.onnx", "--recipe", "{files}/recipe.yaml", "-o", "{files}"],
        "is a folder",
    ),
    "no artifact": (["run", "nowhere.pock", "train"], "no artifact"),
    "unknown entry": (["run", "nowhere.pock", "trian"], "did you mean 'train'"),
    "no entry": (["run", "nowhere.pock"], "pock run OUT.pock train"),
}


@pytest.mark.parametrize("arguments, words", BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence(files, run, arguments, words):
    code, text, error = run(*(argument.format(files=files) for argument in arguments))
    assert code == 2
    assert text == ""
    assert words in error
    assert len(error.strip().splitlines()) == 1
    assert error.startswith("pock: ")


def test_help_of_running(artifact, run):
    code, text, _ = run("run", "--help")
    assert code == 0 and "train, eval, predict, bench, generate or info" in text
    command = [sys.executable, "-m", "pockengine.cli", "run", str(artifact), "train", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--checkpoint-every" in done.stdout + done.stderr


def test_the_service_takes_the_commands_place_with_the_options_given(run, monkeypatch):
    started = []

    def execute(program, command):
        started.append(command)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", execute)
    assert run("serve", "--data-dir", "here", "--help")[0] == 0
    assert [Path(started[0][0]).name, *started[0][1:]] == ["pock-server", "serve", "--data-dir", "here", "--help"]


RECIPES = {
    "matches nothing": ('{loss: cross_entropy, update: [{params: "fc3.*"}]}', "'fc3.*' matches no parameter"),
    "unknown optimizer": ("{loss: cross_entropy, optimizer: sdg, update: full}", "did you mean 'sgd'"),
    "channels of a bias": ("{loss: cross_entropy, update: [{params: fc2.bias, channels: 0.5}]}", "no input channels"),
    "unknown key": ("{loss: cross_entropy, updates: full}", "did you mean 'update'"),
    "python code": ("{loss: {module: 'losses:mine'}, update: full}", "or 'pock compile --import-losses'"),
    "no loss file": ("{loss: {onnx: mine.onnx}, update: full}", "there is no loss file 'mine.onnx'"),
    "unknown output": ("{loss: {name: mse, output: y}, update: full}", "no output 'y'"),
}


@pytest.mark.parametrize("text, words", RECIPES.values(), ids=RECIPES)
def test_bad_recipe_leaves_nothing_behind(files, tmp_path, run, text, words):
    (tmp_path / "r.yaml").write_text(text)
    out = tmp_path / "out.pock"
    code, _, error = run("compile", files / "net.onnx", "--recipe", tmp_path / "r.yaml", "-o", out, "--batch", 4)
    assert code == 2
    assert words in error
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.yaml"]


def test_a_loss_of_the_users_own(files, tmp_path, run):
    (tmp_path / "losses.py").write_text("def mine(logits, truth): return ((logits - truth) ** 2).mean()\n")
    recipe = "{loss: {module: 'losses:mine', targets: {truth: 'f32[batch,3]'}}, update: full}"
    (tmp_path / "r.yaml").write_text(recipe)
    arguments = ("check", files / "net.onnx", "--recipe", tmp_path / "r.yaml", "--batch", 4, "--json")
    code, _, error = run(*arguments)
    assert code == 2 and "is Python code, which a recipe alone does not get to run" in error
    code, text, _ = run(*arguments, "--import-losses")
    assert code == 0 and json.loads(text)["estimate"]["trained_parameters"] == 16 * 8 + 16 + 3 * 16 + 3


def test_full_disk(files, artifact, tmp_path, run, monkeypatch):
    def full(self: Artifact, path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(pockengine.cli.compiling, "compile", lambda *_, **__: Artifact.open(artifact))
    monkeypatch.setattr(Artifact, "save", full)
    out = tmp_path / "out.pock"
    code, text, error = run("compile", files / "net.onnx", "--recipe", files / "recipe.yaml", "-o", out)
    assert code == 4
    assert text == ""
    assert "No space left" in error
    assert "Traceback" not in error
