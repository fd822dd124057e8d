"""`pock compile --tune`, `pock tune` and `pock cache` on a tiny model."""

from __future__ import annotations

import json
import os
import shutil
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from pockengine.artifact import Artifact, Member
from pockengine.cli.console import size
from tests.compiler.cli.command import pock
from tests.compiler.frontends.onnx_models import model, save

RECIPE = "{loss: cross_entropy, optimizer: {name: sgd, lr: 0.1}, batch: 4, update: full}"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A folder with a model of two linear layers and a recipe."""
    folder, rng = tmp_path_factory.mktemp("tuned"), np.random.default_rng(3)
    weights = {"fc1.weight": (64, 32), "fc2.weight": (8, 64)}
    nodes = [
        helper.make_node("Gemm", ["x", "fc1.weight"], ["h"], name="fc1", transB=1),
        helper.make_node("Relu", ["h"], ["a"], name="act"),
        helper.make_node("Gemm", ["a", "fc2.weight"], ["logits"], name="fc2", transB=1),
    ]
    arrays = {name: (rng.normal(size=shape) / 8).astype(np.float32) for name, shape in weights.items()}
    save(model(nodes, {"x": (np.float32, ["batch", 32])}, ["logits"], arrays), folder / "net.onnx")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(files, cache, capsys, monkeypatch):
    """Runs `pock ARGUMENTS` in the folder with a cache of its own: exit code, stdout and stderr."""
    monkeypatch.setenv("POCK_CACHE_DIR", str(cache))
    monkeypatch.delenv("POCK_CACHE_LIMIT", raising=False)
    monkeypatch.chdir(files)
    return partial(pock, capsys=capsys, monkeypatch=monkeypatch)


def compiled(run, output: str, *more: str) -> dict:
    code, out, err = run("compile", "net.onnx", "--recipe", "recipe.yaml", "-o", output, "--json", *more)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_untuned_builds_are_the_same_bytes(run, files):
    summary = compiled(run, "a.pock")
    compiled(run, "b.pock", "--tune", "off")
    assert (files / "a.pock").read_bytes() == (files / "b.pock").read_bytes()
    assert summary["tuned"] == "off" and "tuning" not in summary
    code, out, _ = run("compile", "net.onnx", "--recipe", "recipe.yaml", "-o", "a.pock")
    assert code == 0 and "nothing was measured" in " ".join(out.split())


def test_tune_fills_the_cache_and_compile_takes_it(run, files):
    code, out, err = run("tune", "net.onnx", "--recipe", "recipe.yaml", "--mode", "fast", "--json")
    assert (code, err) == (0, "")
    counted = json.loads(out)["tuning"]
    assert counted["misses"] == counted["workloads"] > 3 and counted["rejected"] == []
    assert counted["measured"] > 0 and counted["by_model"] == 0
    summary = compiled(run, "tuned.pock", "--tune", "fast")
    assert summary["tuning"]["hits"] == counted["workloads"] and summary["tuning"]["misses"] == 0
    stated = Artifact.open(files / "tuned.pock").manifest.summary
    assert stated["tuned"] == "fast" and stated["schedules_by_model"] == 0
    assert {"fc1", "fc2"} <= {layer for row in stated["schedules"] for layer in row["layers"]}
    assert all(row["choice"] for row in stated["schedules"])
    compiled(run, "again.pock", "--tune", "fast")
    assert (files / "again.pock").read_bytes() == (files / "tuned.pock").read_bytes()
    code, out, _ = run("tune", "net.onnx", "--recipe", "recipe.yaml", "--mode", "fast")
    assert code == 0 and f"{counted['workloads']} known, 0 measured" in out


def test_the_tuned_program_trains_as_the_untuned_one(run, files):
    compiled(run, "plain.pock")
    compiled(run, "tuned.pock", "--tune", "fast")
    rng = np.random.default_rng(0)
    batch: dict[str, np.ndarray] = {"x": rng.normal(size=(4, 32)).astype(np.float32), "labels": rng.integers(0, 8, 4)}
    losses = []
    for name in ("plain.pock", "tuned.pock"):
        with Artifact.open(files / name).load(threads=2) as session:
            losses.append([session.step(batch) for _ in range(5)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert losses[0][4] < losses[0][0]


def test_cache(run, files, cache):
    shutil.rmtree(cache / "artifacts", ignore_errors=True)  # of the tests before
    compiled(run, "a.pock", "--tune", "fast")
    compiled(run, "b.pock", "--name", "other")
    for name in ("a.pock", "b.pock"):
        assert run("run", name, "info")[0] == 0  # unpacks it
    shown = json.loads(run("cache", "--json")[1])
    assert shown["folder"] == str(cache) and shown["limit_bytes"] == 4 << 30
    assert shown["kernels"]["count"] > 5 and shown["kernels"]["bytes"] > 1000
    unpacked = sum(member.size for name in ("a", "b") for member in members(files / f"{name}.pock"))
    assert shown["artifacts"] == {"count": 2, "bytes": unpacked}
    rows = shown["tunings"]["by_family"]
    assert sum(row["count"] for row in rows) == shown["tunings"]["count"] > 0
    for text in ("compiled kernels", "unpacked artifacts", f"2 ({size(unpacked)}, at most 4.3 GB)"):
        assert text in run("cache", "show")[1]
    pruned = json.loads(run("cache", "prune", "--keep-days", 1, "--json")[1])
    assert pruned["removed"] == {"kernels": 0, "artifacts": 0, "tunings": 0} and pruned["freed_bytes"] == 0
    two_days_ago = time.time() - 2 * 86400
    os.utime(cache / "artifacts" / Artifact.open(files / "a.pock").digest, (two_days_ago, two_days_ago))
    assert json.loads(run("cache", "prune", "--keep-days", 1, "--json")[1])["removed"]["artifacts"] == 1
    assert "0 compiled kernels, 0 unpacked artifacts" in run("cache", "prune", "--keep-days", 1)[1]
    cleared = json.loads(run("cache", "clear", "--json")[1])
    assert cleared["removed"] == {
        "kernels": shown["kernels"]["count"],
        "artifacts": 1,
        "tunings": shown["tunings"]["count"],
    }
    assert cleared["freed_bytes"] > shown["kernels"]["bytes"]
    empty = json.loads(run("cache", "--json")[1])
    assert empty["kernels"] == empty["artifacts"] == {"count": 0, "bytes": 0} and empty["tunings"]["count"] == 0


def members(file: Path) -> list[Member]:
    return list(Artifact.open(file).manifest.members.values())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["compile", "net.onnx", "--recipe", "recipe.yaml", "-o", "c.pock", "--tune", "ful"], "did you mean 'full'"),
        (["tune", "net.onnx", "--recipe", "recipe.yaml", "--mode", "off"], "no --mode 'off' (known: fast, full)"),
        (["tune", "net.onnx", "--recipe", "recipe.yaml", "--target", "raspberry-pi-4"], "another machine"),
        (["cache", "prune"], "--keep-days 30"),
        (["cache", "clear", "--keep-days", "3"], "goes with 'pock cache prune'"),
        (["cache", "shwo"], "did you mean 'show'"),
    ],
)
def test_mistakes_are_one_sentence(run, arguments, sentence):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err and err.count("\n") == 1
