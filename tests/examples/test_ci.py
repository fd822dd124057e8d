"""The check for pull requests against a real service and a real agent: it passes, and it fails for a slower step."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from demo.processes import running
from demo.service import Address, serving
from pock_client import Client

ROOT = Path(__file__).parents[2]
WIDTH, BATCH = 64, 8
RECIPE = f"""
loss: mse
optimizer: {{name: sgd, lr: 1.0e-6}}
batch: {BATCH}
update: [{{params: "*"}}]
"""


def network(path: Path, layers: int) -> None:
    """A chain of matrix products."""
    source, nodes, contents, value = np.random.default_rng(0), [], [], "x"
    for layer in range(layers):
        weight = 0.1 * source.standard_normal((WIDTH, WIDTH), dtype=np.float32)
        contents.append(numpy_helper.from_array(weight, f"weight.{layer}"))
        nodes.append(helper.make_node("MatMul", [value, f"weight.{layer}"], [f"y{layer}"]))
        value = f"y{layer}"
    kind = onnx.TensorProto.FLOAT
    tensors = [helper.make_tensor_value_info(name, kind, [BATCH, WIDTH]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "chain", tensors[:1], tensors[1:], contents)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Address]:
    """A service, and an agent in the pool `desk` that works for it."""
    with ExitStack() as stack:
        address = stack.enter_context(serving(tmp_path / "service"))
        with Client(address.url, address.key) as client:
            token = client.enrolment_tokens.create(name="board", pool="desk").token
        agent = [sys.executable, "-m", "pock_agent"]
        state = ["--state-dir", str(tmp_path / "state")]
        subprocess.run([*agent, "enroll", address.url, token, "--target", "host", *state], check=True, timeout=60)
        stack.enter_context(running([*agent, "run", *state], tmp_path / "agent.log"))
        yield address


def check(service: Address, folder: Path, *words: str) -> tuple[int, str, str]:
    """What the script says, and the page of the check."""
    page = folder / "summary.md"
    page.unlink(missing_ok=True)
    own = {"POCK_URL": service.url, "POCK_KEY": service.key, "GITHUB_STEP_SUMMARY": str(page)}
    script = [sys.executable, str(ROOT / "examples" / "ci" / "step_times.py"), "model.onnx", "recipe.yaml"]
    options = ["--on", "pool=desk", "--steps", "20", *words]
    done = subprocess.run(
        [*script, *options], cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, timeout=400
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout + done.stderr, page.read_text() if page.exists() else ""


def test_a_slower_step_fails_the_check_with_a_table(service: Address, tmp_path: Path) -> None:
    network(tmp_path / "model.onnx", layers=4)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    status, said, _ = check(service, tmp_path)
    assert status == 0 and "model-host has no release yet" in said
    assert check(service, tmp_path, "--release")[:2] == (0, "model-host:v1 is the release\n")
    status, said, page = check(service, tmp_path, "--allowed", "100%")
    assert status == 0 and "0 of 1 devices take more than 100% longer" in said, said
    assert page.startswith("| device | target | release ms | this ms | ratio |") and "| board | host |" in page
    network(tmp_path / "model.onnx", layers=40)
    status, said, page = check(service, tmp_path, "--allowed", "100%")
    assert status == 1 and "| **slower** |" in said and "1 of 1 devices take more than 100% longer" in page, said


def test_the_workflow_calls_the_script_as_it_is() -> None:
    text = (ROOT / "examples" / "ci" / "step-times.yml").read_text()
    assert text.count("run: python ci/step_times.py model.onnx recipe.yaml --on pool=desk") == 2
