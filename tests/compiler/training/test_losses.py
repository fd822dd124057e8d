"""Losses against PyTorch: the loss and every parameter over three steps of SGD, and what evaluation reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import pockengine as pock
from pockengine import interp
from pockengine.autodiff import eval_graph, train_graph, without_losses
from pockengine.errors import DataError, RecipeError
from pockengine.ir import Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.recipe import Recipe, resolve
from tests.compiler.training.loss_cases import (
    CASES,
    CE,
    CLASS_WEIGHTS,
    HEAD,
    LR,
    STEPS,
    TWO_HEADS,
    WEIGHTS,
    by_torch,
    classified,
)
from tests.compiler.training.small_models import BATCH, CLASSES, MODELS, TIME


@pytest.mark.parametrize("name", CASES)
def test_three_steps_against_pytorch(name: str) -> None:
    case = CASES[name]
    model, recipe = MODELS[case.model].build(), case.of()
    expected, params = by_torch(case)
    graph, tensors = train_graph(model, recipe, resolve(recipe, model)), dict(model.data)
    losses = [float(interp.step(graph, case.feeds(step), tensors)["loss"]) for step in range(STEPS)]
    np.testing.assert_allclose(losses, expected[:STEPS], rtol=1e-5)
    for key, array in params.items():
        np.testing.assert_allclose(tensors[key], array, rtol=1e-4, atol=1e-6, err_msg=key)
    outputs = interp.evaluate(eval_graph(model, recipe), {**tensors, **case.feeds(STEPS - 1)})
    assert {outputs[key].shape for key in ("sample_loss", "loss_weight")} == {(BATCH,)}
    if len(recipe.loss) == 1:
        assert np.average(outputs["sample_loss"], weights=outputs["loss_weight"]) == pytest.approx(
            expected[-1], rel=1e-5
        )


COMPILED = ("all at once", "segmentation", "causal of its own input", "bce of many", "two heads", "own", "partial")


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_step_against_pytorch(name: str) -> None:
    case = CASES[name]
    model = MODELS[case.model].build()
    expected, params = by_torch(case)
    with pock.compile(model, case.of(), threads=1).load() as session:
        losses = [session.step(case.feeds(step)) for step in range(STEPS)]
        np.testing.assert_allclose(losses, expected[:STEPS], rtol=1e-4)
        state = session.state()
        for key, array in params.items():
            np.testing.assert_allclose(state[key], array, rtol=1e-3, atol=1e-5, err_msg=key)
        feeds = case.feeds(STEPS - 1)
        outputs = interp.evaluate(eval_graph(model, case.of()), {**state, **feeds})
        found = session.evaluate(feeds)
        np.testing.assert_allclose(found.sample_loss, outputs["sample_loss"], rtol=1e-4, atol=1e-6)
        answers = session.predict({key: array for key, array in feeds.items() if key in ("x", "input_ids")})
        wanted = interp.evaluate(without_losses(model, case.of()), {**state, **feeds})
        assert answers.keys() == wanted.keys()
        np.testing.assert_allclose(answers["logits"], wanted["logits"], rtol=1e-4, atol=1e-5)


def test_samples_that_fill_no_batch() -> None:
    """Six samples by batches of four: the padding counts neither in evaluation nor in a partial step."""
    case = CASES["partial"]
    model, few = MODELS[case.model], 6
    graph, batches = model.build(), [case.feeds(seed) for seed in range(2)]
    feeds = {name: np.concatenate([batch[name] for batch in batches])[:few] for name in batches[0]}
    for name in ("labels", "sample_weight"):
        feeds[name][few - 1] = 1
    tensors = {name: torch.tensor(array) for name, array in feeds.items()}
    params = {name: torch.tensor(array) for name, array in graph.data.items()}
    outputs = model.forward(params, tensors)
    counted = tensors["sample_weight"][:, None] * (tensors["labels"] != -100)
    right = (outputs["logits"].argmax(-1) == tensors["labels"]) * counted
    with pock.compile(graph, case.of(), threads=1).load() as session:
        found = session.evaluate(feeds)
        assert found.loss == pytest.approx(case.torch(outputs, tensors).item(), rel=1e-5)
        assert found.accuracy == pytest.approx((right.sum() / counted.sum()).item(), rel=1e-5)
        last = {name: array[-3:] for name, array in tensors.items()}
        expected = case.torch(model.forward(params, last), last).item()
        assert session.step({name: array[-3:] for name, array in feeds.items()}) == pytest.approx(expected, rel=1e-5)


def test_evaluation_weighs_samples_as_the_loss_does() -> None:
    """Several batches: sums over samples give the loss and accuracy of the whole dataset."""
    case = CASES["ignored 255"]
    model, recipe = MODELS[case.model].build(), case.of()
    graph = eval_graph(model, recipe)
    batches = [case.feeds(seed) for seed in range(3)]
    tensors = [{**model.data, **feeds} for feeds in batches]
    found = [{**interp.evaluate(graph, feeds), **interp.evaluate(model, feeds)} for feeds in tensors]
    joined = {name: np.concatenate([outputs[name] for outputs in found]) for name in found[0]}
    logits, target = (
        torch.tensor(joined["logits"]),
        torch.tensor(np.concatenate([feeds["labels"] for feeds in batches])),
    )
    options = {"ignore_index": 255, "weight": CLASS_WEIGHTS, "label_smoothing": 0.3}
    whole = classified(logits, target, **options).item()
    assert np.average(joined["sample_loss"], weights=joined["loss_weight"]) == pytest.approx(whole, rel=1e-5)
    counted = (target != 255).numpy()
    right = (logits.argmax(-1) == target).numpy() & counted
    np.testing.assert_array_equal(joined["counted"], counted.sum(1))
    assert np.average(joined["correct"], weights=joined["counted"]) == pytest.approx(right.sum() / counted.sum())


def test_weightless_samples_count_nothing_in_evaluation() -> None:
    case = CASES["partial"]
    model = MODELS[case.model].build()
    outputs = interp.evaluate(eval_graph(model, case.of()), {**model.data, **case.feeds(0)})
    kept = (case.feeds(0)["labels"] != -100).sum(1)
    for key in ("loss_weight", "counted"):
        np.testing.assert_allclose(outputs[key], kept * [1, 0.5, 0, 2])


def test_a_mask_of_the_model_may_lie_over_every_element() -> None:
    """As an `attention_mask` does over one score for each token."""
    builder = Builder("scores")
    x, seen = (
        builder.input(name, TensorType(dtype, (2, 3))) for name, dtype in (("x", DType.F32), ("seen", DType.I64))
    )
    e, scale = Emitter(builder), builder.param("scale", TensorType(DType.F32, (3,)), np.ones(3, np.float32))
    builder.outputs["scores"] = e.add(e.mul(x, scale), e.cast(seen, DType.F32))
    model, recipe = builder.finish(), Recipe({"name": "mse", "mask": "seen"})
    feeds = {name: np.arange(6, dtype=np.float32).reshape(2, 3) for name in ("x", "labels")}
    feeds["labels"][0, 1:] = 7
    feeds["seen"] = np.array([[1, 1, 0], [1, 0, 0]])
    outputs = interp.evaluate(eval_graph(model, recipe), {**model.data, **feeds})
    np.testing.assert_allclose(outputs["sample_loss"], [(1 + 25) / 2, 1])
    np.testing.assert_array_equal(outputs["loss_weight"], [2, 1])


def test_a_batch_of_which_nothing_counts_has_no_loss_and_no_gradient() -> None:
    case = CASES["all at once"]
    model, recipe = MODELS[case.model].build(), case.of()
    feeds, tensors = {**case.feeds(0), "mask": np.zeros((BATCH, TIME), np.float32)}, dict(model.data)
    assert interp.step(train_graph(model, recipe, resolve(recipe, model)), feeds, tensors)["loss"] == 0
    for name, array in model.data.items():
        np.testing.assert_array_equal(tensors[name], array)


def test_a_class_of_weight_zero_with_smoothing() -> None:
    """A sample of that class alone weighs nothing, and its smoothed loss must not be divided by that."""
    recipe = Recipe({**CE, **HEAD, "label_smoothing": 0.1, "class_weights": WEIGHTS}, {"name": "sgd", "lr": LR})
    model = MODELS["perceptron"].build()
    feeds = {**MODELS["perceptron"].inputs(np.random.default_rng(0)), "labels": np.asarray([3, 0, 1, 2])}
    outputs = interp.evaluate(eval_graph(model, recipe), {**model.data, **feeds})
    assert outputs["sample_loss"][0] == outputs["loss_weight"][0] == 0
    feeds["labels"][:], tensors = 3, dict(model.data)
    assert interp.step(train_graph(model, recipe, resolve(recipe, model)), feeds, tensors)["loss"] == 0
    np.testing.assert_array_equal(tensors["fc2.weight"], model.data["fc2.weight"])


def test_accuracy_only_where_it_means_something() -> None:
    for name, case in CASES.items():
        model = MODELS[case.model].build()
        outputs = eval_graph(model, case.of()).outputs
        expected = any(loss.name in ("cross_entropy", "causal_lm", "bce_with_logits") for loss in case.of().loss)
        assert ("correct" in outputs, "counted" in outputs) == (expected, expected), name


def test_what_the_teacher_alone_needs_is_not_trained() -> None:
    model = MODELS["perceptron"].build()
    recipe = Recipe({"name": "kl", **HEAD, "against": "features"})
    assert "fc3.weight" not in resolve(recipe, model).trained()
    assert "fc3.weight" in resolve(Recipe(TWO_HEADS), model).trained()


def test_only_classes_and_the_ignored_label_pass() -> None:
    case = CASES["segmentation"]
    with pock.compile(MODELS[case.model].build(), case.of(), threads=1).load() as session:
        feeds = case.feeds(0)
        for wrong in (-1, -100, CLASSES, 254):
            target = feeds["labels"].copy()
            target[1, 2, 3] = wrong
            with pytest.raises(DataError, match=f"'labels' .*holds {wrong} at sample 1"):
                session.step({**feeds, "labels": target})
        assert np.isfinite(session.step(feeds))


def test_defaults_are_left_out_of_the_canonical_form() -> None:
    assert Recipe("cross_entropy").to_mapping()["loss"] == {"name": "cross_entropy", "target": "labels"}
    assert Recipe(TWO_HEADS).to_mapping()["loss"][1] == {
        "name": "kl", "output": "logits", "against": "features", "weight": 0.5, "temperature": 2.0,
    }  # fmt: skip
    for case in CASES.values():
        assert Recipe.from_mapping(case.of().to_mapping()) == case.of()


@pytest.mark.parametrize(
    "loss, sentence",
    [
        ([], "loss is an empty list"),
        (["mse", 3], r"loss\[1\] must be a name or a mapping"),
        ([{"name": "mse", "wieght": 2}], r"loss\[0\] \('mse'\) has the unknown key 'wieght' \(did you mean 'weight'"),
        ({**CE, "delta": 1}, "unknown key 'delta'"),
        ({"name": "causal_lm", "axis": 1}, "unknown key 'axis'"),
        ({"name": "output", "target": "labels"}, "unknown key 'target'"),
        ({"name": "output", "mask": "m"}, "unknown key 'mask'"),
        ({**CE, "weight": 0}, "loss.weight must be greater than 0"),
        ({**CE, "weight": 10**400}, "loss.weight must be greater than 0 and at most 1e"),
        ({**CE, "label_smoothing": 1.5}, "loss.label_smoothing must be at least 0 and at most 1"),
        ({**CE, "class_weights": [1, -1]}, r"loss.class_weights\[1\] must be at least 0"),
        ({**CE, "class_weights": 2}, "loss.class_weights must be a list of numbers"),
        ({**CE, "ignore_index": 1.5}, "loss.ignore_index must be a whole number"),
        ({**CE, "axis": 2}, "loss.axis must be 1"),
        ({"name": "huber", "delta": 0}, "loss.delta must be greater than 0"),
        ({"name": "kl", "temperature": "hot"}, "loss.temperature must be a number"),
        ({"name": "kl", "target": "t", "against": "u"}, "a target and an output to go against"),
        ([CE, {**CE, "ignore_index": 0}], "'labels' must have the same ignore_index"),
    ],
)
def test_refused_by_the_recipe(loss: Any, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        Recipe(loss)


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"last_batch": "part"}, "last_batch must be one of wrap, drop, partial, not .* 'partial'"),
        ({"last_batch": "partial", "batch_norm": "train"}, "the batch's statistics; use last_batch: drop"),
        ({"last_batch": "partial", "accumulate": 2}, "2 accumulated batches"),
        ({"last_batch": "partial", "loss": "output"}, "computes itself would count the padding"),
    ],
)
def test_last_batch_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        Recipe(**changes)


def _flat() -> Graph:
    """The model of tokens with the classes first, and batch and time in one axis."""
    builder = Builder.extend(MODELS["tokens"].build())
    e, logits = Emitter(builder), builder.outputs["logits"]
    builder.outputs = {"logits": e.transpose(e.reshape(logits, (BATCH * TIME, CLASSES)), (1, 0))}
    return builder.finish()


@pytest.mark.parametrize(
    "model, loss, sentence",
    [
        ("perceptron", {**CE, "output": "logit"}, "no output 'logit'.*'logits'"),
        ("perceptron", {"name": "kl", **HEAD, "against": "teacher"}, "no output 'teacher'"),
        ("perceptron", {"name": "causal_lm", **HEAD}, r"causal_lm reads scores \[batch, time, vocabulary\]"),
        ("perceptron", {**CE, **HEAD, "class_weights": [1, 2]}, "class_weights has 2 numbers, and the model has 6"),
        ("images", {"name": "bce_with_logits", "pos_weight": [1, 2]}, "pos_weight has 2 numbers, and the model has 5"),
        ("perceptron", {"name": "mse", **HEAD, "target": "x"}, r"the input 'x' is f32\[4,7\], and loss mse needs"),
        ("perceptron", {**CE, **HEAD, "mask": "x"}, r"the mask 'x' is f32\[4,7\], and loss cross_entropy needs \[4\]"),
        ("perceptron", [{**CE, **HEAD}, {"name": "mse", **HEAD}], "the input 'labels' is i64"),
        ("perceptron", {"name": "mse", **HEAD, "target": "fc1.weight"}, "another tensor called 'fc1.weight'"),
        ("own_loss", {**CE, "output": "loss"}, "and the output is f32"),
        ("own_loss", {"name": "output", "output": "logits"}, "a loss is one number"),
        ("own_loss", {"name": "l1", "output": "loss"}, "the output is a scalar"),
        ("tokens", "output", "no output 'loss'"),
        ("flat", CE, r"the batch is 4, and the output 'logits' is f32\[6,20\]: a loss reads an output whose first"),
    ],
)
def test_refused_with_the_model(model: str, loss: Any, sentence: str) -> None:
    graph, recipe = _flat() if model == "flat" else MODELS[model].build(), Recipe(loss)
    with pytest.raises(RecipeError, match=sentence):
        train_graph(graph, recipe, resolve(recipe, graph))
