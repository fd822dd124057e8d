"""Trained weights in bf16: ten steps are PyTorch's with parameters in bf16 and all else in f32, and what rounding at
random adds up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from pockengine.cli.console import figures
from pockengine.compile import Planned, Request, compile, plan_programs, summary
from pockengine.errors import RecipeError
from pockengine.frontends import from_torch
from pockengine.ir import Array, Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.plan.space import Space
from pockengine.recipe import Recipe, Trained
from pockengine.targets import get
from tests.compiler.models.agreement import compared, imported
from tests.compiler.models.agreement import recipe as family_recipe
from tests.sweeps import some

from . import frozen_models
from .networks import BATCH, CNN, MLP, TIED, Network, Torch
from .test_optimizers import OPTIMIZERS, SPARSE

STEPS = 10
ALL_NEAREST = {"weights": "bf16", "rounding": "nearest", "params": "*"}
MATRICES = {"llama": ["*_proj", "*embed_tokens", "lm_head"], "resnet": ["*convolution"]}
ROUNDED = ml_dtypes.bfloat16
CASES = [
    *[(MLP, "full", name) for name in OPTIMIZERS],
    *[(CNN, SPARSE, name) for name in ("sgd-nesterov", "adamw", "lamb")],
    *[(TIED, "full", name) for name in ("sgd", "adafactor")],
]


def _round(tensors: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for tensor in tensors.values():
            tensor.copy_(tensor.bfloat16())


def _side(network: Network, recipe: Recipe) -> Torch:
    """PyTorch's, whose trained parameters begin as bf16."""
    side = Torch.of(network, recipe)
    _round({name: side.start[name] for name in side.leaves})
    _round(side.leaves)
    return side


def _spacing(x: Array) -> Array:
    """From a number of bf16 to the next."""
    _, exponents = np.frexp(np.maximum(np.abs(x), 1e-30))
    spacing: Array = np.exp2(exponents - 8.0)
    return spacing


def _assert_same(found: Mapping[str, Array], side: Torch) -> None:
    """All tensors, bit for bit but where a sum in another order falls to the other side of the middle."""
    apart = 0
    for name, tensor in side.parameters().items():
        expected, start = tensor.detach().numpy(), side.start[name].numpy()
        trained = name in side.leaves
        assert found[name].dtype == (ROUNDED if trained else np.float32), name
        wide = found[name].astype(np.float32)
        assert (np.abs(wide - expected) <= 1.01 * _spacing(expected)).all(), name
        assert trained == (wide != start).any(), name
        apart += int(np.count_nonzero(wide != expected))
    assert apart <= 2


@pytest.mark.parametrize("backend", ["c", "emulated"])
@pytest.mark.parametrize(("network", "update", "name"), some(CASES, 3), ids=lambda x: getattr(x, "name", str(x)[:12]))
def test_ten_steps_are_those_of_pytorch(network: Network, update: object, name: str, backend: str) -> None:
    settings, make = OPTIMIZERS[name]
    recipe = Recipe(optimizer=settings, update=update, trained=ALL_NEAREST)
    side, expected = _side(network, recipe), []
    for loss in side.steps(make(side.leaves.values()), STEPS):
        expected.append(loss)
        _round(side.leaves)
    with compile(network.build(BATCH), recipe, threads=1, backend=backend).load() as session:
        losses = [session.step(network.batch(step)) for step in range(STEPS)]
        found = session.state()
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    _assert_same(found, side)


