"""A model with inputs and outputs of every integer type, from a dataset in a file to predictions in a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import load_file, save_file

import pockengine as pock
from pockengine.artifact import Artifact
from pockengine.artifact.run import model_command
from tests.compiler.frontends.onnx_models import model, save

TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
BATCH, WIDTH, CLASSES = 4, 3, 5


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Logits of all inputs side by side, and every integer doubled in its own type."""
    rng = np.random.default_rng(0)
    weight = rng.normal(0, 0.01, (len(TYPES) * WIDTH, CLASSES)).astype(np.float32)
    casts = [helper.make_node("Cast", [name], [f"{name}.f32"], to=TensorProto.FLOAT) for name in TYPES]
    doubles = [helper.make_node("Add", [name, name], [f"{name}.twice"]) for name in TYPES[:-1]]
    nodes = [
        *casts,
        *doubles,
        helper.make_node("Concat", [f"{name}.f32" for name in TYPES], ["all"], axis=1),
        helper.make_node("MatMul", ["all", "weight"], ["logits"]),
    ]
    inputs = {name: (name, (BATCH, WIDTH)) for name in TYPES}
    outputs = ["logits", *(f"{name}.twice" for name in TYPES[:-1])]
    path = save(model(nodes, inputs, outputs, {"weight": weight}), tmp_path_factory.mktemp("types") / "model.onnx")
    optimizer = {"name": "sgd", "lr": 1e-9}
    recipe = pock.Recipe(
        loss={"name": "cross_entropy", "output": "logits"}, optimizer=optimizer, update="full", batch=BATCH
    )
    return pock.compile(pock.load(path), recipe, target="host", threads=2)


def dataset(samples: int) -> dict[str, np.ndarray]:
    """Numbers up to the ends of each type, which doubling wraps around."""
    rng = np.random.default_rng(1)
    data = {}
    for name in TYPES:
        low, high = (0, 1) if name == "bool" else (np.iinfo(name).min, np.iinfo(name).max)
        data[name] = rng.integers(low, high, (samples, WIDTH), dtype=name, endpoint=True)
    return data


def test_predictions_in_this_process(artifact: Artifact) -> None:
    data = dataset(6)
    with artifact.load() as session:
        _check(session.predict(data), data, session.state()["weight"])


def test_predictions_of_the_executable(artifact: Artifact, tmp_path: Path) -> None:
    data = dataset(6)
    artifact.save(tmp_path / "model.pock")
    save_file(data, tmp_path / "data.safetensors")
    done = _run(tmp_path, "predict", "--data", "data.safetensors", "--out", "out.safetensors")
    assert done.returncode == 0, done.stdout + done.stderr
    with artifact.load() as session:
        _check(load_file(tmp_path / "out.safetensors"), data, session.state()["weight"])


@pytest.mark.parametrize(
    ("name", "given", "number"),
    [("uint16", np.int32, 1 << 16), ("int64", np.uint64, 1 << 63), ("uint64", np.int64, -1), ("int8", np.uint8, 128)],
)
def test_a_number_that_does_not_fit_is_refused(
    artifact: Artifact, tmp_path: Path, name: str, given: type, number: int
) -> None:
    data = dataset(BATCH)
    data[name] = np.ones((BATCH, WIDTH), given)
    data[name][2, 1] = number
    artifact.save(tmp_path / "model.pock")
    save_file(data, tmp_path / "data.safetensors")
    done = _run(tmp_path, "predict", "--data", "data.safetensors", "--out", "out.safetensors")
    assert done.returncode != 0
    assert f"'{name}'" in done.stderr and "sample 2" in done.stderr


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = model_command(folder / "model.pock", arguments[0], arguments[1:])
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def _check(found: dict[str, np.ndarray], data: dict[str, np.ndarray], weight: np.ndarray) -> None:
    features = np.concatenate([data[name].astype(np.float32) for name in TYPES], axis=1)
    np.testing.assert_allclose(found["logits"], features @ weight, rtol=1e-4)
    for name in TYPES[:-1]:
        assert found[f"{name}.twice"].dtype == data[name].dtype
        np.testing.assert_array_equal(found[f"{name}.twice"], data[name] + data[name])
