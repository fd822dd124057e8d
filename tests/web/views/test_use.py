"""The lines of shell, Python and C that the page of an artifact gives do what they say with a really compiled one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser
from safetensors.numpy import load_file, save_file

from tests.web.blocks import BATCH, CLASSES, block_network
from tests.web.conftest import visiting
from tests.web.service import REPOSITORY, Service, running_service

RECIPE = {"loss": "cross_entropy", "optimizer": {"name": "sgd", "lr": 0.1}, "update": [{"params": "head.*"}]}


@pytest.fixture(scope="module")
def compiling(web_dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service with the real compiler."""
    with running_service(tmp_path_factory.mktemp("service"), web_dist, worker={}) as running:
        yield running


@pytest.fixture(scope="module")
def build(compiling: Service) -> dict[str, Any]:
    """A small network, compiled for this machine."""
    model = compiling.post("/models", {"name": "blocks", "digest": compiling.upload(block_network(1))})
    order = {"model_id": model["id"], "recipe": RECIPE, "target": "host", "name": "blocks"}
    return compiling.wait_for_build(compiling.post("/builds", order), "succeeded", seconds=180)


def test_the_lines_train(
    browser: Browser,
    compiling: Service,
    node_modules: Path,
    context_options: dict[str, Any],
    build: dict[str, Any],
    tmp_path: Path,
) -> None:
    lines: dict[str, str] = {}
    for visitor in visiting(browser, compiling, node_modules, context_options):
        visitor.sign_in()
        visitor.open(f"/artifacts/{build['artifact_digest']}", "blocks")
        for way in ("in a shell", "from Python", "from C"):
            lines[way] = visitor.page.get_by_label(f"Command: training {way}").inner_text()
        assert visitor.accessibility_violations() == []
        visitor.screenshot("artifact-real")
    blob = compiling.client.get(f"/blobs/sha256/{build['artifact_digest']}", follow_redirects=True)
    (tmp_path / "blocks.pock").write_bytes(blob.content)
    images = np.random.default_rng(0).random((4 * BATCH, 1, 8, 8), dtype=np.float32)
    labels = np.arange(4 * BATCH, dtype=np.int64) % CLASSES
    save_file({"image": images, "labels": labels}, tmp_path / "train.safetensors")
    bin_folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH")))),
    }
    (tmp_path / "use.c").write_text(lines["from C"])
    build_and_run = lines["from C"].splitlines()[0].removeprefix("/* ").removesuffix(" */")
    commands = {
        "in a shell": ["sh", "-ec", lines["in a shell"]],
        "from Python": [sys.executable, "-c", lines["from Python"]],
        "from C": ["sh", "-ec", build_and_run],
    }
    losses = {}
    for way, command in commands.items():
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (way, done.stdout, done.stderr)
        losses[way] = done.stdout.split()[-1]
        trained = load_file(tmp_path / "trained.safetensors")
        assert "head.weight" in trained
        (tmp_path / "trained.safetensors").unlink()
    assert float(losses["from C"]) == pytest.approx(float(losses["from Python"]), rel=1e-4)
    assert float(losses["from C"]) == pytest.approx(np.log(CLASSES), abs=1)
