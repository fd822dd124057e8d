"""Kernels that ask for more shared memory than a launch gives unasked, through the host program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from pockengine.artifact import Artifact
from pockengine.codegen.gpu.launches import calls_of
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.errors import ArtifactError
from pockengine.ir import Array, Builder, DType, Graph, TensorType, Value
from pockengine.ops import Emitter
from pockengine.recipe import Recipe
from pockengine.targets import Target, get
from tests.compiler.codegen.cuda.driver import here, make_driver, needs_compiler
from tests.compiler.codegen.opencl.apart import apart

pytestmark = needs_compiler
BATCH, WIDTH, CLASSES = 192, 256, 32
USUAL = 48 << 10
RECIPE = Recipe(optimizer={"name": "sgd", "lr": 0.01}, update="full", batch=BATCH)


def network() -> Graph:
    """Three linear layers: the gradient of the second one's weight is a product of what products alone read."""
    builder, rng = Builder("network"), np.random.default_rng(0)
    e, h = Emitter(builder), builder.input("x", TensorType(DType.F32, (BATCH, WIDTH)))

    def weight(name: str, columns: int) -> Value:
        drawn = (rng.standard_normal((WIDTH, columns)) / np.sqrt(WIDTH)).astype(np.float32)
        return builder.param(name, TensorType(DType.F32, drawn.shape), drawn)

    for name in ("first", "second"):
        h = e.matmul(h, weight(name, WIDTH))
    builder.outputs = {"logits": e.matmul(h, weight("last", CLASSES))}
    return builder.finish()


def batch(step: int) -> dict[str, Array]:
    rng = np.random.default_rng(step)
    labels = rng.integers(0, CLASSES, BATCH)
    return {"x": rng.standard_normal((BATCH, WIDTH)).astype(np.float32), "labels": labels}


def ampere() -> Target:
    """A GPU whose matrix units are quicker than its shared memory: large tiles pay."""
    device = here()
    assert device.gpu is not None
    return replace(device, compute="bf16", gpu=replace(device.gpu, multiprocessors=1, bf16_per_cycle=4096))


def hopper() -> Target:
    """A GPU whose engine copies boxes."""
    gpu = get("h200").gpu
    assert gpu is not None
    return replace(here(), compute="bf16", gpu=replace(gpu, multiprocessors=2))


@dataclass(frozen=True)
class Built:
    """A program for a target, and its driver, of a GPU of this capability."""

    artifact: Artifact
    target: Target
    driver: Path
    capability: str


@pytest.fixture(scope="module", params=["ampere", "hopper"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    planned: list[Planned] = []
    target, capability = {"ampere": (ampere(), "87"), "hopper": (hopper(), "90")}[request.param]
    artifact = compile(network(), RECIPE, target, 2, inspect=lambda made, _: planned.append(made))
    kernels = [call.kernel for call in calls_of(planned[0].programs)]
    assert any(kernel.shared > USUAL for kernel in kernels)
    assert any(kernel.maps for kernel in kernels) == (capability == "90")
    return Built(artifact, target, make_driver(planned[0].programs, tmp_path_factory.mktemp("driver")), capability)


def _losses(artifact: Artifact) -> list[float]:
    with artifact.load() as session:
        return [session.step(batch(step)) for step in range(3)]


def test_steps_are_those_of_emulated_kernels(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built.driver))
    monkeypatch.setenv("FAKE_CAPABILITY", built.capability)
    emulated = compile(network(), RECIPE, built.target, 2, backend="emulated")
    assert apart(_losses, built.artifact) == _losses(emulated)


def test_a_gpu_that_does_not_give_it_is_named_with_the_kernel(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built.driver))
    monkeypatch.setenv("FAKE_CAPABILITY", built.capability)
    monkeypatch.setenv("FAKE", "no-room")
    with pytest.raises(ArtifactError, match="Fake GPU does not load the kernel k_bf16_"):
        apart(_losses, built.artifact)
