"""Inputs with several rows a sample, as the patches of an image are, and outputs that are no samples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

import pockengine as pock
from pockengine.errors import DataError, RecipeError


class Patches(nn.Module):
    """Two samples, each of three patches and one vector."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, patches: Tensor, shift: Tensor) -> dict[str, Tensor]:
        h = self.patch(patches)
        whole = h.reshape(len(shift), -1, 5).mean(1) + shift
        return {"logits": self.head(whole), "parts": self.head(h), "norm": h.sum().reshape(1)}


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        "patches": generator.standard_normal((12, 4)).astype(np.float32),
        "shift": generator.standard_normal((4, 5)).astype(np.float32),
        "labels": generator.integers(0, 3, 4),
    }


def _cut(data: dict[str, np.ndarray], start: int, stop: int) -> dict[str, np.ndarray]:
    return {name: x[start * len(x) // 4 : stop * len(x) // 4] for name, x in data.items()}


def test_rows_of_a_sample_stay_together(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Patches()
    graph = pock.from_torch(module, (torch.zeros(6, 4), torch.zeros(2, 5)))
    assert graph.batch == 2
    loss = {"name": "cross_entropy", "output": "logits"}
    artifact = pock.compile(graph, pock.Recipe(loss=loss, optimizer={"name": "sgd", "lr": 0.1}, batch=2))
    artifact.save(tmp_path / "m.pock")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    tensors = {name: torch.from_numpy(x) for name, x in data.items()}
    expected = {name: x.detach().numpy() for name, x in module(tensors["patches"], tensors["shift"]).items()}
    with artifact.load() as session:
        found = session.predict(data)
        assert found.keys() == {"logits", "parts"}  # one number for the batch is no prediction
        for name, x in found.items():
            np.testing.assert_allclose(x, expected[name], rtol=1e-4, atol=1e-5)
        for start in (0, 2):
            part = _cut(data, start, start + 2)
            logits = module(torch.from_numpy(part["patches"]), torch.from_numpy(part["shift"]))["logits"]
            theirs = nn.functional.cross_entropy(logits, torch.from_numpy(part["labels"]))
            optimizer.zero_grad()
            theirs.backward()
            optimizer.step()
            assert np.isclose(session.step(part), theirs.item(), rtol=1e-5)
        with pytest.raises(DataError, match="'patches' has 5 rows, and the model reads 3 for each sample"):
            session.step({**_cut(data, 0, 2), "patches": data["patches"][:5]})
    _as_a_program(tmp_path, data, expected)


def _as_a_program(folder: Path, data: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """The executable cuts a file of four samples as the session does, and says what does not fit."""
    save_file(data, folder / "d.safetensors")
    save_file({**data, "patches": data["patches"][:11]}, folder / "bad.safetensors")
    command = [sys.executable, "-m", "pockengine.cli", "run", str(folder / "m.pock"), "predict", "--data"]
    subprocess.run([*command, str(folder / "d.safetensors"), "--out", str(folder / "p.safetensors")], check=True)
    found = load_file(folder / "p.safetensors")
    np.testing.assert_allclose(found["parts"], expected["parts"], rtol=1e-4, atol=1e-5)
    done = subprocess.run(
        [*command, str(folder / "bad.safetensors"), "--out", str(folder / "q.safetensors")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode and "has 11 rows, and the model reads 3 for each sample" in done.stderr
    assert not (folder / "q.safetensors").exists()


def test_a_loss_of_all_rows_counts_each(data: dict[str, np.ndarray]) -> None:
    torch.manual_seed(0)
    module = Patches()
    graph = pock.from_torch(module, (torch.zeros(6, 4), torch.zeros(2, 5)))
    loss = {"name": "cross_entropy", "output": "parts"}
    artifact = pock.compile(graph, pock.Recipe(loss=loss, optimizer={"name": "sgd", "lr": 0.1}))
    labels = np.arange(6).reshape(2, 3) % 3
    part = _cut(data, 0, 2)
    logits = module(torch.from_numpy(part["patches"]), torch.from_numpy(part["shift"]))["parts"]
    theirs = nn.functional.cross_entropy(logits, torch.from_numpy(labels.reshape(6)))
    with artifact.load() as session:
        assert np.isclose(session.step({**part, "labels": labels}), theirs.item(), rtol=1e-5)


def test_an_output_of_the_whole_batch_makes_it_one_sample(data: dict[str, np.ndarray]) -> None:
    torch.manual_seed(0)
    module, part = Patches(), _cut(data, 0, 2)
    graph = pock.from_torch(module, (torch.zeros(6, 4), torch.zeros(2, 5)))
    loss = {"name": "mse", "output": "norm"}
    with pytest.raises(RecipeError, match="the recipe says batch 2, but the model was imported for a batch of 1"):
        pock.compile(graph, pock.Recipe(loss=loss, batch=2))
    del part["labels"]
    theirs = module(*(torch.from_numpy(x) for x in part.values()))["norm"].square().mean()
    with pock.compile(graph, pock.Recipe(loss=loss)).load() as session:
        assert session.batch == 1
        assert np.isclose(session.step({**part, "labels": np.zeros(1, np.float32)}), theirs.item(), rtol=1e-4)
