"""Training steps through the CUDA host program: recorded, replayed, copied to and from, ten of them as PyTorch's."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.ir import DType
from pockengine.recipe import Recipe
from tests.compiler.codegen.cuda.driver import here, make_driver, needs_compiler
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.models import zoo
from tests.compiler.models.agreement import Agreement, compared, imported
from tests.compiler.models.agreement import recipe as family_recipe
from tests.compiler.models.test_families import TURNS
from tests.compiler.models.test_ten_steps import OPTIMIZERS
from tests.sweeps import some

pytestmark = needs_compiler

MOST_PROGRAM_BYTES = 1_000_000
"""Of an executable with all its kernels."""


MODELS = {"mobilenet_v2": ("channels", "sgd-momentum"), "bert": ("full", "adamw")}


@pytest.mark.parametrize("model, memory", some(product(MODELS, ("own", "integrated")), 3))
def test_ten_steps(model: str, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update, optimizer = MODELS[model]
    planned: list[Planned] = []
    recipe = _recipe(model, update, optimizer)
    artifact = compile(
        zoo.graph(model), recipe.bound(zoo.graph(model)), here(), 2, inspect=lambda made, _: planned.append(made)
    )
    assert len(artifact.read(artifact.manifest.entry_points.executable)) <= MOST_PROGRAM_BYTES
    monkeypatch.setenv("LD_LIBRARY_PATH", str(make_driver(planned[0].programs, tmp_path)))
    monkeypatch.setenv("FAKE", memory)
    found = apart(_compared, model, update, optimizer)
    assert found.updated
    assert not found.problems


FAMILIES = (
    ("llama", "lora"), ("vit", "full"), ("resnet", "sparse"), ("convnext", "full"), ("unet_resize", "sparse"),
    ("ds_cnn", "full"), ("gru", "sparse"),
)  # fmt: skip
"""Models at the size in which all of them are tested, and what is trained of each."""
OTHERS = [(family, kind) for family, kind in TURNS if family not in dict(FAMILIES)]


@pytest.mark.parametrize("family, kind", [*some(FAMILIES, 7), *some(OTHERS, 35)])
def test_ten_steps_of_other_models(family: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Planned] = []
    one = imported(family)
    compile(
        one.graph,
        family_recipe(one.family, kind).bound(one.graph),
        here(),
        2,
        inspect=lambda made, _: planned.append(made),
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(make_driver(planned[0].programs, tmp_path)))
    found = apart(_family_compared, family, kind)
    assert found.updated or kind == "lora"
    assert not found.problems


def _family_compared(family: str, kind: str) -> Agreement:
    one = imported(family)
    return compared(one.family, one.graph, family_recipe(one.family, kind), target=here())


NARROW = {"weights": "bf16", "rounding": "nearest", "params": ["*_proj", "*embed_tokens", "lm_head"]}


def test_ten_steps_of_a_llama_whose_weights_are_trained_in_bf16(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Planned] = []
    one = imported("llama")
    recipe = family_recipe(one.family, "full").with_(trained=NARROW)
    compile(one.graph, recipe.bound(one.graph), here(), 2, inspect=lambda made, _: planned.append(made))
    assert sum(value.type.dtype is DType.BF16 for value in planned[0].model.params) == 16
    monkeypatch.setenv("LD_LIBRARY_PATH", str(make_driver(planned[0].programs, tmp_path)))
    found = apart(_narrow_compared)
    assert found.updated
    assert not found.problems


def _narrow_compared() -> Agreement:
    one = imported("llama")
    recipe = family_recipe(one.family, "full").with_(trained=NARROW)
    return compared(one.family, one.graph, recipe, target=here())


def _recipe(model: str, update: str, optimizer: str) -> Recipe:
    return Recipe(optimizer=OPTIMIZERS[optimizer], update=zoo.UPDATES[model][update], batch=zoo.BATCH)


def _compared(model: str, update: str, optimizer: str) -> Agreement:
    return compared(zoo.MODELS[model], zoo.graph(model), _recipe(model, update, optimizer), target=here())
