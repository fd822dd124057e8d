"""Each operation of augmentation against numpy, what its random numbers are like, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pockengine import interp
from pockengine.autodiff import GENERATOR, train_graph
from pockengine.autodiff.augment import beta_quantiles, with_augmentation
from pockengine.compile import Request, plan_programs
from pockengine.errors import RecipeError
from pockengine.ir import Array, Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.recipe import Recipe, resolve
from pockengine.targets import get
from tests.compiler.training.augmented import Draws, cropped, flipped, mixed_up, model, noised, numbers
from tests.compiler.training.networks import CLASSES, CNN


def changed(x: Array, augment: Any, generator: int = 0) -> Array:
    """What a model reads in the place of x."""
    builder = Builder("identity")
    value = builder.input("x", TensorType(DType.of(x.dtype), tuple(x.shape)))
    builder.outputs = {"y": Emitter(builder).reshape(value, (x.size,))}
    graph, _ = with_augmentation(builder.finish(), Recipe(augment=augment))
    return interp.evaluate(graph, {"x": x, GENERATOR: np.array(generator)})["y"].reshape(x.shape)


IMAGES, LAST, SERIES = numbers(6, 3, 5, 7), numbers(6, 7, 5, 3), numbers(6, 9)
BYTES = np.random.default_rng(0).integers(0, 256, (6, 5, 7, 1)).astype(np.uint8)


@pytest.mark.parametrize(
    ("x", "augment", "wanted"),
    [
        (IMAGES, "flip", flipped),
        (IMAGES, {"name": "flip", "axes": [-2, -1], "p": 0.9}, lambda x, d: flipped(x, d, (2, 3), 0.9)),
        (IMAGES, {"name": "flip", "p": 1}, lambda x, d: x[..., ::-1]),
        (IMAGES, {"name": "crop", "padding": 4, "fill": -2}, lambda x, d: cropped(x, d, padding=4, fill=-2)),
        (IMAGES, {"name": "crop", "axes": 2, "padding": 1}, lambda x, d: cropped(x, d, (2,), 1)),
        (IMAGES, {"name": "noise", "std": 0.3}, lambda x, d: noised(x, d, 0.3)),
        (IMAGES, {"name": "mixup", "alpha": 1}, lambda x, d: mixed_up(x, d, 1.0)[0]),
        (IMAGES, ["noise", "flip"], lambda x, d: flipped(noised(x, d), d)),
        (LAST, "flip", lambda x, d: flipped(x, d, (2,))),
        (LAST, {"name": "crop", "padding": 3}, lambda x, d: cropped(x, d, (1, 2), 3)),
        (BYTES, {"name": "crop", "padding": 2, "fill": 7}, lambda x, d: cropped(x, d, (1, 2), 2, 7)),
        (SERIES, {"name": "crop", "padding": 8}, lambda x, d: cropped(x, d, (1,), 8)),
        (SERIES, "flip", lambda x, d: flipped(x, d, (1,))),
    ],
)
def test_each_operation_is_that_of_numpy(x: Array, augment: Any, wanted: Callable[[Array, Draws], Array]) -> None:
    found, expected = changed(x, augment, 77), wanted(x, Draws(77))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert found.dtype == x.dtype and not np.array_equal(found, x)


def test_drawings_have_their_distributions_and_are_independent() -> None:
    """Within five standard errors each; of 20,000 samples, or 200,000 numbers."""
    pair = np.broadcast_to(np.array([1, 2], np.float32), (20_000, 1, 1, 2)).copy()
    mirrored = changed(pair, {"name": "flip", "p": 0.3})[:, 0, 0, 0] == 2
    assert abs(mirrored.mean() - 0.3) < 5 * np.sqrt(0.21 / mirrored.size)
    line = np.broadcast_to(np.arange(1, 6, dtype=np.float32), (20_000, 1, 5, 5)).copy()
    places = changed(line, {"name": "crop", "padding": 2})[:, 0, 2, 2]
    rows = changed(line.transpose(0, 1, 3, 2).copy(), {"name": "crop", "padding": 2})[:, 0, 2, 2]
    assert np.abs(np.corrcoef(places, rows)[0, 1]) < 5 / np.sqrt(len(line))
    shares = np.array([(places == number).mean() for number in range(1, 6)])
    assert np.abs(shares - 0.2).max() < 5 * np.sqrt(0.16 / len(line))
    zeros = np.zeros((2, 1, 250, 400), np.float32)
    noise, later, other = (changed(zeros, {"name": "noise", "std": 1}, g).ravel() for g in (0, 1, 1 << 32))
    assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
    assert abs(noise.var() - 1) < 5 * np.sqrt(2 / noise.size)
    assert abs((noise**4).mean() - 3) < 5 * np.sqrt(96 / noise.size)
    for second in (later, other, np.roll(noise, 1), np.roll(noise, 400), np.roll(noise, 100_000)):
        assert abs(np.corrcoef(noise, second)[0, 1]) < 5 / np.sqrt(noise.size)


@pytest.mark.parametrize("alpha", [0.01, 0.2, 1.0, 4.0, 32.0])
def test_shares_of_a_mixup_are_those_of_the_beta_distribution(alpha: float) -> None:
    shares = beta_quantiles(alpha)
    assert np.all(np.diff(shares) >= 0) and shares[0] >= 0 and shares[-1] <= 1
    assert shares.mean() == pytest.approx(0.5, abs=1e-12)
    assert shares.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=2e-2)
    if alpha == 1.0:
        np.testing.assert_allclose(shares, (np.arange(1024) + 0.5) / 1024, atol=1e-6)


def test_noise_is_never_in_memory_by_itself() -> None:
    """Two numbers are drawn for each element of a batch of images; of tensors as large there is only the sum."""
    builder = Builder("images")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (4, 3, 64, 64)))
    weight = builder.param("w", TensorType(DType.F32, (CLASSES, 3)), numbers(CLASSES, 3))
    builder.outputs = {"logits": e.matmul(e.reshape(e.mean(e.op("tanh", x), (2, 3)), (4, 3)), weight, trans_b=True)}
    large = []
    for augment in ((), "noise"):
        request = Request(builder.finish(), Recipe(augment=augment, update="full"), get("raspberry-pi-4"))
        steps = plan_programs(request).programs["train"].steps
        large.append([value for step in steps for value in step.node.outputs if value.type.size >= x.type.size])
    assert len(large[1]) <= len(large[0]) + 1


@pytest.mark.parametrize(
    ("augment", "words"),
    [
        ("flop", r"there is no augmentation 'flop' \(did you mean 'flip'\?\)"),
        ({"name": "rotate"}, "no augmentation 'rotate'"),
        ({"padding": 4}, r"augment needs a name \(known: crop, flip, mixup, noise\)"),
        (7, "augment must be a name or a mapping such as {name: crop, padding: 4}, not a whole number"),
        (["flip", {"name": "crop", "pading": 4}], r"augment\[1\] \('crop'\) has the unknown key 'pading' .*'padding'"),
        ({"name": "flip", "std": 1}, "unknown key 'std'"),
        ({"name": "flip", "p": 0}, "augment.p must be greater than 0 and at most 1, not 0"),
        ({"name": "flip", "axes": 0}, "augment.axes must be numbers of axes .*that of the samples"),
        ({"name": "flip", "axes": []}, "augment.axes must be numbers of axes"),
        ({"name": "flip", "axes": [True]}, "augment.axes must be numbers of axes"),
        ({"name": "flip", "axes": [10**30]}, "augment.axes must be numbers of axes"),
        ({"name": "crop", "padding": 0}, "augment.padding must be at least 1"),
        ({"name": "crop", "padding": 10**400}, "augment.padding must be less than"),
        ({"name": "crop", "fill": float("nan")}, "augment.fill must be"),
        ({"name": "noise", "std": -1}, "augment.std must be greater than 0"),
        ({"name": "mixup", "alpha": 0}, "augment.alpha must be at least 0.01 and at most 32"),
        ({"name": "mixup", "alpha": "much"}, "augment.alpha must be a number"),
        (["mixup", "mixup"], "augment has mixup twice"),
        (["flip"] * 17, "augment has 17 operations, and 16 is the most"),
    ],
)
def test_what_makes_no_sense_is_refused(augment: Any, words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        Recipe(augment=augment)


def test_mixup_is_refused_with_padding_and_with_losses_it_cannot_see_into() -> None:
    with pytest.raises(RecipeError, match="padding of last_batch: partial; use last_batch: drop"):
        Recipe(augment="mixup", last_batch="partial")
    with pytest.raises(RecipeError, match="the model's own knows no second targets"):
        Recipe(loss="output", augment="mixup")


@pytest.mark.parametrize(
    ("graph", "recipe", "words"),
    [
        (model(), {"augment": {"name": "flip", "input": "y"}}, r"flip: the model has no input 'y' \(known: x\)"),
        (model(), {"augment": {"name": "crop", "padding": 2}}, r"axis 2 of f32\[4,1,2,3\]: the most is 1"),
        (model(), {"augment": {"name": "flip", "axes": 4}}, r"flip.axes are \[4\], and the input is"),
        (model(), {"augment": {"name": "flip", "axes": [-1, 3]}}, "name each axis once"),
        (model(), {"augment": {"name": "flip", "axes": -4}}, "none but those after the first"),
        (model(1), {"augment": "mixup"}, "let 'batch' be 2 or more"),
        (model(rows=2), {"augment": "mixup"}, "4 rows of 'x' make 2: leave mixup out"),
        (model(side=True), {"augment": "mixup"}, "the model reads side"),
        (model(tokens=True), {"augment": "noise"}, r"'noise' is for numbers, and the input 'x' is i64"),
        (model(tokens=True), {"augment": {"name": "crop", "padding": 1, "fill": 0.5}}, "a number that i64 holds"),
        (model(tokens=True), {"augment": {"name": "crop", "padding": 1, "fill": 1e30}}, "a number that i64 holds"),
        (model(target=True), {"augment": "flip", "loss": {"name": "mse", "target": "y"}}, "which would have to move"),
        (model(target=True), {"augment": "noise", "loss": {"name": "mse", "target": "x"}}, "which a loss reads as it"),
        (CNN.build(2).with_(inputs=()), {"augment": "flip"}, "say which input 'flip' changes"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(graph: Graph, recipe: dict[str, Any], words: str) -> None:
    asked = Recipe(**recipe)
    with pytest.raises(RecipeError, match=words):
        train_graph(graph, asked, resolve(Recipe(loss=asked.loss), graph))
