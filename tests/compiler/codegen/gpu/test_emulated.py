"""GPU kernels on this processor: what the emulator sees, and whole training steps."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pockengine.codegen.gpu.contraction import matrix
from pockengine.compile import compile
from pockengine.ir import DType, TensorType, Value
from pockengine.plan.program import Call, Grid, Kernel
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.codegen.gpu.emulated import emulated_sources
from tests.compiler.codegen.harness import compile_sources
from tests.compiler.models import zoo
from tests.compiler.models.agreement import compared
from tests.compiler.models.test_ten_steps import OPTIMIZERS
from tests.compiler.training import test_state8
from tests.sweeps import some

REVERSED = """\
KERNEL void k_test(OPERAND(0), OPERAND(1))
{
    SHARED float kept[64];
    kept[THREAD] = AT(GLOBAL float, 0)[BLOCK * 64 + THREAD];
    WAIT
    AT(GLOBAL float, 1)[BLOCK * 64 + THREAD] = kept[63 - THREAD];
}
"""


def _function(folder: Path, text: str, shared: int = 0) -> Any:
    """A kernel of two blocks of 64 threads, with so many bytes in their pools."""
    operands = tuple(Value(name, TensorType(DType.F32, (128,))) for name in "xy")
    call = Call(Kernel("k_test", text, shared), operands, (), Grid(2, 64), 0, 0)
    return compile_sources(folder, emulated_sources([call]), get("host"), ("-O1",)).k_test


def _run(function: Any) -> bool:
    """Whether the kernel reverses each block."""
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    function((ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data), 0, 1)
    return bool((y.reshape(2, 64) == x.reshape(2, 64)[:, ::-1]).all())


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    assert _run(_function(tmp_path, REVERSED.replace("WAIT", "BARRIER;")))


def test_a_kernel_that_does_not_wait_is_seen(tmp_path: Path) -> None:
    assert not _run(_function(tmp_path, REVERSED.replace("WAIT", "")))


def test_threads_that_wait_for_ended_ones_end_the_process(tmp_path: Path) -> None:
    function = _function(tmp_path, REVERSED.replace("WAIT", "if (THREAD < 40) return; BARRIER;"))
    assert ends(lambda: _run(function))


def ends(run: Callable[[], object]) -> bool:
    """Whether a kernel that is run ends its process."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        os.close(2)
        run()
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGABRT


POOLED = """\
KERNEL void k_test(OPERAND(0), OPERAND(1))
{
    float *kept = (float *)POOL;
    kept[THREAD] = AT(GLOBAL float, 0)[BLOCK * 64 + THREAD];
    BARRIER;
    AT(GLOBAL float, 1)[BLOCK * 64 + THREAD] = kept[63 - THREAD];
}
"""


def test_a_block_has_the_shared_memory_that_its_launch_gives(tmp_path: Path) -> None:
    assert _run(_function(tmp_path, POOLED, 64 * 4))


def test_a_block_that_writes_beyond_it_ends_the_process(tmp_path: Path) -> None:
    function = _function(tmp_path, POOLED, 63 * 4)
    assert ends(lambda: _run(function))


@pytest.mark.parametrize("compute", some(matrix.FORMATS, 2))
def test_steps_on_matrix_units_are_near_those_of_f32(compute: str) -> None:
    recipe = Recipe(optimizer=OPTIMIZERS["adamw"], update="full", batch=zoo.BATCH).bound(zoo.graph("bert"))
    losses = {}
    for format in ("f32", compute):
        target = replace(get("host"), compute=format)
        with compile(zoo.graph("bert"), recipe, target, threads=2, backend="emulated").load() as session:
            losses[format] = [session.step(zoo.MODELS["bert"].feeds(step)) for step in range(5)]
    assert losses[compute] != losses["f32"]
    assert losses[compute] == pytest.approx(losses["f32"], rel=1e-2)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_state_in_8_bits_is_that_of_the_c_backend(optimizer: str) -> None:
    """A code may be the next one where rounding falls otherwise."""
    made = [
        compile(test_state8.network(), test_state8.recipe(test_state8.OPTIMIZERS[optimizer]), threads=1, backend=name)
        for name in ("c", "emulated")
    ]
    (wanted, one), (found, other) = (test_state8.losses(artifact, 4) for artifact in made)
    assert found == pytest.approx(wanted, rel=1e-5)
    coded = [name for name, tensor in one.items() if tensor.dtype in (np.int8, np.uint8)]
    assert coded and made[1].summary["state_bytes"] == made[0].summary["state_bytes"]
    for name in coded:
        apart = one[name].astype(np.int32) - other[name]
        assert np.abs(apart).max() <= 1 and np.mean(apart != 0) < 0.01


@pytest.mark.parametrize(
    "model, update, optimizer",
    [("mobilenet_v2", "channels", "sgd-momentum"), ("bert", "full", "adamw")],
    ids=["mobilenet_v2", "bert"],
)
def test_ten_steps_are_those_of_pytorch(model: str, update: str, optimizer: str) -> None:
    recipe = Recipe(optimizer=OPTIMIZERS[optimizer], update=zoo.UPDATES[model][update], batch=zoo.BATCH)
    found = compared(zoo.MODELS[model], zoo.graph(model), recipe, backend="emulated")
    assert found.updated
    assert not found.problems
