"""How products are made on a GPU, as tuning sees it: each choice computes the same, is measured on the device that is
here (PoCL; a driver of CUDA that emulates kernels), tried in packs, and kept."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from pockengine.codegen import backends
from pockengine.codegen.cuda import device as cuda_device
from pockengine.codegen.cuda.architecture import architecture_of
from pockengine.codegen.cuda.backend import CudaBackend
from pockengine.codegen.cuda.build import report_of
from pockengine.codegen.gpu.contraction import matrix
from pockengine.codegen.gpu.contraction.kernels import Pick, Products, Reported
from pockengine.codegen.gpu.pace import resident
from pockengine.codegen.native import host
from pockengine.codegen.native.host import said_by
from pockengine.codegen.opencl import backend as opencl
from pockengine.codegen.opencl.backend import OpenCLBackend
from pockengine.codegen.tunable import Measurer, PackLimits, RunLimits, Trial
from pockengine.ir import Node
from pockengine.plan.program import SCRATCH, Kernel
from pockengine.targets import Target, get
from pockengine.tune import LocalStore, tune
from pockengine.tune.candidates import wanted
from pockengine.tune.packing import packed, unknown
from pockengine.tune.reference import differs, draw, expected
from pockengine.tune.store import Result
from pockengine.tune.workload import workloads_of
from tests.compiler.codegen.cuda.driver import driver_of, here, needs_compiler
from tests.compiler.codegen.opencl.library import needs_device
from tests.compiler.tune.workloads import DEPTHWISE, STRIDED, bare, product, relu_convolution, relu_product

HOST = get("host")
CAPABILITY = Path(cuda_device.__file__)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled kernels, shared by the tests of this file."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def _kernel_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What OpenCL's driver compiled is not kept in the user's cache."""
    monkeypatch.setenv("POCK_KERNEL_CACHE", str(tmp_path / "kernels"))


def nodes() -> list[Node]:
    """Sums that are cut, tiles, an epilogue with two outputs, few channels, an image's gradient."""
    return [
        product(37, 50, 900),
        relu_product(33, 47, 65),
        bare("conv2d", "f32[1,9,9,32]", "f32[32,1,3,3]", **DEPTHWISE),
        bare("conv2d_dx", "f32[1,7,7,8]", "f32[8,16,3,3]", **STRIDED),
    ]


