"""Products that cuBLASLt may make: every operand's turn and format, through a library in plain C, and programs with and
without it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pockengine.codegen import backends
from pockengine.codegen.cuda import library as library_here
from pockengine.codegen.cuda.backend import CudaBackend
from pockengine.codegen.gpu.contraction import kernels, libraries
from pockengine.codegen.native.host import said_by
from pockengine.codegen.tunable import RunLimits, Trial
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.ir import Builder, DType, Graph, Node, TensorType
from pockengine.ops import Emitter
from pockengine.plan.program import Lowered, Product
from pockengine.recipe import Recipe
from pockengine.targets import Target
from pockengine.tune import LocalStore, tune
from pockengine.tune.reference import differs, draw, expected
from pockengine.tune.workload import workloads_of
from tests.compiler.codegen.cuda.driver import add_library, beside, driver_of, here, make_driver, needs_compiler
from tests.compiler.codegen.gpu.test_rings import TURNS, convolution, matmul
from tests.compiler.codegen.harness import region_case
from tests.compiler.passes.networks import Net
from tests.compiler.training.test_runs import Program

pytestmark = needs_compiler

NUMBERS = {"f32": "0", "f16": "2", "bf16": "14"}
"""As the library calls them."""


SIZE, LARGE = (24, 40, 32), (136, 264, 32)
"""Rows, columns and terms; of the larger one there are several tiles."""


def bare(
    dtype: DType,
    given: DType,
    turns: tuple[bool, bool],
    batch: tuple[int, ...] = (),
    size: tuple[int, int, int] = SIZE,
) -> Node:
    """A product of stored operands, whose sums are stored as they are or rounded."""
    (m, n, k), (trans_a, trans_b), builder = size, turns, Builder("body")
    e = Emitter(builder)
    x = builder.input("x", TensorType(dtype, (*batch, k, m) if trans_a else (*batch, m, k)))
    w = builder.input("w", TensorType(dtype, (*batch, n, k) if trans_b else (*batch, k, n)))
    wide = [e.cast(value, DType.F32) if dtype is not DType.F32 else value for value in (x, w)]
    made = e.op("matmul", *wide, trans_a=trans_a, trans_b=trans_b)
    builder.outputs = {"y": made if given is DType.F32 else e.cast(made, given)}
    arrays = [np.zeros(value.type.shape, np.float32) for value in builder.inputs]
    return region_case(builder.finish(), "contraction", arrays, "").node


def by_library(node: Node, target: Target) -> Lowered | None:
    """The node's kernels, where the library may make its product."""
    tunable = CudaBackend().tunable(node, target, 1)
    assert tunable is not None
    found = [one for one in tunable.candidates() if one.library]
    assert len(found) < 2 and tunable.candidates()[0].library is None
    return tunable.lower(found[0].choice) if found else None


def nodes(compute: str) -> list[Node]:
    """Of every turn, with an epilogue and without one, rounded and not, of several matrices."""
    dtype = DType(compute) if compute in ("bf16", "f16") else DType.F32
    found = [matmul(SIZE, turns, dtype).node for turns in TURNS] if dtype is not DType.F32 else []
    found += [bare(dtype, given, turns) for turns in TURNS for given in (DType.F32, dtype)]
    found += [matmul((33, 17, 32), TURNS[0], dtype).node] if dtype is not DType.F32 else []
    return [*found, bare(dtype, dtype, TURNS[0], (3,)), bare(dtype, dtype, TURNS[3], (2, 2))]


