"""The program that starts kernels on an OpenCL device: the same runs, reports and errors as any other."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pockengine.artifact import Artifact
from pockengine.artifact.run import model_command
from pockengine.codegen import backends
from pockengine.codegen.gpu import lowering
from pockengine.compile import compile
from pockengine.errors import TargetError
from pockengine.ir import Array, DType, Node, TensorType, Value
from pockengine.targets import get
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import needs_device
from tests.compiler.codegen.test_narrow import matmul
from tests.compiler.training.test_runs import EVERYTHING, Program, dataset, tokens

TRAIN = ("train", "--data", "train.st", "--steps", 6, "--seed", 5, "--eval-data", "eval.st")
MOST_BYTES = 1 << 20


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Program]:
    """A model with dropout, accumulation, averages, clipping and a schedule, by both backends, beside its data."""
    folder = tmp_path_factory.mktemp("programs")
    save_file(dataset(19, 1), folder / "train.st")
    save_file(dataset(11, 2), folder / "eval.st")
    built = {name: compile(tokens(masked=True), EVERYTHING, threads=1, backend=name) for name in ("c", "opencl")}
    return {name: Program(artifact, folder) for name, artifact in built.items()}


@needs_device
def test_a_run_tells_what_machine_code_tells(programs: dict[str, Program]) -> None:
    told = {name: program.run(*TRAIN, "--save", f"{name}.st") for name, program in programs.items()}
    assert [list(event) for event in told["opencl"]] == [list(event) for event in told["c"]]
    for mine, theirs in zip(told["opencl"], told["c"], strict=True):
        assert _floats(mine) == pytest.approx(_floats(theirs), rel=1e-4)
    weights = {name: load_file(program.folder / f"{name}.st") for name, program in programs.items()}
    for key, array in weights["c"].items():
        np.testing.assert_allclose(weights["opencl"][key], array, rtol=1e-3, atol=1e-5, err_msg=key)


def _floats(event: dict[str, Any]) -> list[float]:
    return [value for value in event.values() if isinstance(value, float)]


@needs_device
def test_a_run_resumes_as_if_it_had_not_ended(programs: dict[str, Program]) -> None:
    program = programs["opencl"]
    whole = program.run(*TRAIN, "--save", "whole.st")
    first = program.run(*TRAIN[:3], "--steps", 2, *TRAIN[5:], "--checkpoint", "c", "--checkpoint-every", 9)
    rest = program.run(*TRAIN, "--resume", "c", "--save", "rest.st")
    assert [event for event in first + rest if event["event"] == "step"] == [
        event for event in whole if event["event"] == "step"
    ]
    assert (program.folder / "rest.st").read_bytes() == (program.folder / "whole.st").read_bytes()


@needs_device
def test_a_profile_has_a_time_for_each_kernel(programs: dict[str, Program]) -> None:
    program = programs["opencl"]
    program.run(*TRAIN, "--profile", "--report", "r.json")
    report = json.loads((program.folder / "r.json").read_text())
    manifest = program.artifact.manifest
    assert report["target"] == manifest.target["name"] and report["kernels"]
    assert all(kernel["ms"] > 0 for kernel in report["kernels"])


@needs_device
def test_a_session_takes_many_steps_and_gives_its_tensors(programs: dict[str, Program], tmp_path: Path) -> None:
    found = {}
    for name, program in programs.items():
        program.artifact.save(tmp_path / f"{name}.pock")
        found[name] = apart(_twenty_steps, tmp_path / f"{name}.pock")
    np.testing.assert_allclose(found["opencl"][0], found["c"][0], rtol=1e-4)
    assert found["opencl"][0][-1] < found["opencl"][0][0]
    for key, array in found["c"][1].items():
        np.testing.assert_allclose(found["opencl"][1][key], array, rtol=1e-3, atol=1e-4, err_msg=key)


def _twenty_steps(artifact: Path) -> tuple[list[float], dict[str, Array]]:
    """Losses and tensors."""
    samples = {name: value[:8] for name, value in dataset(19, 1).items()}
    with Artifact.open(artifact).load(threads=1, seed=3) as session:
        return [session.step(samples) for _ in range(20)], session.state()


@needs_device
def test_where_there_is_no_device_the_run_says_so(
    programs: dict[str, Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", "/nonexistent")
    done = programs["opencl"].call(*TRAIN)
    assert done.returncode == 1
    assert "OpenCL is here, but no device" in done.stderr and done.stderr.count("\n") == 1


def test_the_program_is_small_and_is_of_other_processors_too(programs: dict[str, Program]) -> None:
    members = programs["opencl"].artifact
    assert len(members.read(members.manifest.entry_points.executable)) < MOST_BYTES
    phone = compile(tokens(masked=True), EVERYTHING, target="snapdragon-8-gen-3", backend="opencl")
    executable = phone.read(phone.manifest.entry_points.executable)
    assert executable[:4] == b"\x7fELF" and executable[18] == 183  # EM_AARCH64
    assert phone.manifest.backend == "opencl"


def test_the_command_runs_it(programs: dict[str, Program], tmp_path: Path) -> None:
    path = tmp_path / "model.pock"
    programs["opencl"].artifact.save(path)
    command = model_command(path, "info", [])
    assert Path(command[0]).name == "model"


def _node(op: str, types: Sequence[TensorType], made: TensorType, **attrs: Any) -> Node:
    return Node(op, tuple(Value(f"x{i}", one) for i, one in enumerate(types)), (Value("y", made),), attrs)


@pytest.mark.parametrize(
    "node, part",
    [
        (_node("cast", [TensorType(DType.F32, (8,))], TensorType(DType.BIT, (8,)), to="bit"), "no masks of bits"),
        (_node("add", [TensorType(DType.BF16, (2,))] * 2, TensorType(DType.BF16, (2,))), "only reads and writes bf16"),
        (_node("matmul", [TensorType(DType.BOOL, (2, 2))] * 2, TensorType(DType.BOOL, (2, 2))), "no matmul of bool"),
    ],
)
def test_what_a_gpu_cannot_do_is_refused_with_a_reason(node: Node, part: str) -> None:
    assert part in (lowering.unsupported(node) or "")


def test_other_number_formats_are_refused() -> None:
    assert backends.get("opencl").limits(get("host")).formats == ("f32", "f16")
    for name in ("snapdragon-8-gen-3-gpu", "mali-g610"):
        assert get(name).computing("f16").compute == "f16"
    with pytest.raises(TargetError, match="'mali-g610' has no bf16 products .* choose f32 or f16 with --compute"):
        get("mali-g610").computing("bf16")
    with pytest.raises(TargetError, match="the backend 'opencl' does not multiply in bf16: choose f32 or f16"):
        compile(tokens(masked=True), EVERYTHING, "snapdragon-8-gen-3-gpu", compute="bf16")


@pytest.mark.parametrize("compute", ["f32", "f16"])
def test_a_gpu_of_nvidias_gets_what_opencl_has(compute: str) -> None:
    """No words of CUDA's."""
    node = matmul((64, 64, 64), False, False).node
    (call,) = backends.get("opencl").lower(node, get("rtx-4090").computing(compute), 1).calls
    assert not re.search(r"\b(COPY|MMA_|FRAGMENT|TENSOR)", call.kernel.source) and call.kernel.product is None
