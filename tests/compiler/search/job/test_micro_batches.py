"""A search that counts as fitting what keeps to the memory because a step takes its samples in micro-batches."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn
from typer.testing import CliRunner

import pockengine as pock
from pockengine.cli.app import app
from pockengine.compile import Request, plan_programs, predicted_peak_bytes
from pockengine.errors import MemoryBudgetError, PockError
from pockengine.ir import Graph
from pockengine.recipe import Recipe
from pockengine.search.choosing import Limits
from pockengine.search.job import Found, SearchRequest, run
from pockengine.search.report import report_page
from pockengine.targets import get

TARGET = get("raspberry-pi-4")
BATCH, SIZE, CLASSES = 8, 24, 5
BASE = Recipe("cross_entropy", {"name": "sgd", "lr": 0.05, "momentum": 0.9}, batch=BATCH)


@cache
def module() -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inputs in (3, 16, 16):
        layers += [nn.Conv2d(inputs, 16, 3, padding=1), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, CLASSES)).eval()


@cache
def network(batch: int = BATCH) -> Graph:
    """Images [batch, 3, 24, 24] through convolutions, whose activations are most of the memory, to 5 classes."""
    return pock.from_torch(module(), (torch.zeros(batch, 3, SIZE, SIZE),))


def peak(recipe: Recipe) -> int:
    """As `pock compile` plans it."""
    return predicted_peak_bytes(plan_programs(Request(network(recipe.batch or BATCH), recipe, TARGET, 1)))


def samples() -> dict[str, np.ndarray]:
    chance = np.random.default_rng(0)
    (image,) = (port.name for port in network().inputs)
    return {
        image: chance.standard_normal((64, 3, SIZE, SIZE), np.float32),
        "labels": chance.integers(0, CLASSES, 64),
    }


def request(share: float, **changes: Any) -> SearchRequest:
    """With a share of what training everything takes beyond the program itself."""
    whole = peak(BASE.with_(update="full"))
    program = plan_programs(Request(network(), BASE.with_(update="full"), TARGET, 1)).runtime_bytes
    limits = Limits(program + int(share * (whole - program)))
    settings = {"base": BASE, "limits": limits, "at_batch": network, **changes}
    return SearchRequest(**settings, graph=network(), data=samples(), target=TARGET, threads=1)


@pytest.fixture(scope="module")
def found() -> Found:
    return run(request(0.3))


def test_everything_is_trained_in_a_third_of_the_memory(found: Found) -> None:
    recipe = Recipe.parse(found.recipe)
    full = found.of("full")
    assert full is not None and found.chosen.gain == pytest.approx(full.gain)
    assert full.cost.peak_bytes == peak(BASE.with_(update="full")), "shown as a person would write it"
    count = found.chosen.micro_batches
    assert count > 1 and (recipe.batch, recipe.accumulate) == (BATCH // count, count)
    limit = found.limits.memory_bytes
    assert limit is not None and peak(recipe) == found.chosen.cost.peak_bytes <= limit
    assert f"takes its samples in {count} micro-batches, as `batch` and `accumulate` say" in found.recipe
    assert Found.from_mapping(found.to_mapping()) == found
    assert "micro-batches" in report_page(found)


def test_it_trains_as_whole_batches_do(found: Found) -> None:
    recipe = Recipe.parse(found.recipe)
    parts = pock.compile(network(recipe.batch or 0), recipe, threads=1).load()
    whole = pock.compile(network(), recipe.with_(batch=BATCH, accumulate=1, memory=None), threads=1).load()
    data = samples()
    for step in range(6):
        batch = {name: array[step * BATCH : (step + 1) * BATCH] for name, array in data.items()}
        assert parts.step(batch) == pytest.approx(whole.step(batch), rel=1e-5)
    for name, tensor in whole.state().items():
        np.testing.assert_allclose(parts.state()[name], tensor, rtol=1e-4, atol=1e-6, err_msg=name)


def test_it_brings_more_than_whole_batches() -> None:
    whole, found = (run(request(0.45, micro_batches=allowed, recompute=False)) for allowed in (False, None))
    assert whole.chosen.micro_batches == 1 and whole.chosen.gain < found.chosen.gain
    assert found.chosen.micro_batches > 1 and found.chosen.cost.step_ms > whole.chosen.cost.step_ms


def test_where_nothing_fits_at_once() -> None:
    asked = request(0.17)
    with pytest.raises(MemoryBudgetError, match="or use a smaller batch"):
        run(request(0.17, micro_batches=False))
    with pytest.raises(MemoryBudgetError, match="allow at least that$"):
        run(request(0.02))
    found = run(asked)
    recipe = Recipe.parse(found.recipe)
    assert found.chosen.micro_batches > 1 and asked.limits.keeps(found.chosen.cost)
    assert peak(recipe) == found.chosen.cost.peak_bytes
    assert found.front and all(point.micro_batches > 1 for point in found.front)
    assert found.chosen.gain <= found.chosen.bound


def test_where_it_would_train_otherwise() -> None:
    trained = BASE.with_(batch_norm="train")
    assert run(request(0.9, base=trained)).chosen.micro_batches == 1
    with pytest.raises(PockError, match="would train otherwise: batch norms"):
        run(request(0.9, base=trained, micro_batches=True))


def test_what_it_needs() -> None:
    with pytest.raises(PockError, match="give a limit of memory, or leave"):
        request(0.3, micro_batches=True, limits=Limits(step_ms=1.0))
    with pytest.raises(PockError, match="give at_batch, or leave"):
        request(0.3, micro_batches=True, at_batch=None)
    assert run(request(0.5, at_batch=None)).chosen.micro_batches == 1


def test_the_command(tmp_path: Path, found: Found) -> None:
    model, data, base, written = (tmp_path / name for name in ("m.onnx", "d.safetensors", "base.yaml", "found.yaml"))
    example = (torch.zeros(2, 3, SIZE, SIZE),)
    shapes = ({0: torch.export.Dim("batch")},)
    torch.onnx.export(module(), example, model, dynamo=True, dynamic_shapes=shapes, input_names=["x"], verbose=False)
    arrays = samples()
    (image,) = (name for name in arrays if name != "labels")
    save_file({"x": arrays[image], "labels": arrays["labels"]}, data)
    base.write_text(
        f"loss: cross_entropy\noptimizer: {{name: sgd, lr: 0.05, momentum: 0.9}}\nbatch: {BATCH}\nupdate: full\n"
    )
    limit = found.limits.memory_bytes
    asked = ["search", model, "--data", data, "--recipe", base, "--target", TARGET.name, "--threads", 1]
    asked += ["--memory", limit, "-o", written, "--json"]
    told = CliRunner().invoke(app, [str(one) for one in asked])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["chosen"]["micro_batches"] == Recipe.load(written).accumulate > 1
    told = CliRunner().invoke(app, [str(one) for one in [*asked, "--no-micro-batches"]])
    assert told.exit_code == 1 and "use a smaller batch" in str(told.exception)
