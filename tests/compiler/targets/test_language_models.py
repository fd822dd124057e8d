"""The script that tells what language models take on GPUs, with a small one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu import language_models
from benchmarks.gpu.llama import MODELS, Shape, graph_of, write_checkpoint
from pockengine.codegen import backends
from pockengine.compile import Request, plan_programs
from pockengine.ir import DType
from pockengine.ops import widens
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.codegen.cuda.driver import needs_compiler

SMALL = MODELS["small"]


def _weights(shape: Shape) -> int:
    layer = 4 * shape.width**2 + 3 * shape.width * shape.hidden + 2 * shape.width
    return shape.layers * layer + shape.width + 2 * shape.vocabulary * shape.width


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("llama") / "model", SMALL)


def test_the_checkpoint_is_the_model_and_takes_no_disk(checkpoint: Path) -> None:
    graph = graph_of(checkpoint, 1, 32)
    assert sum(value.type.size for value in graph.params) == _weights(SMALL)
    assert {value.type.dtype for value in graph.params} == {DType.BF16}
    files = list(checkpoint.glob("*.safetensors"))
    assert sum(file.stat().st_size for file in files) > 2 * _weights(SMALL)
    assert sum(512 * file.stat().st_blocks for file in files) < 2 * _weights(SMALL) / 10


def test_no_frozen_weight_is_in_memory_as_f32(checkpoint: Path) -> None:
    """Nothing in the arena is as large as a matrix of the model, but for gradients of those that are trained; rows of
    the embedding are looked up as they are stored."""
    recipe = Recipe(loss="causal_lm", optimizer=language_models.SGD, update=[{"params": "model.layers.1.self_attn.*"}])
    target = replace(get("h200"), compute="bf16")
    request = Request(graph_of(checkpoint, 1, 32), recipe, target, backend=backends.get("cuda"))
    planned = plan_programs(request)
    frozen = [value for value in planned.model.params if value.type.dtype is DType.BF16 and value.type.rank == 2]
    assert len(frozen) == 12
    for program in planned.programs.values():
        nodes = [step.node for step in program.steps]
        made = {value.type for node in nodes for value in node.outputs if value.type.dtype is DType.F32}
        trained = {value.type for value in program.graph.updates}
        assert not {value.type.with_dtype(DType.F32) for value in frozen} & (made - trained)
        bodies = [node.body.nodes for node in nodes if node.body is not None]
        assert not [body for body in bodies if all(map(widens, body))]
        assert sum(any(map(widens, body)) for body in bodies) > 10


@pytest.mark.parametrize("optimizer", ["sgd", "int8"])
def test_no_trained_weight_is_in_memory_as_f32(checkpoint: Path, optimizer: str) -> None:
    """Products read the weights of bf16, and each update rounds what it makes of one. Gradients are as large: that of
    a table, and with 8-bit state the others, one after the other."""
    full = {"sgd": {"name": "sgd", "lr": 0.1}, "int8": {"name": "adamw", "state": "int8"}}[optimizer]
    recipe = Recipe(loss="causal_lm", optimizer=full, trained={"weights": "bf16"})
    target = replace(get("h200"), compute="bf16")
    planned = plan_programs(Request(graph_of(checkpoint, 1, 32), recipe, target, backend=backends.get("cuda")))
    large = {value: value.type for value in planned.model.params if value.type.rank == 2}
    assert {type.dtype for type in large.values()} == {DType.BF16} and len(large) == 16
    sizes = {type.size for type in large.values()}
    for name, program in planned.programs.items():
        nodes = [step.node for step in program.steps]
        assert not [node for node in nodes if node.body is not None and all(map(widens, node.body.nodes))]
        made = [(node, value.type.dtype) for node in nodes for value in node.outputs if value.type.size in sizes]
        assert DType.U32 not in {dtype for _, dtype in made}
        gradients = [node for node, dtype in made if dtype is DType.F32]
        assert name == "train" or not gradients
        assert all(node.phase == "backward" for node in gradients)
        assert optimizer == "int8" or [node.op for node in gradients] in ([], ["scatter_add"])


def test_the_table_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "gpu.md"
    document.write_text("before\n<!-- begin gpu-language-models -->\n<!-- end gpu-language-models -->\nafter\n")
    steps = ["sparse-short", "sparse-orin", "norms"]
    assert language_models.main(["--model", "small", "--step", *steps, "--write", str(document)]) == 0
    written = document.read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in written.splitlines() if line[:1] == "|"][2:]
    assert [row[:3] for row in rows] == [
        ["sparse", "`h200`", "1 x 512"],
        ["sparse", "`jetson-agx-orin`", "1 x 512"],
        ["norms alone (there are no biases)", "`h200`", "2 x 2048"],
    ]
    (fast, slow) = (float(row[7]) for row in rows[:2])
    assert fast > slow
    assert capsys.readouterr().out.strip() in written


@needs_compiler
def test_a_step_is_built_cold(checkpoint: Path) -> None:
    """In a process of its own: the seconds and the peak of memory are of the build, not of what ran here before."""
    found = language_models._built_alone("sparse-short", "small", checkpoint)
    assert found["artifact_bytes"] > 2 * _weights(SMALL) + found["program_bytes"]
    assert found["processor_seconds"] > 0 and 0 < found["peak_bytes"] < 4 << 30
