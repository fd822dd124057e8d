"""Products of frozen weights and activations that are both 8-bit floats, against PyTorch with the same rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pockengine.compile import compile
from pockengine.errors import RecipeError
from pockengine.interp import evaluate
from pockengine.ir import Builder, DType, parse_type
from pockengine.ops import Emitter
from pockengine.ops.fp8 import encode
from pockengine.ops.quantised import BlockFormat, dequantize, quantize
from pockengine.recipe import Recipe
from tests.compiler.training.frozen_models import BATCHES, graph, replace, restored, train, transformer

FROZEN = {"weights": "fp8", "activations": "fp8"}
LAST = [{"params": "head.*"}, {"params": "blocks.0.first.*"}]


def test_rows_are_rounded_as_weights_are() -> None:
    builder = Builder("encode")
    codes, scales = encode(Emitter(builder), builder.input("x", parse_type("f32[64,96]")))
    builder.outputs = {"codes": codes, "scales": scales}
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((64, 96)) * np.exp(rng.normal(0, 4, (64, 1)))).astype(np.float32)
    x[0] *= np.exp(rng.normal(0, 5, 96)).astype(np.float32)
    x[1, :6] = [1e-7, -1e-6, 2.0, 448.0, -448.0, -0.0]
    x[2] = 0.0
    found, (wanted, factors) = evaluate(builder.finish(), {"x": x}), quantize(x, BlockFormat.FP8, 96)
    np.testing.assert_array_equal(found["codes"], wanted)
    np.testing.assert_array_equal(np.delete(found["scales"], 2, 0), np.delete(factors, 2, 0))
    assert found["codes"].dtype == DType.U8.numpy and found["scales"].dtype == DType.U16.numpy


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FFFFFFF, 0xFFC00000])
def test_a_row_with_a_nan_stays_one(bits: int) -> None:
    """Of those that processors make, and that GPUs make."""
    builder = Builder("encode")
    codes, scales = encode(Emitter(builder), builder.input("x", parse_type("f32[2,32]")))
    builder.outputs = {"codes": codes, "scales": scales}
    x = np.ones((2, 32), np.float32)
    x[0, 5] = np.array([bits], np.uint32).view(np.float32)[0]
    found = evaluate(builder.finish(), {"x": x})
    numbers = dequantize(found["codes"], found["scales"], BlockFormat.FP8, 32, (2, 32))
    assert np.isnan(numbers[0]).all()
    np.testing.assert_allclose(numbers[1], 1, rtol=0.05)


class _Rounded(torch.autograd.Function):
    """Each row in 8-bit floats; the gradient takes that for the identity."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        packed, scales = quantize(x.detach().reshape(-1, x.shape[-1]).numpy(), BlockFormat.FP8, x.shape[-1])
        factors = torch.from_numpy((scales.astype(np.uint32) << 16).view(np.float32))
        return (torch.from_numpy(packed).view(torch.float8_e4m3fn).float() * factors).reshape(x.shape)

    @staticmethod
    def backward(ctx: object, dy: torch.Tensor) -> torch.Tensor:
        return dy


def _round_activations(module: nn.Module) -> None:
    """Before the products whose weights are in 8-bit floats and have rows of whole parts."""
    for name, layer in module.named_modules():
        if name.startswith("blocks.") and isinstance(layer, nn.Linear) and layer.in_features % 16 == 0:
            layer.register_forward_pre_hook(lambda _, inputs: (_Rounded.apply(inputs[0]),))


def test_ten_steps_are_pytorchs_with_the_same_rounding() -> None:
    """The norm of the first block needs the gradient through every product after it."""
    optimizer = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
    artifact, module = compile(graph(), Recipe(optimizer=optimizer, frozen=FROZEN, update=LAST)), transformer()
    with artifact.load() as session:
        replace(module, restored(artifact, session.state()))
        losses = [session.step(feeds) for feeds in BATCHES]
        found = session.state()
    _round_activations(module)
    expected = train(module, lambda name: name.startswith(("head", "blocks.0.first")))
    np.testing.assert_allclose(losses, expected, rtol=2e-3)
    trained = module.get_parameter("blocks.0.first.weight").detach().numpy()
    np.testing.assert_allclose(found["blocks.0.first.weight"], trained, rtol=2e-3)


def test_a_row_has_one_scale() -> None:
    artifact = compile(graph(), Recipe(optimizer={"name": "sgd", "lr": 0.05}, frozen=FROZEN, update=LAST))
    stored = artifact.manifest.summary["quantised"]
    assert {how["block"] for how in stored.values()} == {144, 208}
    with artifact.load() as session:
        found = session.state()
    assert found["blocks.0.up.weight.scales"].shape == (200, 1)
    assert found["blocks.0.down.weight.fp8"].shape == (144, 208)


@pytest.mark.parametrize(
    "frozen, message",
    [
        ({"weights": "int8", "activations": "fp8"}, "needs weights: fp8"),
        ({"weights": "fp8", "block": 32, "activations": "fp8"}, "block: row"),
        ({"weights": "int4", "block": "row"}, "four bits are too few"),
        ({"weights": "fp8", "activations": "int8"}, "must be fp8"),
        ({"weights": "fp8", "block": "rows"}, "must be one of 16, 32, 64, 128, 256 or row"),
    ],
)
def test_bad_recipes(frozen: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe(optimizer={"name": "sgd", "lr": 0.05}, frozen=frozen)


def test_the_recipe_says_itself_again() -> None:
    recipe = Recipe(optimizer={"name": "sgd", "lr": 0.05}, frozen=FROZEN)
    assert recipe.to_mapping()["frozen"] == {"weights": "fp8", "block": "row", "activations": "fp8"}
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