def trials(target: Target, backend: str, each: int) -> list[Trial]:
    """Some of the choices of each node."""
    made = []
    for node in nodes():
        tunable = backends.get(backend).tunable(node, target, 1)
        assert tunable is not None
        found = tunable.candidates(wide=True)
        kept = found[:: max(1, len(found) // each)]
        made.append(Trial(node, tuple(tunable.lower(one.choice) for one in kept)))
    return made


def check(measurer: Measurer, given: list[Trial], folder: Path) -> None:
    """Each candidate computes what the reference says, within its memory, and has been timed."""
    measurement = measurer.build(given, folder)
    for index, trial in enumerate(given):
        inputs = draw(trial.node)
        right = expected(trial.node, inputs)
        for one in measurement.run(index, inputs, RunLimits(2, 1e3, 1 << 12)):
            assert one.failure is None and not one.overrun and one.output is not None, one
            assert len(one.ms) == 2 and min(one.ms) > 0
            assert differs(trial.node, one.output.read_bytes(), right, trial.output_offsets) is None


def test_the_models_choice_is_the_first_and_the_usual_one() -> None:
    for name, target in (("opencl", HOST), ("cuda", here())):
        backend = backends.get(name)
        for node in nodes():
            tunable = backend.tunable(node, target, 1)
            assert tunable is not None
            few, many = tunable.candidates(), tunable.candidates(wide=True)
            assert len(many) == len({one.choice for one in many}) and [*few] == [*many][: len(few)]
            assert tunable.lower(few[0].choice) == tunable.lower() == backend.lower(node, target, 1)
            cycles = [one.cycles for one in few]
            assert None not in cycles and cycles == sorted(cycles)  # type: ignore[type-var]
            plain = [json.loads(json.dumps(one.choice.to_plain())) for one in many]
            assert plain == [one.choice.to_plain() for one in many], "as a store keeps it"


def test_a_backend_with_choices_makes_them_and_says_so() -> None:
    node, backend = product(37, 50, 900), OpenCLBackend()
    tunable = backend.tunable(node, HOST, 1)
    assert tunable is not None
    usual, *others = (one.choice for one in tunable.candidates(wide=True))
    cut = next(one for one in others if one.to_plain()[0]["parts"] > 1)
    assert usual.to_plain() != cut.to_plain()
    key = backend.identity(node)
    assert key is not None
    tuned = backend.tuned({key: cut})
    assert tuned.lower(node, HOST, 1) == tunable.lower(cut) != backend.lower(node, HOST, 1)
    described = tuned.describe(node, HOST, 1, cut)
    assert described is not None and "sums in" in described.schedule and described.multiplies_in == "f32"
    assert len(tuned.lower(node, HOST, 1).calls) == 2
    narrow = replace(node, attrs={**node.attrs, SCRATCH: 0})
    assert len(tuned.lower(narrow, HOST, 1).calls) == 1, "there is no room for parts"
    unknown_way = backend.tuned({key: Products((Pick("by hand", 1),), "f32")})
    assert unknown_way.lower(node, HOST, 1) == backend.lower(node, HOST, 1), "of another version"


def test_formats_of_matrix_units_are_said() -> None:
    target = here().computing("bf16")
    tunable = CudaBackend().tunable(product(64, 64, 64), target, 1)
    assert tunable is not None
    found = tunable.candidates()
    assert {one.choice.multiplies_in for one in found} == {"bf16"} and "warps bf16" in found[0].choice.describe()


@needs_device
def test_choices_are_measured_on_the_device(cache: Path, tmp_path: Path) -> None:
    check(OpenCLBackend().measurer(HOST, 1, cache), trials(HOST, "opencl", 3), tmp_path)


@needs_device
def test_images_are_measured_on_the_device(cache: Path, tmp_path: Path) -> None:
    node = product(40, 48, 64)
    tunable = OpenCLBackend().tunable(node, HOST, 1)
    assert tunable is not None
    choices = [one.choice for one in tunable.candidates(wide=True)]
    found = [choice for choice in choices if "by images" in choice.describe()]
    assert found and choices[0] not in found
    check(
        OpenCLBackend().measurer(HOST, 1, cache),
        [Trial(node, tuple(tunable.lower(one) for one in found[:2]))],
        tmp_path,
    )


@needs_device
def test_what_was_measured_is_kept_for_the_device(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    (work,) = workloads_of([relu_product(20, 30, 40)], HOST, 1, OpenCLBackend())
    (first,) = tune([work], "fast", store, cache).workloads
    assert first.source == "measured" and first.tried > 1 and not first.rejected and first.ms
    (again,) = tune(workloads_of([relu_product(20, 30, 40)], HOST, 1, OpenCLBackend()), "fast", store, cache).workloads
    assert (again.source, again.choice) == ("cache", first.choice)
    monkeypatch.setattr(opencl, "device_here", lambda: "another driver")
    (other,) = tune(workloads_of([relu_product(20, 30, 40)], HOST, 1, OpenCLBackend()), "known", store, cache).workloads
    assert other.source == "model"


@needs_device
def test_a_pack_of_trials_runs_on_the_device(cache: Path, tmp_path: Path) -> None:
    backend, store = OpenCLBackend(), LocalStore(tmp_path)
    pack = packed(unknown(workloads_of(nodes()[:2], HOST, 1, backend), store), store)
    made = backend.pack([one.checked for one in pack], HOST, 1, PackLimits(1 << 12, 20.0, 1e-4), cache, lambda *_: None)
    file, wanted = tmp_path / "model", tmp_path / "params.safetensors"
    file.write_bytes(made.built.members["bin/model"])
    file.chmod(0o755)
    save_file({"wanted": made.numbers}, wanted)
    command = [str(file), "bench", "--params", str(wanted), "--steps", "3"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])["report"]["trials"]
    assert len(told) == sum(len(one.candidates) for one in pack)
    assert all(one["wrong"] == 0 and not one["overrun"] and min(one["ms"]) > 0 for one in told)


def test_without_a_device_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(opencl, "device_here", lambda: "")
    found = tune(workloads_of([product()], HOST, 1, OpenCLBackend()), "fast", LocalStore(tmp_path))
    assert found.why_not.endswith("is another machine than this one, so the model chose")


@needs_compiler
def test_choices_are_measured_through_nvidias_driver(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = trials(here(), "cuda", 2)
    calls = [call for trial in wanted for lowered in trial.candidates for call in lowered.calls]
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver_of(calls, tmp_path)))
    check(CudaBackend().measurer(here(), 1, cache), wanted, tmp_path)
    assert said_by(CAPABILITY) == "8.7" and CudaBackend().runs_here(here())


def test_without_a_driver_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    assert said_by(CAPABILITY) == "" and not CudaBackend().runs_here(get("h100"))


@needs_device
def test_drivers_are_asked_in_a_process_of_their_own() -> None:
    """Another LLVM than PoCL's may be loaded in this one."""
    text = (
        "from pathlib import Path; from pockengine.codegen.opencl.backend import OpenCLBackend as Backend; "
        "from pockengine.targets import get; assert Backend().environment(get('host'))['opencl']; "
        "print('libOpenCL' in Path('/proc/self/maps').read_text())"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_driver_that_fails_or_does_not_answer_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "device.py"
    script.write_text("import os; print('a GPU', flush=True); os.abort()")
    assert said_by(script) == ""
    monkeypatch.setattr(host, "_SECONDS", 0.3)
    script.write_text("import time; print('a GPU', flush=True); time.sleep(60)")
    assert said_by(script) == ""


def test_a_convolutions_choices_are_of_one_space() -> None:
    tunable = OpenCLBackend().tunable(relu_convolution(), HOST, 1)
    assert tunable is not None and tunable.family == "conv2d"
    ways = {one.choice.to_plain()[0]["way"] for one in tunable.candidates()}
    assert len(ways) == len(tunable.candidates()) > 3, "each template once"
    assert all(one.cycles is not None and np.isfinite(one.cycles) for one in tunable.candidates(wide=True))


@needs_compiler
def test_what_the_compiler_says_of_kernels_counts(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before they are measured: without those that spill, and slower where few blocks wait for a far memory."""
    monkeypatch.setattr(matrix, "LATENCY", 6000)
    node, target = relu_product(4096, 1032, 520), get("h200").computing("bf16")
    usual = CudaBackend().tunable(node, target, 1)
    assert usual is not None and usual.report is not None
    space = usual.candidates()
    assert {one.choice for one in usual.appraised(space, cache)} == {one.choice for one in space}

    def report(kernel: Kernel, cache: Path | None = None) -> Reported:
        assert usual.report is not None
        said = usual.report(kernel, cache)
        assert said == report_of(kernel, cache, architecture=architecture_of(target)) and 16 <= said.registers <= 255
        assert said.spill_bytes == 0
        return Reported(255, 4 if kernel.symbol == spilling else 0)

    spilling = usual.lower(space[2].choice).calls[0].kernel.symbol
    found = replace(usual, report=report).appraised(space, cache)
    cycles, before = ({one.choice: one.cycles or 0.0 for one in several} for several in (found, space))
    assert before.keys() - cycles.keys() == {space[2].choice} and [*cycles.values()] == sorted(cycles.values())
    assert all(cycles[choice] >= before[choice] for choice in cycles)
    assert any(cycles[choice] > before[choice] for choice in cycles), "fewer blocks at a time"


@needs_compiler
def test_what_was_best_for_its_like_keeps_its_turn(cache: Path, tmp_path: Path) -> None:
    """Behind the model's choice and the library's, in front of what the compiler's report puts first."""
    store, target = LocalStore(tmp_path), get("h200").computing("bf16")
    known, asked = workloads_of(
        [relu_product(4096, 1032, 520), relu_product(4096, 1032, 528)], target, 1, CudaBackend()
    )
    space = asked.tunable.candidates()
    assert known.tunable.candidates()[3].choice == space[3].choice
    store.put(known.inputs, Result(space[3].choice.to_plain(), 1.0, 2.0, "full", 9, 0))
    assert [one.choice for one in wanted(asked, store, 4, False, cache=cache)][:2] == [space[0].choice, space[3].choice]


def test_registers_say_how_many_blocks_there_are() -> None:
    assert [resident(registers, threads) for registers, threads in ((168, 384), (212, 128), (33, 256))] == [1, 2, 6]
