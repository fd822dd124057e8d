"""Whole training steps on the OpenCL device that is here: ten of them as PyTorch's, some beside quantised weights."""

from __future__ import annotations

import pytest

from pockengine.compile import compile
from pockengine.ops.quantised import BlockFormat
from pockengine.recipe import Recipe
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import needs_device
from tests.compiler.models import zoo
from tests.compiler.models.agreement import Agreement, compared
from tests.compiler.models.test_ten_steps import OPTIMIZERS
from tests.compiler.training import frozen_models
from tests.sweeps import some

pytestmark = needs_device


MODELS = {"mobilenet_v2": ("channels", "sgd-momentum"), "bert": ("full", "adamw")}


@pytest.mark.parametrize("model", some(MODELS, 2))
def test_ten_steps(model: str) -> None:
    found = apart(_compared, model, *MODELS[model])
    assert found.updated
    assert not found.problems


def _compared(model: str, update: str, optimizer: str) -> Agreement:
    recipe = Recipe(optimizer=OPTIMIZERS[optimizer], update=zoo.UPDATES[model][update], batch=zoo.BATCH)
    return compared(zoo.MODELS[model], zoo.graph(model), recipe, backend="opencl")


@pytest.mark.parametrize("weights", some([one.value for one in BlockFormat], 2))
def test_steps_beside_weights_in_blocks_are_those_of_the_c_backend(weights: str) -> None:
    found, wanted = (apart(_losses, weights, backend) for backend in ("opencl", "c"))
    assert found == pytest.approx(wanted, rel=1e-4)


def _losses(weights: str, backend: str) -> list[float]:
    optimizer = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
    recipe = Recipe(optimizer=optimizer, frozen={"weights": weights}, lora={"params": "*.query", "rank": 4})
    with compile(frozen_models.graph(), recipe, threads=2, backend=backend).load() as session:
        return [session.step(frozen_models.batch(step)) for step in range(4)]