class _Product(torch.autograd.Function):
    """x w of operands that are rounded to bf16, and so are its gradients'."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        x, w = x.bfloat16().float(), w.bfloat16().float()
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor) -> tuple[Tensor, Tensor]:
        (x, w), dy = ctx.saved_tensors, arriving[0].bfloat16().float()
        return dy @ w.T, x.T @ dy


WIDTH, SAMPLES = 64, 32


def _wide(batch: int) -> Graph:
    builder, rng = Builder("wide"), np.random.default_rng(3)
    e, h = Emitter(builder), builder.input("x", TensorType(DType.F32, (batch, WIDTH)))
    for name, columns in (("first", 96), ("second", 32)):
        data = (0.2 * rng.standard_normal((h.type.shape[1], columns))).astype(np.float32)
        h = e.op("tanh", e.matmul(h, builder.param(name, TensorType(DType.F32, data.shape), data)))
    builder.outputs = {"logits": h}
    return builder.finish()


def _wide_forward(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    hidden: Tensor = torch.tanh(_Product.apply(x, p["first"]))
    result: Tensor = torch.tanh(_Product.apply(hidden, p["second"]))
    return result


WIDE = Network("wide", (WIDTH,), 32, _wide, _wide_forward)


def test_products_in_bf16_read_the_weights_as_they_are_stored() -> None:
    """Ten steps as those of PyTorch with operands of products rounded; no kernel writes a weight but its update."""
    settings, make = OPTIMIZERS["sgd-nesterov"]
    recipe = Recipe(optimizer=settings, trained=ALL_NEAREST)
    side, expected = _side(WIDE, recipe), []
    for loss in side.steps(make(side.leaves.values()), STEPS, SAMPLES):
        expected.append(loss)
        _round(side.leaves)
    planned: list[Planned] = []
    target, seen = replace(get("host"), compute="bf16"), lambda made, _: planned.append(made)
    with compile(WIDE.build(SAMPLES), recipe, target, 1, backend="emulated", inspect=seen).load() as session:
        losses = [session.step(WIDE.batch(step, SAMPLES)) for step in range(STEPS)]
        found = session.state()
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for name, leaf in side.leaves.items():
        moved = leaf.detach().numpy() - side.start[name].numpy()
        assert np.linalg.norm(found[name].astype(np.float32) - leaf.detach().numpy()) < 0.02 * np.linalg.norm(moved)
    for name, program in planned[0].programs.items():
        made = [value for step in program.steps for value in step.node.outputs if value.type.shape == (WIDTH, 96)]
        assert [value.type.dtype for value in made] == ([DType.F32, DType.BF16] if name == "train" else []), name


@pytest.mark.parametrize("name", some(MATRICES, 2))
def test_ten_steps_of_a_family_are_those_of_pytorch(name: str) -> None:
    """Norms stay f32: near 1, what a step changes is lost to the nearest."""
    one = imported(name)
    recipe = family_recipe(one.family, "full").with_(trained={**ALL_NEAREST, "params": MATRICES[name]})
    found = compared(one.family, one.graph, recipe)
    assert found.updated
    assert not found.problems


def _sloped(value: float, rows: int = 64, columns: int = 64) -> tuple[Graph, Callable[[int], dict[str, Array]]]:
    """A weight of which every number is `value` and has the gradient 1, whatever it is."""
    builder = Builder("sloped")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (1, rows)))
    data = np.full((rows, columns), value, np.float32)
    product = e.matmul(x, builder.param("weight", TensorType(DType.F32, data.shape), data))
    builder.outputs = {"loss": e.sum(product, (0, 1), keepdims=False)}
    return builder.finish(), lambda step: {"x": np.ones((1, rows), np.float32)}


def _moved(rounding: str, value: float, rate: float, steps: int) -> Array:
    """What steps against a gradient of 1 make of the weight."""
    graph, batch = _sloped(value)
    recipe = Recipe("output", {"name": "sgd", "lr": rate}, trained={"weights": "bf16", "rounding": rounding})
    with compile(graph, recipe, threads=1).load() as session:
        for step in range(steps):
            session.step(batch(step))
        moved: Array = session.tensor("weight").astype(np.float64) - value
        return moved


def test_updates_too_small_for_the_nearest_arrive_on_average() -> None:
    """Each a thousandth of the distance between two numbers of bf16; 1500 of them."""
    spacing, steps = 2.0**-7, 1500
    assert not _moved("nearest", 1.5, spacing / 1000, steps).any()
    moved = _moved("random", 1.5, spacing / 1000, steps) / spacing
    assert moved.mean() == pytest.approx(-1.5, abs=5 * np.sqrt(1.5 / moved.size))
    assert 1 < moved.std() < 1.5 and set(np.unique(moved)) <= set(range(-12, 1))


def test_a_row_and_a_column_are_rounded_apart() -> None:
    """No two numbers of a tensor, tensors or steps are drawn alike."""
    spacing = 2.0**-7
    once, twice = (_moved("random", 1.5, spacing / 2, steps) / spacing for steps in (1, 2))
    for moved in (once, twice - once):
        for lines in (moved, moved.T):
            assert np.abs(np.corrcoef(lines) - np.eye(64)).max() < 0.65
        assert abs(moved.mean() + 0.5) < 0.05
    assert abs(np.corrcoef(once.ravel(), (twice - once).ravel())[0, 1]) < 0.1


PRODUCTS_ALONE = {"sgd": {"name": "sgd", "lr": 0.02, "momentum": 0.9}, "int8": {"name": "adamw", "state": "int8"}}
SETTINGS: dict[str, dict[str, Any]] = {
    "channels": {"update": [{"params": "blocks.*.up.weight", "channels": 0.5}, {"params": "*.query.*"}]},
    "averaged": {"ema": 0.9},
    "clipped": {"optimizer": {"name": "adamw", "lr": 1e-3, "clip": {"norm": 1.0}, "state": "int8"}},
    "adapters": {"lora": {"params": "*.value", "rank": 3}, "update": [{"params": "*.down.weight"}]},
    "frozen": {"update": [{"params": "blocks.1.*"}], "frozen": {"weights": "int8"}},
    "teacher": {"loss": ["cross_entropy", {"name": "kl", "against": "frozen", "weight": 0.5}]},
}


@pytest.mark.parametrize("name", some(SETTINGS, 1))
def test_what_else_a_recipe_asks_for_goes_with_it(name: str) -> None:
    """Rounded at random, losses stay close to those with weights in f32."""
    recipe = Recipe(**{"optimizer": {"name": "adamw", "lr": 1e-3}, **SETTINGS[name]})
    curves = []
    for trained in (None, {"weights": "bf16"}):
        with compile(frozen_models.graph(), recipe.with_(trained=trained), threads=1).load() as session:
            curves.append([session.step(frozen_models.batch(step % 3)) for step in range(20)])
            names = {key for key, array in session.state().items() if array.dtype == ROUNDED}
    np.testing.assert_allclose(curves[1], curves[0], atol=0.03 * curves[0][0])
    assert curves[0][-1] < 0.9 * curves[0][0]
    assert names and not any("norm" in key or "bias" in key or "lora" in key for key in names)


def test_weights_that_have_it_keep_their_bits_and_others_are_rounded_once() -> None:
    graph = frozen_models.graph()
    tokens = (torch.zeros(frozen_models.BATCH, frozen_models.TIME, dtype=torch.int64),)
    narrow = from_torch(frozen_models.transformer().bfloat16(), tokens)
    large = {value.name for value in graph.params if value.type.rank == 2 and value.type.size >= 4096}
    for model in (graph, narrow):
        planned = plan_programs(Request(model, Recipe(trained={"weights": "bf16"}), get("raspberry-pi-4")))
        assert {value.name for value in planned.model.params if value.type.dtype is DType.BF16} == large
        for name in large:
            np.testing.assert_array_equal(np.asarray(planned.model.data[name]), graph.data[name].astype(ROUNDED))


def test_half_of_the_bytes_and_one_kernel_for_each_weight() -> None:
    """It finishes the product that gives the gradient; with 8-bit state it is the optimizer's."""
    device = get("raspberry-pi-4")
    for optimizer, kind in ((PRODUCTS_ALONE["sgd"], "contraction"), (PRODUCTS_ALONE["int8"], "row")):
        recipe = Recipe(optimizer=optimizer)
        wide, narrow = (
            plan_programs(Request(frozen_models.graph(), recipe.with_(trained=trained), device))
            for trained in (None, {"weights": "bf16"})
        )
        params = [value for value in narrow.model.params if value.type.dtype is DType.BF16]
        saved = sum(value.type.nbytes for value in params)
        sizes = [one.spaces.sizes for one in (wide, narrow)]
        assert saved * 0.98 < sizes[0][Space.PARAM] - sizes[1][Space.PARAM] <= saved
        program = narrow.programs["train"]
        for value in params:
            if value.name == "table.weight":
                continue
            writers = [
                step.node
                for step in program.steps
                if any(one.type.dtype is DType.BF16 for one in step.node.outputs) and step.node.origin == value.name
            ]
            assert [node.attrs["kind"] for node in writers] in ([kind], []), value.name


