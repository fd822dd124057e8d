"""The program that starts kernels on a GPU of NVIDIA's: runs, reports, resuming and sessions as of any other, and one
sentence for each trouble."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pockengine.artifact import Artifact
from pockengine.codegen.gpu.launches import calls_of, grids_of
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.insight import profile, trace_events
from pockengine.ir import Array
from pockengine.plan.program import Grid
from tests.compiler.codegen.cuda.driver import here, make_driver, needs_compiler
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.training.test_runs import EVERYTHING, Program, dataset, tokens

pytestmark = needs_compiler

SPACES = ("arena", "param", "state", "const", "input")
PAGE = 4096
TRAIN = ("train", "--data", "train.st", "--steps", 6, "--seed", 5, "--eval-data", "eval.st")


@pytest.fixture(scope="module")
def planned() -> list[Planned]:
    """What the model below is planned to be, once `programs` has it compiled."""
    return []


@pytest.fixture(scope="module")
def grids(programs: dict[str, Program], planned: list[Planned]) -> dict[str, Grid]:
    """How each kernel is started, by symbol."""
    return {symbol: grid for symbol, (grid, _) in grids_of(calls_of(planned[0].programs)).items()}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory, planned: list[Planned]) -> Iterator[dict[str, Program]]:
    """A model with dropout, accumulation, averages, clipping and a schedule, by both backends, beside its data, where
    there is a driver."""
    folder = tmp_path_factory.mktemp("programs")
    save_file(dataset(19, 1), folder / "train.st")
    save_file(dataset(11, 2), folder / "eval.st")
    gpu = compile(tokens(masked=True), EVERYTHING, here(), 1, inspect=lambda made, _: planned.append(made))
    built = {"c": compile(tokens(masked=True), EVERYTHING, threads=1), "cuda": gpu}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(make_driver(planned[0].programs, tmp_path_factory.mktemp("driver"))))
        yield {name: Program(artifact, folder) for name, artifact in built.items()}


@pytest.mark.parametrize("memory", ["own", "eager", "integrated", "unpinned"])
def test_a_run_tells_what_machine_code_tells(
    programs: dict[str, Program], memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", memory)
    told = {name: program.run(*TRAIN, "--save", f"{name}.st") for name, program in programs.items()}
    assert [list(event) for event in told["cuda"]] == [list(event) for event in told["c"]]
    for mine, theirs in zip(told["cuda"], told["c"], strict=True):
        assert _floats(mine) == pytest.approx(_floats(theirs), rel=1e-4)
    weights = {name: load_file(program.folder / f"{name}.st") for name, program in programs.items()}
    for key, array in weights["c"].items():
        np.testing.assert_allclose(weights["cuda"][key], array, rtol=1e-3, atol=1e-5, err_msg=key)


def _floats(event: dict[str, Any]) -> list[float]:
    return [value for value in event.values() if isinstance(value, float)]


def test_launches_are_replayed_as_one_graph_a_program(
    programs: dict[str, Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    program = programs["cuda"]
    program.run(*TRAIN[:7])
    replays, taken, overlapped = map(int, (tmp_path / "log").read_text().split())
    spaces = json.loads(program.call("info").stdout)
    assert replays == overlapped == 6 * spaces["accumulate"]
    planned = sum(spaces[f"{space}_bytes"] for space in SPACES) + spaces["input_bytes"]
    assert planned <= taken <= planned + 6 * PAGE


@pytest.mark.parametrize("memory", ["tight", "integrated", "unpinned"])
def test_without_memory_for_them_inputs_come_in_their_turn(
    programs: dict[str, Program], memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = programs["cuda"]
    spaces = json.loads(program.call("info").stdout)
    planned = sum(-(-spaces[f"{space}_bytes"] // PAGE) * PAGE for space in SPACES)
    expected = program.run(*TRAIN)
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FAKE", memory)
    if memory == "tight":
        monkeypatch.setenv("FAKE_MEMORY", str(planned))
    assert program.run(*TRAIN) == expected
    assert (tmp_path / "log").read_text().split()[2] == "0"


@pytest.mark.parametrize("copies", ["own", "eager"])
def test_evaluations_and_an_early_end_between_steps(
    programs: dict[str, Program], copies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that was made ready is another one then."""
    monkeypatch.setenv("FAKE", copies)
    often = (*TRAIN[:3], "--epochs", 3, *TRAIN[5:], "--eval-every", 1, "--patience", 2)
    told = {name: program.run(*often) for name, program in programs.items()}
    assert [event["event"] for event in told["cuda"]] == [event["event"] for event in told["c"]]
    for mine, theirs in zip(told["cuda"], told["c"], strict=True):
        assert _floats(mine) == pytest.approx(_floats(theirs), rel=1e-4)
    for program in programs.values():
        assert program.call("predict", "--data", "train.st", "--out", f"{copies}.st").returncode == 0
        found = load_file(program.folder / f"{copies}.st")
        kept = program.folder / "expected.st"
        if program is programs["c"]:
            save_file(found, kept)
        for key, array in load_file(kept).items():
            np.testing.assert_allclose(found[key], array, rtol=1e-3, atol=1e-5)