@pytest.mark.parametrize("compute", ["f32", "tf32", "bf16", "f16"])
def test_the_library_makes_products(compute: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = here().computing(compute)
    lowered = {node: by_library(node, target) for node in nodes(compute)}
    trials = [Trial(node, (one,)) for node, one in lowered.items() if one is not None]
    assert len(trials) == len(lowered)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver_of([c for t in trials for c in t.candidates[0].calls], tmp_path)))
    monkeypatch.setenv("FAKE_PRODUCTS", str(tmp_path / "log"))
    add_library(tmp_path)
    measurement = CudaBackend().measurer(target, 1).build(trials, tmp_path)
    for index, trial in enumerate(trials):
        inputs = draw(trial.node)
        (run,) = measurement.run(index, inputs, RunLimits(2, 1e3, 1 << 12))
        assert run.failure is None and not run.overrun and run.output is not None and len(run.ms) == 2
        right = expected(trial.node, inputs)
        assert differs(trial.node, run.output.read_bytes(), right, trial.output_offsets) is None, trial.node
    asked = {tuple(line.split()) for line in (tmp_path / "log").read_text().splitlines()}
    stored = NUMBERS.get(compute, "0")
    assert asked == {(stored, given, count, "77" if compute == "tf32" else "68") for given, count in _given(compute)}


def _given(compute: str) -> set[tuple[str, str]]:
    """Formats of results, and matrices, that were asked for."""
    stored = NUMBERS.get(compute, "0")
    return {("0", "1"), (stored, "1"), (stored, "3"), (stored, "4")}


def test_some_products_are_none_of_the_librarys() -> None:
    target = here().computing("bf16")
    mixed = matmul(SIZE, TURNS[0], DType.F16).node
    assert by_library(mixed, target) is None and by_library(convolution().node, target) is None
    node = bare(DType.F32, DType.F32, TURNS[0])
    assert by_library(node, target) is None, "f32 is rounded on the way"
    opencl = backends.get("opencl").tunable(node, replace(here(), gpu=None, backend="opencl"), 1)
    assert opencl is not None and not any(one.library for one in opencl.candidates(wide=True))


def test_what_it_may_use_fits_into_the_memory_that_is_allowed() -> None:
    node, target = matmul(SIZE, TURNS[0]).node, here().computing("bf16")
    lowered = by_library(node, target)
    assert lowered is not None
    product = lowered.calls[0].kernel.product
    assert product is not None and product.of_kernel and product.used == 24 * 40 * 4
    moved = sum(value.type.nbytes for value in (*node.inputs, *node.outputs))
    assert product.used + product.bytes <= moved and lowered.workspace_bytes == product.used + product.bytes
    assert kernels.lower(replace(node, attrs={**node.attrs, "scratch": 100}), target).workspace_bytes <= 100


def test_a_library_that_is_not_here_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the driver there is none: no trial is made of it, and none is refused."""
    target = here().computing("bf16")
    (work,) = workloads_of([bare(DType.BF16, DType.BF16, TURNS[0], size=LARGE)], target, 1, CudaBackend())
    calls = [c for one in work.tunable.candidates() for c in work.tunable.lower(one.choice).calls]
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver_of(calls, tmp_path)))
    script = Path(library_here.__file__)
    assert said_by(script) == ""
    (found,) = tune([work], "fast", LocalStore(tmp_path / "store")).workloads
    assert found.source == "measured" and not found.rejected and found.tried == 4
    add_library(tmp_path)
    assert said_by(script) == libraries.NAME
    (again,) = tune([work], "fast", LocalStore(tmp_path / "another")).workloads
    assert again.tried == 4 and again.choice is not None and again.choice.describe().startswith("cuBLASLt, else ")
    monkeypatch.setenv("POCK_CUBLASLT", "")
    assert said_by(script) == ""
    monkeypatch.setenv("POCK_CUBLASLT", str(tmp_path / "libcublasLt.so.12"))
    assert said_by(script) == libraries.NAME


@pytest.mark.parametrize("own", [True, False], ids=["own", "shared"])
def test_a_library_that_declines_is_never_the_choice(
    own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its results are no numbers, also where those of another candidate lie in the GPU's memory."""
    target = (beside() if own else here()).computing("bf16")
    (work,) = workloads_of([bare(DType.BF16, DType.BF16, TURNS[0], size=LARGE)], target, 1, CudaBackend())
    calls = [c for one in work.tunable.candidates() for c in work.tunable.lower(one.choice).calls]
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver_of(calls, tmp_path)))
    add_library(tmp_path)
    monkeypatch.setenv("FAKE", "own" if own else "integrated")
    for trouble in ("refuses", "fails"):
        monkeypatch.setenv("FAKE_LIBRARY", trouble)
        (found,) = tune([work], "fast", LocalStore(tmp_path / trouble)).workloads
        assert found.source == "measured" and found.choice is not None and len(found.rejected) == 1
        assert "cuBLASLt" in found.rejected[0] and not found.choice.describe().startswith("cuBLASLt")