@pytest.mark.parametrize(
    ("trained", "words"),
    [
        (
            {"weights": "f16"},
            "cannot be f16, which has no numbers between 0 and 6e-8 and none above 65504: choose",
        ),
        ({"weights": "int8"}, "trained.weights must be bf16, not a text .'int8'.; leave 'trained' out for f32"),
        ({"rounding": "random"}, "trained has no 'weights': say bf16"),
        ({"weights": "bf16", "rounding": "up"}, "trained.rounding must be random or nearest, not a text .'up'."),
        ({"weights": "bf16", "rounds": "up"}, "trained has the unknown key 'rounds' .did you mean 'rounding'"),
        ("bf16", "trained must be a mapping such as {weights: bf16}, not a text"),
    ],
)
def test_what_makes_no_sense_is_refused(trained: object, words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        Recipe(trained=trained)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ("hed", "'hed' of trained.params matches no weight .did you mean 'head'"),
        ("blocks.0.*", "'blocks.0.first.weight' cannot be trained in bf16: the recipe does not train it; narrow"),
        ("*lora*", "cannot be trained in bf16: it is an adapter, which stays f32"),
    ],
)
def test_patterns_that_mean_nothing_are_refused(params: str, words: str) -> None:
    recipe = Recipe(
        update=[{"params": "head.*"}], lora={"params": "*.value"}, trained={"weights": "bf16", "params": params}
    )
    with pytest.raises(RecipeError, match=words):
        plan_programs(Request(frozen_models.graph(), recipe, get("raspberry-pi-4")))


