"""Running statistics of batch norms estimated on the device's data, against PyTorch's cumulative averages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

from pockengine.artifact import Artifact, Course, Session, train
from pockengine.artifact.run import model_command
from pockengine.codegen.samples import Order
from pockengine.compile import compile
from pockengine.errors import DataError, RecipeError
from pockengine.frontends import from_torch
from pockengine.ir import Array, Graph
from pockengine.recipe import Recipe
from tests.compiler.training.small_models import MODELS

BATCH, SAMPLES, CLASSES = 4, 23, 3
RECIPE = Recipe("cross_entropy", {"name": "sgd", "lr": 0.05}, [{"params": "head.*"}], norm_batches=3)
STATISTICS = ("first.running_mean", "first.running_var", "second.running_mean", "second.running_var")


class Normed(nn.Module):
    """x [batch, 2, 6, 6] -> scores [batch, classes]; two norms, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.stem, self.first = nn.Conv2d(2, 6, 3, bias=False), nn.BatchNorm2d(6)
        self.body, self.second = nn.Conv2d(6, 5, 3), nn.BatchNorm2d(5)
        self.head = nn.Linear(5, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(self.stem(x)))
        scores: torch.Tensor = self.head(torch.relu(self.second(self.body(hidden))).mean((2, 3)))
        return scores


def dataset() -> dict[str, Array]:
    """Far from what a fresh norm expects."""
    rng = np.random.default_rng(4)
    x = rng.normal(3.0, 2.0, (SAMPLES, 2, 6, 6)) * rng.uniform(0.5, 2, (SAMPLES, 1, 1, 1))
    return {"x": x.astype(np.float32), "labels": rng.integers(0, CLASSES, SAMPLES)}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return from_torch(Normed().eval(), (torch.zeros(BATCH, 2, 6, 6),))


@pytest.fixture(scope="module")
def compiled(graph: Graph) -> Artifact:
    return compile(graph, RECIPE, threads=2)


@pytest.fixture
def folder(compiled: Artifact, tmp_path: Path) -> Path:
    compiled.save(tmp_path / "model.pock")
    save_file(dataset(), tmp_path / "d")
    return tmp_path


def by_torch(samples: list[int]) -> tuple[Normed, dict[str, Array]]:
    """The module after `update_bn`, and its statistics."""
    module = Normed().train()
    for norm in (module.first, module.second):
        norm.reset_running_stats()
        norm.momentum = None
    x = torch.from_numpy(dataset()["x"][samples])
    with torch.no_grad():
        for batch in x.split(BATCH):
            module(batch)
    return module.eval(), {name: module.get_buffer(name).numpy() for name in STATISTICS}


def order(count: int, seed: int) -> list[int]:
    return [Order(SAMPLES, seed).at(position) for position in range(count)]


def run(folder: Path, *arguments: object) -> list[dict[str, object]]:
    command = model_command(folder / "model.pock", "train", ["--data", "d", *map(str, arguments)])
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def close(found: dict[str, Array], expected: dict[str, Array]) -> None:
    for name in STATISTICS:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5, err_msg=name)


def _session(artifact: Artifact) -> Session:
    return artifact.load(threads=1)


def test_the_session_estimates_as_pytorch(compiled: Artifact) -> None:
    module, expected = by_torch(list(range(20)))
    with _session(compiled) as session:
        assert session.estimate_norms({"x": dataset()["x"]}) == 5  # whole batches of 23 samples
        close(session.state(), expected)
        x = dataset()["x"][:7]
        with torch.no_grad():
            scores = module(torch.from_numpy(x)).numpy()
        (found,) = session.predict({"x": x}).values()
        np.testing.assert_allclose(found, scores, rtol=1e-4, atol=1e-4)
        with pytest.raises(DataError, match="need its 4 samples, and there are 3"):
            session.estimate_norms({"x": dataset()["x"][:3]})


def test_a_run_estimates_before_its_first_step(folder: Path) -> None:
    events = run(folder, "--steps", 1, "--seed", 7, "--save", "w", "--save-trained", "t")
    module, expected = by_torch(order(3 * BATCH, 7))
    close(load_file(folder / "w"), expected)
    close(load_file(folder / "t"), expected)
    report = events[-1]["report"]
    assert isinstance(report, dict) and report["norm_batches"] == 3
    first = order(BATCH, 7)
    scores = module(torch.from_numpy(dataset()["x"][first]))
    loss = nn.functional.cross_entropy(scores, torch.from_numpy(dataset()["labels"][first]))
    (step,) = [event for event in events if event["event"] == "step"]
    assert step["loss"] == pytest.approx(loss.item(), rel=1e-4)


def test_what_is_held_out_is_not_seen(folder: Path, compiled: Artifact) -> None:
    """Python and the executable take the same samples, of those that are trained on."""
    run(folder, "--steps", 2, "--eval-share", 0.3, "--seed", 2, "--save", "w")
    with _session(compiled) as session:
        trained = train(session, dataset(), Course(steps=2, eval_share=0.3, seed=2))
        state = session.state()
    kept = np.setdiff1d(np.arange(SAMPLES), trained.held_out)
    _, expected = by_torch([int(kept[Order(len(kept), 2).at(position)]) for position in range(3 * BATCH)])
    close(state, expected)
    assert all(state[name].tobytes() == array.tobytes() for name, array in load_file(folder / "w").items())


def test_a_resumed_run_does_not_estimate_again(folder: Path) -> None:
    whole = run(folder, "--steps", 6, "--seed", 3, "--save", "w")
    weights = (folder / "w").read_bytes()
    run(folder, "--steps", 2, "--seed", 3, "--checkpoint", "c", "--checkpoint-every", 2)
    rest = run(folder, "--steps", 6, "--resume", "c", "--save", "w")
    losses = [[e["loss"] for e in events if e["event"] == "step"] for events in (whole, rest)]
    assert losses[1] == losses[0][2:]
    assert (folder / "w").read_bytes() == weights
    report = rest[-1]["report"]
    assert isinstance(report, dict) and "norm_batches" not in report


def test_less_data_than_it_asks_for(folder: Path) -> None:
    few = {name: array[:9] for name, array in dataset().items()}
    save_file(few, folder / "d")
    report = run(folder, "--steps", 1, "--no-shuffle", "--save", "w")[-1]["report"]
    assert isinstance(report, dict) and report["norm_batches"] == 2
    close(load_file(folder / "w"), by_torch(list(range(8)))[1])


def test_the_reference_backend_estimates_alike(graph: Graph, tmp_path: Path) -> None:
    compile(graph, RECIPE, backend="reference").save(tmp_path / "model.pock")
    save_file(dataset(), tmp_path / "d")
    report = run(tmp_path, "--steps", 1, "--seed", 7, "--save", "w")[-1]["report"]
    assert isinstance(report, dict) and report["norm_batches"] == 3
    close(load_file(tmp_path / "w"), by_torch(order(3 * BATCH, 7))[1])


def test_where_there_is_nothing_to_estimate(graph: Graph) -> None:
    with pytest.raises(RecipeError, match="each step updates the statistics: leave 'norm_batches' out"):
        RECIPE.with_(batch_norm="train")
    with pytest.raises(RecipeError, match="norm_batches must be at least 1"):
        RECIPE.with_(norm_batches=0)
    with pytest.raises(RecipeError, match="no batch norm with running statistics"):
        compile(MODELS["perceptron"].build(), Recipe({"name": "mse", "output": "logits"}, norm_batches=1))
    assert "norm_batches" not in Recipe().to_mapping()
