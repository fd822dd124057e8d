"""Whole training steps on the OpenCL device that is here: ten of them as PyTorch's."""

from __future__ import annotations

import pytest

from pockengine.recipe import Recipe
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import needs_device
from tests.compiler.models import zoo
from tests.compiler.models.agreement import Agreement, compared
from tests.compiler.models.test_ten_steps import OPTIMIZERS

pytestmark = needs_device


@pytest.mark.parametrize(
    "model, update, optimizer",
    [("mobilenet_v2", "channels", "sgd-momentum"), ("bert", "full", "adamw")],
    ids=["mobilenet_v2", "bert"],
)
def test_ten_steps(model: str, update: str, optimizer: str) -> None:
    found = apart(_compared, model, update, optimizer)
    assert found.updated
    assert not found.problems


def _compared(model: str, update: str, optimizer: str) -> Agreement:
    recipe = Recipe(optimizer=OPTIMIZERS[optimizer], update=zoo.UPDATES[model][update], batch=zoo.BATCH)
    return compared(zoo.MODELS[model], zoo.graph(model), recipe, backend="opencl")
