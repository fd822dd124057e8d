"""What the summary promises of each model: sparse recipes shrink the graph, the plan is tight and true, the
executable is small and deterministic, and another architecture computes the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from pockengine.artifact import Artifact
from pockengine.compile import Request, compile, plan_programs, summary
from pockengine.recipe import SGD, Recipe
from pockengine.targets import get as get_target
from tests.sweeps import some

from . import zoo

STEPS = 4


def recipe(name: str, update: str) -> Recipe:
    return Recipe(optimizer=SGD(lr=1e-3, momentum=0.9), update=zoo.UPDATES[name][update], batch=zoo.BATCH)


@cache
def artifact(name: str, update: str, target: str = "host") -> Artifact:
    return compile(zoo.graph(name), recipe(name, update), target=target, threads=2)


@cache
def figures(name: str, update: str) -> dict[str, Any]:
    """The summary of a plan, for which no kernel need be compiled."""
    return summary(
        plan_programs(Request(zoo.graph(name), recipe(name, update), get_target("host"), threads=2)), kernels=0
    )


def run(built: Artifact, tmp_path: Path, data: dict[str, np.ndarray], prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    """Train STEPS steps in a process of its own; the report."""
    save_file(data, tmp_path / "data.safetensors")
    command = [
        *prefix, str(built.unpack() / "bin/model"), "train", "--data", str(tmp_path / "data.safetensors"),
        "--steps", str(STEPS), "--threads", "2", "--no-shuffle", "--report", str(tmp_path / "report.json"),
    ]  # fmt: skip
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert finished.returncode == 0, finished.stderr
    return json.loads((tmp_path / "report.json").read_text())


def dataset(name: str) -> dict[str, np.ndarray]:
    """STEPS batches in order."""
    batches = [zoo.MODELS[name].feeds(seed) for seed in range(STEPS)]
    return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}


@pytest.mark.parametrize("name", some(zoo.MODELS, 2))
def test_sparse_recipes_shrink_graph_and_arena(name: str) -> None:
    full = figures(name, "full")
    assert full["nodes_backward"] == full["nodes_backward_dense"]
    for update in ("bias", "last", "channels"):
        sparse = figures(name, update)
        assert sparse["nodes_backward"] < full["nodes_backward"], update
        assert sparse["nodes_backward_dense"] == full["nodes_backward_dense"], update
        assert sparse["arena_bytes"] < full["arena_bytes"], update
        assert sparse["flops"]["backward"] < full["flops"]["backward"], update
        assert sparse["state_bytes"] < full["state_bytes"], update


@pytest.mark.parametrize("update", ["full", "bias", "last", "channels"])
@pytest.mark.parametrize("name", zoo.MODELS)
def test_arena_is_within_3_percent_of_the_lower_bound(name: str, update: str) -> None:
    bound, arena = figures(name, update)["lower_bound_bytes"], figures(name, update)["arena_bytes"]
    assert bound <= arena <= 1.03 * bound


@pytest.mark.parametrize("update", some(["full", "channels"], 2))
@pytest.mark.parametrize("name", some(zoo.MODELS, 3, 1))
def test_measured_peak_is_the_predicted_one(name: str, update: str, tmp_path: Path) -> None:
    built = artifact(name, update)
    report = run(built, tmp_path, dataset(name))
    blocks = sum(built.summary[f"{space}_bytes"] for space in ("arena", "param", "state", "const", "input"))
    assert report["predicted_peak_bytes"] == blocks + built.summary["runtime_bytes"]
    assert report["peak_rss_bytes"] == pytest.approx(report["predicted_peak_bytes"], rel=0.03)


@pytest.mark.parametrize("name", zoo.MODELS)
def test_executable_without_weights_is_under_1_megabyte(name: str) -> None:
    assert len(artifact(name, "full").read("bin/model")) < 1_000_000


def test_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    for file in ("a.pock", "b.pock"):
        artifact.cache_clear()
        artifact("mobilenet_v2", "last").save(tmp_path / file)
    assert (tmp_path / "a.pock").read_bytes() == (tmp_path / "b.pock").read_bytes()


@pytest.mark.parametrize("name", some(zoo.MODELS, 3, 2))
def test_aarch64_gives_the_hosts_losses(name: str, tmp_path: Path) -> None:
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        pytest.skip("qemu-user is not installed (Debian: qemu-user-static)")
    here = run(artifact(name, "full"), tmp_path, dataset(name))
    there = run(artifact(name, "full", "raspberry-pi-4"), tmp_path, dataset(name), (emulator,))
    np.testing.assert_allclose(there["loss"], here["loss"], rtol=1e-4)