def test_named_weights_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = {"weights": "bf16", "params": ["head", "*.first.bias"]}
    planned = plan_programs(Request(frozen_models.graph(), Recipe(trained=trained), get("raspberry-pi-4")))
    narrow = [value.name for value in planned.model.params if value.type.dtype is DType.BF16]
    stated = summary(planned, kernels=0)
    assert stated["trained_in_16_bits"] == sum(planned.model.param(name).type.size for name in narrow)
    assert figures(stated)["trained"].endswith(" in 16 bits")
    assert sorted(narrow) == ["blocks.0.first.bias", "blocks.1.first.bias", "head.weight"]
    limits = type(planned.backend).limits
    monkeypatch.setattr(type(planned.backend), "limits", lambda *a: replace(limits(*a), trained=()))
    with pytest.raises(RecipeError, match="the backend 'c' trains no weights in bf16: leave 'trained' out, or choose"):
        plan_programs(Request(frozen_models.graph(), Recipe(trained=trained), get("raspberry-pi-4")))


def test_a_recipe_says_it_only_where_it_is_asked_for() -> None:
    assert "trained" not in Recipe().to_mapping()
    mapping = Recipe(trained={"weights": "bf16"}).to_mapping()
    assert mapping["trained"] == {"weights": "bf16", "rounding": "random"}
    assert Recipe.from_mapping(mapping).trained == Trained("bf16")
