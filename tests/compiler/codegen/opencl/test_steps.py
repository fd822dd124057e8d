"""Whole training steps on the OpenCL device that is here: ten of them as PyTorch's."""

from __future__ import annotations

import pytest

from pockengine.recipe import Recipe
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import needs_device
from tests.compiler.models import zoo
from tests.compiler.models.agreement import Agreement, compared
from tests.compiler.models.test_ten_steps import OPTIMIZERS
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