RECIPE = Recipe(loss="mse", optimizer={"name": "adamw", "lr": 0.01}, batch=32)


def network() -> Graph:
    """x [32, 48] -> y [32, 64]: two linear layers."""
    net = Net("two", seed=1)
    x = net.builder.input("x", TensorType(DType.F32, (32, 48)))
    hidden = net.e.op("tanh", net.linear(x, "first", 64))
    return net.finish(net.linear(hidden, "second", 64))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Program]]:
    """A network in tf32, as the C backend makes it, and with the library for all of its products."""
    folder, planned, rng = tmp_path_factory.mktemp("programs"), list[Planned](), np.random.default_rng(0)
    x = rng.standard_normal((32, 48)).astype(np.float32)
    save_file({"x": x, "labels": np.tanh(x @ rng.standard_normal((48, 64)).astype(np.float32))}, folder / "d.st")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_by_library", _first)
        made = compile(network(), RECIPE, here(), 1, inspect=lambda made, _: planned.append(made))
        driver = make_driver(planned[0].programs, tmp_path_factory.mktemp("driver"))
        add_library(driver)
        patch.setenv("LD_LIBRARY_PATH", str(driver))
        products = [c.kernel.product for s in planned[0].programs["train"].steps for c in s.lowered.calls]
        assert sum(isinstance(one, Product) for one in products) == 5
        yield {"c": Program(compile(network(), RECIPE, threads=1), folder), "cuda": Program(made, folder)}


_by_library = kernels._by_library


def _first(*asked: object) -> list[kernels._Option]:
    """The library's way, as if it took no time."""
    return [(way, replace(cut, cycles=0.0)) for way, cut in _by_library(*asked)]  # type: ignore[arg-type]


TRAIN = ("train", "--data", "d.st", "--steps", 4)


@pytest.mark.parametrize("how", ["library", "without", "refuses", "fails"])
def test_a_program_runs_with_the_library_and_without_it(
    how: str, programs: Mapping[str, Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LIBRARY", how)
    monkeypatch.setenv("FAKE_PRODUCTS", str(tmp_path / "log"))
    if how == "without":
        monkeypatch.setenv("POCK_CUBLASLT", "")
    told = {name: one.run(*TRAIN, "--save", f"{name}.st") for name, one in programs.items()}
    losses = {name: [event["loss"] for event in events] for name, events in told.items()}
    assert losses["cuda"] == pytest.approx(losses["c"], rel=1e-4)
    weights = {name: load_file(one.folder / f"{name}.st") for name, one in programs.items()}
    for key, array in weights["c"].items():
        np.testing.assert_allclose(weights["cuda"][key], array, rtol=1e-3, atol=1e-5, err_msg=key)
    log = tmp_path / "log"
    assert (len(log.read_text().splitlines()) if log.exists() else 0) == (5 if how == "library" else 0), "one graph"


def test_kernels_are_observed_with_the_library(
    programs: Mapping[str, Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PRODUCTS", str(tmp_path / "log"))
    events = programs["cuda"].call(*TRAIN, "--profile", "--report", tmp_path / "r.json")
    assert events.returncode == 0, events.stderr
    assert (tmp_path / "log").read_text().count("\n") == 4 * 5, "each step anew"
    kernels = json.loads((tmp_path / "r.json").read_text())["kernels"]
    assert kernels and all(one["ms"] > 0 for one in kernels), kernels
