"""The worker and a recipe's own losses: files uploaded with the model are read, nothing else is, and no code runs."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

from pock_server.worker.build import compile_task
from pock_server.worker.lines import Lines
from pockengine.errors import RecipeError
from tests.compiler.frontends.onnx_models import model


def classifier() -> ModelProto:
    weights = {"fc.weight": np.ones((3, 4), np.float32)}
    node = helper.make_node("Gemm", ["x", "fc.weight"], ["logits"], name="fc", transB=1)
    return model([node], {"x": (np.float32, [2, 4])}, ["logits"], weights)


def loss() -> ModelProto:
    inputs = {name: (np.float32, [2, 3]) for name in ("logits", "truth")}
    nodes = [helper.make_node("Sub", ["logits", "truth"], ["off"]), helper.make_node("ReduceL1", ["off"], ["loss"])]
    return model(nodes, inputs, ["loss"])


def compiled(folder: Path, wanted: Any) -> dict[str, Any]:
    """What comes of a model uploaded with a file `losses/own.onnx`, trained on the loss `wanted`."""
    (folder / "model" / "losses").mkdir(parents=True)
    (folder / "model" / "model.onnx").write_bytes(classifier().SerializeToString())
    (folder / "model" / "losses" / "own.onnx").write_bytes(loss().SerializeToString())
    task = {"name": "net", "recipe": {"loss": wanted, "update": "full"}, "target": "host", "threads": 1}
    compile_task(task, folder, Lines(io.StringIO()))
    with zipfile.ZipFile(folder / "out" / "artifact.pock") as archive:
        return json.loads(archive.read("manifest.json"))


def test_a_loss_uploaded_with_the_model(tmp_path: Path) -> None:
    found = compiled(tmp_path, {"onnx": "losses/own.onnx"})
    assert found["recipe"]["loss"]["onnx"] == "losses/own.onnx"
    assert {entry["name"] for entry in found["inputs"]} == {"x", "truth"}


@pytest.mark.parametrize(
    "wanted, sentence",
    [
        ({"onnx": "other.onnx"}, "there is no loss file 'other.onnx'"),
        ({"onnx": "../artifact.onnx"}, "must lie in the recipe's own folder"),
        ({"onnx": "/etc/passwd"}, "must lie in the recipe's own folder"),
        ({"module": "os:abort"}, "is Python code, which a recipe alone does not get to run"),
        ({"module": "os:abort", "sha256": "0" * 64}, "is Python code, which a recipe alone does not get to run"),
    ],
)
def test_nothing_else_is_read_or_run(tmp_path: Path, wanted: Any, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        compiled(tmp_path, wanted)
