"""Weights and state that stay in the host's memory: ten steps as PyTorch's, copies while kernels compute, and what the
GPU is spared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pockengine.check.speed import clock_of
from pockengine.cli.console import figures
from pockengine.codegen import backends
from pockengine.compile import Request, Scope, compile, plan_programs, step_cycles
from pockengine.compile.pack import summary
from pockengine.compile.planned import Planned
from pockengine.errors import RecipeError
from pockengine.ir import DType, Graph, TensorType
from pockengine.passes import offload
from pockengine.plan.space import IN_MEMORY, Space
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.codegen.cuda.driver import beside, here, make_driver, needs_compiler
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.models import zoo
from tests.compiler.models.agreement import Agreement, compared
from tests.compiler.models.test_ten_steps import OPTIMIZERS
from tests.compiler.passes.networks import Net
from tests.compiler.training.test_runs import EVERYTHING, Program, dataset, tokens
from tests.sweeps import some

pytestmark = needs_compiler

LEAST = 1 << 10
"""Bytes from which tensors are offloaded: the models are small."""
PAGE = 4096
BOTH = ("frozen", "state")
RECIPES = {
    "state": Recipe(optimizer=OPTIMIZERS["adamw"], update="full", batch=zoo.BATCH, offload="state"),
    "both": Recipe(
        optimizer=OPTIMIZERS["adamw"], update=zoo.UPDATES["bert"]["channels"], batch=zoo.BATCH, offload=BOTH
    ),
}


@pytest.mark.parametrize("offloaded, streams", some(product(RECIPES, ("late", "eager")), 3))
def test_ten_steps(offloaded: str, streams: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Planned] = []
    graph = zoo.graph("bert")
    monkeypatch.setattr(offload, "LEAST_BYTES", LEAST)
    compile(graph, RECIPES[offloaded].bound(graph), beside(), 2, inspect=lambda made, _: planned.append(made))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(make_driver(planned[0].programs, tmp_path)))
    monkeypatch.setenv("FAKE", streams)
    found = apart(_compared, offloaded)
    assert found.updated
    assert not found.problems
    sizes = planned[0].spaces.sizes
    assert sizes[Space.STATE] < LEAST * 64 < sizes[Space.HOST]
    whole = sum(value.type.nbytes for value in graph.params)
    assert (sizes[Space.PARAM] < whole / 3) == (offloaded == "both")


def _compared(offloaded: str) -> Agreement:
    offload.LEAST_BYTES = LEAST
    return compared(zoo.MODELS["bert"], zoo.graph("bert"), RECIPES[offloaded], target=beside())


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Program]]:
    """A model with accumulation and averages, which evaluation reads, on a processor and with its state offloaded."""
    folder, planned = tmp_path_factory.mktemp("programs"), list[Planned]()
    save_file(dataset(19, 1), folder / "train.st")
    save_file(dataset(11, 2), folder / "eval.st")
    graph = tokens(masked=True)
    with pytest.MonkeyPatch.context() as patch:
        there = EVERYTHING.with_(offload=BOTH)
        with pytest.MonkeyPatch.context() as small:
            small.setattr(offload, "LEAST_BYTES", 64)
            built = {
                "c": compile(graph, EVERYTHING, threads=1),
                "there": compile(graph, there, beside(), 1, inspect=lambda made, _: planned.append(made)),
            }
        patch.setenv("LD_LIBRARY_PATH", str(make_driver(planned[0].programs, tmp_path_factory.mktemp("driver"))))
        yield {name: Program(artifact, folder) for name, artifact in built.items()}


TRAIN = ("train", "--data", "train.st", "--seed", 5, "--eval-data", "eval.st", "--steps")


@pytest.mark.parametrize("streams", ["late", "eager"])
def test_a_run_that_ends_and_goes_on(
    programs: dict[str, Program], streams: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", streams)
    program = programs["there"]
    expected = programs["c"].run(*TRAIN, 6, "--save", "c.st")
    first = program.run(*TRAIN, 2, "--checkpoint", "k", "--checkpoint-every", 9)
    rest = program.run(*TRAIN, 6, "--resume", "k", "--save", "there.st")
    assert [event["event"] for event in rest] == [event["event"] for event in expected[2:]]
    for mine, theirs in zip((*first[:2], *rest), expected, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
    weights = load_file(program.folder / "c.st")
    for key, array in load_file(program.folder / "there.st").items():
        np.testing.assert_allclose(array, weights[key], rtol=1e-3, atol=1e-5, err_msg=key)


def wide() -> Graph:
    """A model whose optimizer has two moments of a mebibyte."""
    net = Net("wide", seed=1)
    return net.finish(net.linear(net.builder.input("x", TensorType(DType.F32, (4, 512))), "fc", 512))


WIDE = Recipe(loss="mse", optimizer="adamw")


def test_the_gpu_is_spared_what_is_offloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Planned] = []
    recipes = {"here": WIDE, "there": WIDE.with_(offload="state")}
    built = {
        name: compile(wide(), recipe, beside(), 1, inspect=lambda made, _: planned.append(made))
        for name, recipe in recipes.items()
    }
    save_file({name: np.zeros((4, 512), np.float32) for name in ("x", "labels")}, tmp_path / "d.st")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(make_driver(planned[1].programs, tmp_path)))
    programs = {name: Program(artifact, tmp_path) for name, artifact in built.items()}
    told = {name: json.loads(program.call("info").stdout) for name, program in programs.items()}
    spared = told["here"]["predicted_peak_bytes"] - told["there"]["predicted_peak_bytes"]
    assert told["here"]["host_bytes"] == 0 < spared == told["there"]["host_bytes"] == 2 << 20
    needed = sum(told["there"][f"{name}_bytes"] + PAGE for name in IN_MEMORY)
    monkeypatch.setenv("FAKE_MEMORY", str(needed))
    asked = ("train", "--data", "d.st", "--steps", 1)
    assert programs["there"].call(*asked).returncode == 0
    refused = programs["here"].call(*asked)
    assert refused.returncode != 0 and "MB left" in refused.stderr
    monkeypatch.setenv("FAKE", "pageable")
    refused = programs["there"].call(*asked)
    assert refused.returncode != 0
    assert "offloads 2.1 MB, which the driver does not pin in this machine's memory" in refused.stderr


def test_where_there_is_one_memory_nothing_is_offloaded() -> None:
    asked = EVERYTHING.with_(offload="state")
    for target in (get("host"), here(), get("jetson-orin-nano-gpu")):
        with pytest.raises(RecipeError, match=f"needs a GPU with memory of its own.* on '{target.name}': leave 'off"):
            compile(tokens(masked=True), asked, target)
    for wrong, said in (
        ("frosen", "did you mean 'frozen'"),
        (3, "a list of them, not a whole"),
        ([["state"]], "a list"),
    ):
        with pytest.raises(RecipeError, match=said):
            EVERYTHING.with_(offload=wrong)
    assert Recipe(offload=["state", "frozen", "state"]).offload.what == BOTH
    assert Recipe.from_mapping(asked.to_mapping()) == asked


def test_the_link_is_part_of_the_expected_time() -> None:
    target = get("rtx-4090")

    def seconds(**changes: object) -> float:
        asked = Request(wide(), WIDE.with_(**changes), target, 1, backend=backends.of(target), scope=Scope.TRAINING)
        planned = plan_programs(asked)
        return step_cycles(planned).step / clock_of(target)

    assert target.gpu is not None
    moments = 2 * 4 * 512 * 512 / (target.gpu.link_mb_per_s * 1e6)
    assert seconds(offload="state") - seconds() == pytest.approx(moments, rel=0.05)


def test_people_are_told_what_is_where() -> None:
    planned = plan_programs(Request(wide(), WIDE.with_(offload="state"), get("h100"), 1, backend=backends.get("cuda")))
    assert "and 2.1 MB in the host's memory" in figures(summary(planned, 1))["peak memory"]
    assert "host" not in figures(summary(planned, 1) | {"host_bytes": 0})["peak memory"]
