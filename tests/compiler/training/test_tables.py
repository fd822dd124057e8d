"""Large frozen embeddings stay in the weights file: steps read the rows of their batch, and everyone else the whole."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from pockengine.compile import Request, compile, plan_programs, summary
from pockengine.errors import DataError
from pockengine.ir import Builder, DType, Graph, TensorType, Value
from pockengine.ops import Emitter
from pockengine.recipe import Recipe
from pockengine.targets import get

BATCH, TOKENS, ROWS, WIDTH, CLASSES = 3, 5, 2048, 128, 4
TABLE = "embed.weight"
RECIPE = Recipe(
    loss="cross_entropy", optimizer={"name": "sgd", "lr": 0.1}, update=[{"params": "fc.weight"}], batch=BATCH
)


def _weights(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {TABLE: (ROWS, WIDTH), "fc.weight": (CLASSES, WIDTH)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def _graph(tied: bool = False, shifted: bool = False) -> Graph:
    """tied: the table is also a factor; shifted: other rows than the input says."""
    builder = Builder("embedding")
    e, ids = Emitter(builder), builder.input("ids", TensorType(DType.I64, (BATCH, TOKENS)))
    p = {name: builder.param(name, TensorType(DType.F32, array.shape), array) for name, array in _weights().items()}
    flat: Value = e.reshape(ids, (BATCH * TOKENS,))
    h = e.op("gather", p[TABLE], e.add(flat, 1) if shifted else flat, axis=0)
    h = e.mean(e.op("tanh", e.reshape(h, (BATCH, TOKENS, WIDTH))), [1], keepdims=False)
    if tied:
        h = e.matmul(e.matmul(h, p[TABLE], trans_b=True), p[TABLE])
    builder.outputs = {"logits": e.matmul(h, p["fc.weight"], trans_b=True)}
    return builder.finish()


def _logits(p: dict[str, Tensor], ids: np.ndarray) -> Tensor:
    return F.linear(torch.tanh(F.embedding(torch.from_numpy(ids), p[TABLE])).mean(1), p["fc.weight"])


def _batch(seed: int = 7) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, ROWS, (BATCH, TOKENS))
    ids[0, :3] = 0, ROWS - 1, ROWS - 1
    return {"ids": ids, "labels": rng.integers(0, CLASSES, BATCH)}


def _tensors(weights: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array.copy()) for name, array in weights.items()}


def test_a_table_takes_the_memory_of_its_rows() -> None:
    planned = plan_programs(Request(_graph(), RECIPE, get("raspberry-pi-4")))
    assert [one.table for one in planned.streamed] == [TABLE]
    sizes = summary(planned, kernels=0)
    assert sizes["param_bytes"] == CLASSES * WIDTH * 4, "the last layer alone"
    assert sizes["input_bytes"] < 2 * BATCH * TOKENS * WIDTH * 4
    assert sizes["parameters"] == (ROWS + CLASSES) * WIDTH


@pytest.mark.parametrize("graph", [_graph(tied=True), _graph(shifted=True)], ids=["tied", "shifted"])
def test_other_tables_are_in_memory(graph: Graph) -> None:
    assert not plan_programs(Request(graph, RECIPE, get("raspberry-pi-4"))).streamed


def test_a_trained_table_is_in_memory() -> None:
    assert not plan_programs(Request(_graph(), RECIPE.with_(update="full"), get("raspberry-pi-4"))).streamed


def test_steps_and_everyone_else_find_the_contents(tmp_path: Path) -> None:
    artifact = compile(_graph(), RECIPE, "host", 2)
    session, weights = artifact.load(), _weights()
    leaf = _tensors(weights)
    leaf["fc.weight"].requires_grad_()
    for step in range(3):
        batch = _batch(step)
        loss = F.cross_entropy(_logits(leaf, batch["ids"]), torch.from_numpy(batch["labels"]))
        loss.backward()
        assert session.step(batch) == pytest.approx(loss.item(), rel=1e-5)
        with torch.no_grad():
            gradient = leaf["fc.weight"].grad
            assert gradient is not None
            leaf["fc.weight"] -= 0.1 * gradient
        leaf["fc.weight"].grad = None
    np.testing.assert_array_equal(session.state()[TABLE], weights[TABLE])
    session.save(tmp_path / "saved.safetensors")
    saved = load_file(tmp_path / "saved.safetensors")
    np.testing.assert_array_equal(saved[TABLE], weights[TABLE])
    np.testing.assert_allclose(saved["fc.weight"], leaf["fc.weight"].detach().numpy(), rtol=1e-4, atol=1e-6)
    session.load(tmp_path / "saved.safetensors")

    session.set_tensor(TABLE, weights[TABLE])
    others = _weights(1)[TABLE]
    with pytest.raises(DataError, match="'embed.weight' differs from the one compiled in"):
        session.set_tensor(TABLE, others)
    save_file({TABLE: others}, tmp_path / "others.safetensors")
    with pytest.raises(DataError, match="'embed.weight' differs from the one compiled in"):
        session.load(tmp_path / "others.safetensors")
    expected = _logits(leaf, batch["ids"]).detach().numpy()
    np.testing.assert_allclose(session.predict({"ids": batch["ids"]})["logits"], expected, rtol=1e-4, atol=1e-5)


def test_the_executable_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    model = compile(_graph(), RECIPE, "host", 1).unpack() / "bin/model"
    batches = [_batch(seed) for seed in range(4)]
    data = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    save_file(data, tmp_path / "data.safetensors")

    def train(steps: int, name: str, *more: str) -> list[float]:
        options: list[str | Path] = [
            "--steps",
            str(steps),
            "--report",
            tmp_path / name,
            "--save",
            tmp_path / f"{name}.safetensors",
        ]
        subprocess.run([model, "train", "--data", tmp_path / "data.safetensors", *options, *more], check=True)
        return list(json.loads((tmp_path / name).read_text())["loss"])

    checkpoint = str(tmp_path / "checkpoint")
    whole = train(4, "whole")
    assert train(2, "first", "--checkpoint", checkpoint, "--checkpoint-every", "2") == whole[:2]
    assert train(4, "second", "--resume", checkpoint) == whole[2:]
    ends = [load_file(tmp_path / f"{name}.safetensors") for name in ("whole", "second")]
    for name in (TABLE, "fc.weight"):
        np.testing.assert_array_equal(ends[0][name], ends[1][name])