def test_what_is_wrong_with_a_batch_is_said_when_its_turn_comes(
    programs: dict[str, Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = dataset(19, 1)
    name = next(name for name, array in bad.items() if array.dtype == np.int64 and array.ndim == 2)
    bad[name] = bad[name].copy()
    bad[name][8:] = 1 << 40
    save_file(bad, programs["cuda"].folder / "bad.st")
    done = {
        name: program.call("train", "--data", "bad.st", "--steps", 6, "--no-shuffle")
        for name, program in programs.items()
    }
    assert done["cuda"].returncode == 3 and done["cuda"].stderr == done["c"].stderr
    assert done["cuda"].stdout.count('"step"') == done["c"].stdout.count('"step"') > 0


def test_a_run_resumes_as_if_it_had_not_ended(programs: dict[str, Program]) -> None:
    program = programs["cuda"]
    whole = program.run(*TRAIN, "--save", "whole.st")
    first = program.run(*TRAIN[:3], "--steps", 2, *TRAIN[5:], "--checkpoint", "c", "--checkpoint-every", 9)
    rest = program.run(*TRAIN, "--resume", "c", "--save", "rest.st")
    assert [event for event in first + rest if event["event"] == "step"] == [
        event for event in whole if event["event"] == "step"
    ]
    assert (program.folder / "rest.st").read_bytes() == (program.folder / "whole.st").read_bytes()


def test_a_profile_has_the_gpus_own_time_of_each_kernel(
    programs: dict[str, Program], grids: dict[str, Grid], tmp_path: Path
) -> None:
    programs["cuda"].artifact.save(tmp_path / "m.pock")
    found = profile(tmp_path / "m.pock", programs["cuda"].folder / "train.st", steps=3)
    assert found.kernels and found.peak is None
    for kernel in found.kernels:
        assert kernel.ms == pytest.approx(grids[kernel.kernel].blocks / 1024), kernel.kernel
    events = [event for event in trace_events(found)["traceEvents"] if event["ph"] == "X"]
    assert [event["dur"] for event in events] == [kernel.ms * 1e3 for kernel in found.kernels]


def test_a_profiled_run_computes_the_same(programs: dict[str, Program]) -> None:
    assert programs["cuda"].run(*TRAIN, "--profile", "--report", "r.json") == programs["cuda"].run(*TRAIN)


def test_a_session_gives_and_takes_its_tensors(programs: dict[str, Program], tmp_path: Path) -> None:
    found = {}
    for name, program in programs.items():
        program.artifact.save(tmp_path / f"{name}.pock")
        found[name] = apart(_twenty_steps, tmp_path / f"{name}.pock")
    np.testing.assert_allclose(found["cuda"][0], found["c"][0], rtol=1e-4)
    for key, array in found["c"][1].items():
        np.testing.assert_allclose(found["cuda"][1][key], array, rtol=1e-3, atol=1e-4, err_msg=key)


def _twenty_steps(artifact: Path) -> tuple[list[float], dict[str, Array]]:
    """Losses and tensors; half way, a parameter is read, changed and written."""
    samples = {name: value[:8] for name, value in dataset(19, 1).items()}
    with Artifact.open(artifact).load(threads=1, seed=3) as session:
        losses = [session.step(samples) for _ in range(10)]
        name, array = next((name, array) for name, array in session.state().items() if array.dtype == np.float32)
        session.set_tensor(name, array * 1.5)
        losses += [session.step(samples) for _ in range(10)]
        return losses, session.state()


@pytest.mark.parametrize(
    "trouble, code, part",
    [
        ("broken", 1, "the CUDA driver does not start"),
        ("old", 1, "the CUDA driver is of version 11.4, the kernels need 12.0: update NVIDIA's driver"),
        ("empty", 1, "the CUDA driver is here, but no GPU"),
        (
            "other",
            1,
            "Fake GPU has compute capability 7.7, 'tokens' was compiled for 8.7: compile it with --target sm_77",
        ),
        ("small", 5, "Fake GPU has 0.0 of 0.0 MB left: end other programs"),
        ("full", 5, "Fake GPU does not take the model's"),
        ("refuses", 1, "Fake GPU does not load the kernel k_"),
        ("lost", 1, "the step's results are lost; resume from the last checkpoint"),
    ],
)
def test_each_trouble_is_one_sentence(
    programs: dict[str, Program], monkeypatch: pytest.MonkeyPatch, trouble: str, code: int, part: str
) -> None:
    monkeypatch.setenv("FAKE", trouble)
    done = programs["cuda"].call(*TRAIN, "--save", f"{trouble}.st")
    assert (done.returncode, part in done.stderr, done.stderr.count("\n")) == (code, True, 1), done.stderr
    assert not (programs["cuda"].folder / f"{trouble}.st").exists()


def test_without_a_driver_the_program_says_so(programs: dict[str, Program], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH")
    done = programs["cuda"].call(*TRAIN)
    assert done.returncode == 1
    assert "there is no CUDA driver here: libcuda.so.1 is not found" in done.stderr


def test_it_is_for_other_processors_too() -> None:
    board = compile(tokens(masked=True), EVERYTHING, target="jetson-orin-nano", backend="cuda")
    executable = board.read(board.manifest.entry_points.executable)
    assert executable[:4] == b"\x7fELF" and executable[18] == 183  # EM_AARCH64
    assert board.manifest.backend == "cuda" and board.manifest.target["gpu"]["arch"] == "sm_87"
