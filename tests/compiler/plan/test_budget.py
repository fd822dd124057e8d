"""Training within a given memory: it fits, it computes the same bits, and what cannot fit is refused with the least
that is possible."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pockengine.check import check
from pockengine.compile import Planned, Request, compile, plan_programs, predicted_peak_bytes, summary
from pockengine.errors import MemoryBudgetError
from pockengine.ir import Array, Graph
from pockengine.plan import Space
from pockengine.plan.budget import RESERVE
from pockengine.recipe import SGD, Recipe
from pockengine.targets import get
from tests.compiler.models import zoo
from tests.compiler.passes.networks import batch
from tests.compiler.plan.simulation import TrainingMemory, simulate
from tests.compiler.plan.test_place import NETWORKS, OPTIMIZERS
from tests.sweeps import some

MOMENTUM = SGD(lr=1e-3, momentum=0.9)
FULL = Recipe(optimizer=MOMENTUM, update="full", batch=zoo.BATCH)
STEPS = 5


@cache
def bottom_of(name: str) -> int:
    """The least memory for training all of a model of the zoo."""
    return least(zoo.graph(name), FULL)


def least(graph: Graph, recipe: Recipe, target: str = "host", threads: int = 2) -> int:
    """The least memory the compiler knows how to train with."""
    with pytest.raises(MemoryBudgetError) as raised:
        plan_programs(Request(graph, recipe, get(target), threads, memory=1))
    return raised.value.least_bytes


def within(graph: Graph, recipe: Recipe, memory: int | None) -> Planned:
    return plan_programs(Request(graph, recipe, get("host"), 2, memory=memory))


@pytest.mark.parametrize("batch_norm, optimizer", some(product(["frozen", "train"], OPTIMIZERS), 4))
def test_a_cnn_at_the_least_memory_trains_alike(batch_norm: str, optimizer: str) -> None:
    _at_the_least("cnn", Recipe(optimizer=OPTIMIZERS[optimizer], update="full", batch_norm=batch_norm))


def test_a_transformer_at_the_least_memory_trains_alike(tmp_path: Path) -> None:
    """And what was done for it is among the graphs after each pass."""
    _at_the_least("transformer", Recipe(optimizer=OPTIMIZERS["momentum"], update="full"), tmp_path)
    folders = {folder.name: sorted(file.name for file in folder.iterdir()) for folder in (tmp_path / "train").iterdir()}
    assert set(folders) == {"algebra", "shaping", "sparing", "ordering", "recomputing", "packing"}
    assert folders["recomputing"] == ["00_rematerialise.txt", "01_lower_peak.txt"]
    assert ".again : " in (tmp_path / "train" / "recomputing" / "00_rematerialise.txt").read_text()


def _at_the_least(network: str, recipe: Recipe, dump: Path | None = None) -> None:
    model, target = NETWORKS[network](batch=32), get("raspberry-pi-4")
    free = plan_programs(Request(model, recipe, target, threads=1))
    planned = plan_programs(
        Request(model, recipe, target, threads=1, memory=least(model, recipe, target.name, threads=1), dump=dump)
    )
    assert planned.recomputed.nodes and planned.arena_bytes < free.arena_bytes
    expected, found = simulated(free), simulated(planned)
    assert expected.keys() == found.keys()
    for key, contents in expected.items():
        np.testing.assert_array_equal(found[key], contents, err_msg=key)


def simulated(planned: Planned) -> dict[str, Array]:
    """Losses of three steps in the planned memory, and the parameters after them."""
    memory, results = TrainingMemory(planned), {}
    for seed in range(3):
        arrays = batch(planned.model, seed)
        for value in planned.inputs:
            memory.write(
                planned.spaces.places[Space.INPUT, value.name], arrays[value.name].astype(value.type.dtype.numpy)
            )
        results[f"loss {seed}"] = simulate(planned.programs["train"], memory)["loss"]
    for value in planned.model.params:
        results[value.name] = memory.read(planned.spaces.places[Space.PARAM, value.name], value)
    return results


@pytest.mark.parametrize("name", some(["bert", "mobilenet_v2"], 2))
def test_budgets_from_plenty_to_too_little(name: str) -> None:
    graph, recipe, bottom = zoo.graph(name), FULL, bottom_of(name)
    free = within(graph, recipe, None)
    peak = predicted_peak_bytes(free) + RESERVE
    assert bottom < 0.95 * peak
    assert within(graph, recipe, peak).recomputed.nodes == 0
    flops = [0]
    for part in (0.6, 0.0):
        memory = int(bottom + part * (peak - bottom))
        planned = within(graph, recipe, memory)
        assert predicted_peak_bytes(planned) + RESERVE <= memory
        figures = summary(planned, kernels=0)
        assert figures["recomputed_nodes"] == planned.recomputed.nodes
        assert figures["flops"] == summary(free, kernels=0)["flops"]
        assert planned.arena_bytes <= 1.01 * planned.lower_bound_bytes
        flops.append(figures["recomputed_flops"])
    assert flops == sorted(flops) and flops[-1], "less memory takes no less arithmetic"
    with pytest.raises(
        MemoryBudgetError, match=r"needs at least .* MiB \(\d+ bytes\).*optimizer state.*computed twice"
    ):
        within(graph, recipe, int(0.98 * bottom))


SMALL_STEPS = SGD(lr=1e-5, momentum=0.9)
"""So small that rounding does not grow a hundredfold with each of them, as statistics of so few samples make it."""
CASES = {
    "bert": Recipe(optimizer={"name": "adamw", "lr": 1e-4}, update="full", batch=zoo.BATCH, dropout=True),
    "mobilenet_v2": Recipe(optimizer=SMALL_STEPS, update="full", batch=zoo.BATCH, batch_norm="train"),
}


@pytest.mark.parametrize("name", some(CASES, 2))
def test_the_same_training_within_the_budget(name: str, tmp_path: Path) -> None:
    """But for rounding: what is computed twice has other readers, so another contraction may make it while packing."""
    graph, recipe = zoo.graph(name), CASES[name]
    bottom, peak = least(graph, recipe), predicted_peak_bytes(within(graph, recipe, None)) + RESERVE
    expected = _train(compile(graph, recipe, threads=2), name, tmp_path)
    for part in (0.4, 0.0):
        memory = int(bottom + part * (peak - bottom))
        built = compile(graph, recipe, threads=2, memory=memory)
        report = _train(built, name, tmp_path)
        np.testing.assert_allclose(report["loss"], expected["loss"], rtol=1e-5)
        for tensor, weights in expected["weights"].items():
            largest = np.abs(weights).max()
            np.testing.assert_allclose(report["weights"][tensor], weights, atol=1e-5 * largest, err_msg=tensor)
        assert report["peak_rss_bytes"] <= memory
    assert built.summary["recomputed_nodes"] > 0, "what the least memory is for"


def _train(built, name: str, folder: Path) -> dict:
    """The report of STEPS steps in a process of its own, and the weights."""
    batches = [zoo.MODELS[name].feeds(seed) for seed in range(STEPS)]
    save_file({key: np.concatenate([one[key] for one in batches]) for key in batches[0]}, folder / "data.safetensors")
    command = [
        str(built.unpack() / "bin/model"), "train", "--data", "data.safetensors", "--steps", str(STEPS),
        "--threads", "2", "--no-shuffle", "--report", "report.json", "--save", "weights.safetensors",
    ]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    report = json.loads((folder / "report.json").read_text())
    return {**report, "weights": load_file(folder / "weights.safetensors")}


def test_a_recipe_says_the_memory_unless_the_command_does() -> None:
    graph, bottom = zoo.graph("bert"), bottom_of("bert")
    said = FULL.with_(memory=bottom)
    assert predicted_peak_bytes(within(graph, said, None)) == predicted_peak_bytes(within(graph, FULL, bottom))
    assert within(graph, said, None).recomputed.nodes > 0
    assert within(graph, said, 1 << 40).recomputed.nodes == 0


def test_check_says_what_a_budget_costs() -> None:
    graph, recipe, bottom = zoo.graph("bert"), FULL, bottom_of("bert")
    told = check(graph, recipe, memory=bottom).estimate
    assert told is not None and told.summary["recomputed_nodes"] > 0
    refused = check(graph, recipe, memory=bottom // 2)
    assert refused.supported and refused.estimate is None
    assert "needs at least" in str(refused.recipes["recipe"])
