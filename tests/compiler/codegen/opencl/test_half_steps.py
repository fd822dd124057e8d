"""Ten training steps whose products are made in f16 on the OpenCL device that is here: near those of PyTorch in f32,
and nearer to those of PyTorch with operands rounded to f16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest

from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.ir import Array, DType
from pockengine.recipe import Recipe, resolve
from pockengine.targets import get
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import needs_device
from tests.compiler.codegen.opencl.test_steps import MODELS
from tests.compiler.models import reference, zoo
from tests.compiler.models.rounded import RoundedProducts
from tests.compiler.models.test_ten_steps import OPTIMIZERS
from tests.sweeps import some

pytestmark = needs_device
STEPS = 10


@dataclass(frozen=True)
class Trained:
    """Losses, tensors before and after; which tensors of a step lie in memory in 16 bits."""

    losses: list[float]
    before: Mapping[str, Array]
    after: Mapping[str, Array]
    narrow: list[str]


def _recipe(model: str) -> Recipe:
    update, optimizer = MODELS[model]
    recipe = Recipe(optimizer=OPTIMIZERS[optimizer], update=zoo.UPDATES[model][update], batch=zoo.BATCH)
    return recipe.bound(zoo.graph(model))


def _trained(model: str) -> Trained:
    planned: list[Planned] = []
    target = replace(get("host"), compute="f16")
    artifact = compile(
        zoo.graph(model), _recipe(model), target, 2, backend="opencl", inspect=lambda made, _: planned.append(made)
    )
    nodes = planned[0].programs["train"].graph.nodes
    narrow = [value.name for node in nodes for value in node.outputs if value.type.dtype is DType.F16]
    with artifact.load() as session:
        before = session.state()
        losses = [session.step(zoo.MODELS[model].feeds(step)) for step in range(STEPS)]
        return Trained(losses, before, session.state(), narrow)


@pytest.mark.parametrize("model", some(MODELS, 2, 1))
def test_ten_steps(model: str) -> None:
    found, recipe = apart(_trained, model), _recipe(model)
    assert found.narrow
    scheme = resolve(recipe, zoo.graph(model))
    losses, exact = reference.train(zoo.MODELS[model], scheme, recipe, {}, STEPS)
    _, rounded = reference.train(zoo.MODELS[model], scheme, recipe, {}, STEPS, within=RoundedProducts)
    assert found.losses == pytest.approx(losses, rel=1e-3)
    assert 1e-4 < 1.25 * _off(found, rounded) < _off(found, exact) < 1e-2


def _off(found: Trained, wanted: Mapping[str, Array]) -> float:
    """How far what the steps changed is from what is wanted, relative to it, in Euclidean norm over all tensors."""
    names = [name for name, tensor in found.before.items() if not np.array_equal(tensor, wanted[name])]
    wrong = np.hypot.reduce([np.linalg.norm(found.after[name] - wanted[name]) for name in names])
    change = np.hypot.reduce([np.linalg.norm(wanted[name] - found.before[name]) for name in names])
    return float(wrong / change)
