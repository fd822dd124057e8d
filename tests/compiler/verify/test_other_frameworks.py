"""`verify` for JAX and Keras: models that train alike, and faults put into the compiler or lost on the way, each found
and named."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
import pytest
from jax2onnx.plugins.plugin_system import PLUGIN_REGISTRY

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import jax
import jax.numpy as jnp
import keras
import tensorflow as tf
from flax import linen
from keras import layers

import pockengine as pock
from pockengine.errors import ModelError
from pockengine.frontends.jax.function import JaxFunction
from pockengine.ir import Graph
from pockengine.recipe import Recipe, resolve
from pockengine.verify import Verdict, compare_changes, verify
from pockengine.verify.sides.jax import jax_side
from pockengine.verify.sides.keras import keras_side
from pockengine.verify.sides.side import Side, Task
from pockengine.verify.sides.torch_training import train
from tests.compiler.verify.test_verify import break_gradient

BATCH = 4
RNG = np.random.default_rng(0)
X = RNG.standard_normal((BATCH, 5, 6)).astype(np.float32)
IDS = RNG.integers(0, 9, (BATCH, 5)).astype(np.int32)


class Block(linen.Module):
    """Tokens and numbers in, attention with a bias in `key` that changes nothing, running averages that are constants,
    two outputs; one is of integers."""

    @linen.compact
    def __call__(self, ids: Any, x: Any) -> dict[str, Any]:
        h = linen.Embed(9, 6, name="embed")(ids) + x
        scores = linen.Dense(6, name="query")(h) @ linen.Dense(6, name="key")(h).transpose(0, 2, 1)
        mixed = jnp.tanh(jax.nn.softmax(scores) @ linen.Dense(6, name="value")(h))
        mixed = linen.BatchNorm(use_running_average=True, name="norm")(mixed)
        logits = linen.Dense(3, name="head")((mixed + jax.lax.stop_gradient(h) * h).mean(1))
        return {"logits": logits, "class": logits.argmax(-1)}


BLOCK = Block()
VARIABLES = BLOCK.init(jax.random.key(0), IDS, X)


def keras_block() -> keras.Model:
    """Two inputs, one layer that is not trained, moving averages, and a stopped gradient."""
    keras.utils.set_random_seed(1)
    ids, x = keras.Input((5,), dtype="int32", name="ids"), keras.Input((5, 6), name="x")
    h = layers.Embedding(9, 6, name="embed")(ids) + layers.Dense(6, trainable=False, name="still")(x)
    h = layers.BatchNormalization(name="norm")(layers.Dense(8, name="first")(h))
    h = layers.Activation("tanh")(h) + keras.ops.stop_gradient(h) * h
    return keras.Model([ids, x], layers.Dense(3, name="head")(layers.GlobalAveragePooling1D()(h)), name="block")


SGD = Recipe(optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.9})
ADAMW = {"name": "adamw", "lr": 0.01, "eps": 1e-12, "schedule": {"name": "linear", "steps": 8}, "clip": {"norm": 1.0}}


def of_jax(recipe: Recipe | None = SGD, **options: Any) -> Any:
    loss = recipe.with_(loss={"name": "cross_entropy", "output": "logits"}) if recipe else None
    graph = None if "fixed" in options else imported()
    return verify(BLOCK.apply, (IDS, X), loss, params=VARIABLES, graph=graph, **options)


@cache
def imported() -> Graph:
    return pock.from_jax(BLOCK.apply, VARIABLES, (IDS, X))


def test_a_function_of_jax_that_trains_alike() -> None:
    """Also with AdamW, which makes whole steps of the rounding in the key's bias: JAX's float64 decides there."""
    report = of_jax(Recipe(optimizer=ADAMW))
    assert report.agrees, report.sentence()
    verdicts = {change.name: change.verdict for change in report.changes}
    assert verdicts.pop("params.key.bias") is Verdict.ROUNDING
    assert set(verdicts.values()) == {Verdict.SAME} and len(verdicts) == 10
    assert report.sentence().startswith("Block trains as JAX does: 3 steps, 11 tensors") and not report.notes


def test_a_model_of_keras_that_trains_alike() -> None:
    report = verify(keras_block(), (IDS, X), Recipe(optimizer=ADAMW, update="full"))
    assert report.agrees, report.sentence()
    assert {change.name for change in report.changes} == {
        *("embed/embeddings", "first/kernel", "first/bias", "norm/gamma", "norm/beta", "head/kernel", "head/bias")
    }
    assert report.sentence().startswith("block trains as Keras does: 3 steps, 7 tensors") and not report.notes


@pytest.fixture(scope="module")
def known() -> dict[str, tuple[Side, Graph, tuple[str, ...]]]:
    """Each framework's side, graph, and what gets an adapter and what is trained in part."""
    model = keras_block()
    function = JaxFunction(BLOCK.apply, VARIABLES, (IDS, X))
    return {
        "jax": (jax_side(function), imported(), ("params.value.kernel", "params.head.kernel")),
        "keras": (keras_side(model), pock.from_keras(model, BATCH), ("first/kernel", "head/kernel")),
    }


@pytest.mark.parametrize("framework", ["jax", "keras"])
def test_float64_is_float64_and_close(known: Any, framework: str) -> None:
    side, graph, _ = known[framework]
    output = next(name for name, value in graph.outputs.items() if value.type.dtype.is_float)
    recipe = Recipe(loss={"name": "cross_entropy", "output": output}, optimizer={"name": "sgd", "lr": 0.1})
    recipe = recipe.bound(graph)
    ids, x = (value.name for value in graph.inputs)
    task = Task((ids, x), recipe, resolve(recipe, graph), (), dict(graph.data))
    feeds: list[dict[Any, np.ndarray]] = [{ids: IDS, x: X, "labels": RNG.integers(0, 3, BATCH)} for _ in range(3)]
    single, double = train(side, task, feeds), train(side, task, feeds, double=True)
    assert all(gradient.dtype == np.float64 for gradient in double.gradients.values())
    assert 0 < max(abs(a - b) for a, b in zip(single.losses, double.losses, strict=True)) < 1e-6
    names = task.scheme.trained()
    for change in compare_changes(dict(graph.data), single.tensors, double.tensors, names, 3):
        assert change.agrees or "key.bias" in change.name, change
    assert not jax.config.read("jax_enable_x64")


@pytest.mark.parametrize("framework", ["jax", "keras"])
def test_adapters_channels_and_micro_batches(known: Any, framework: str) -> None:
    _, _, (adapted, sparse) = known[framework]
    how: dict[str, Any] = {
        "optimizer": {"name": "sgd", "lr": 0.1},
        "accumulate": 2,
        "lora": {"params": [adapted], "rank": 2},
    }
    recipe = Recipe(**how, update=[{"params": sparse, "channels": 0.5}])
    if framework == "jax":
        report = of_jax(recipe, steps=2)
    else:
        report = verify(keras_block(), (IDS, X), recipe, steps=2)
    assert report.agrees, report.sentence()
    assert len(report.changes) == 3


@pytest.mark.parametrize("framework", ["jax", "keras"])
def test_a_wrong_gradient_is_found_and_named(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_gradient(monkeypatch, "tanh", 1.3)
    if framework == "jax":
        report, first = of_jax(steps=1), "params.value.bias"
    else:
        report, first = verify(keras_block(), (IDS, X), SGD, steps=1), "norm/beta"
    assert not report.agrees and first in report.wrong
    assert not [name for name in report.wrong if "head" in name]
    assert report.first is not None and f"that of '{first}'" in report.first, report.first


def test_importing_from_jax_verifies_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped gradient that is lost on the way is what only a step shows."""
    from pockengine.frontends.jax import gradients as jax_gradients

    assert pock.from_jax(BLOCK.apply, VARIABLES, (IDS, X), verify=True).outputs
    monkeypatch.setattr(jax_gradients, "_StopGradient", lambda: PLUGIN_REGISTRY["stop_gradient"])
    assert pock.from_jax(BLOCK.apply, VARIABLES, (IDS, X)).outputs
    with pytest.raises(ModelError, match=r"Block does not train as JAX does: .* that of 'params.embed.embedding'"):
        pock.from_jax(BLOCK.apply, VARIABLES, (IDS, X), verify=True)


def test_importing_from_keras_verifies_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from pockengine.frontends.keras import gradients as keras_gradients

    model = keras_block()
    assert pock.from_keras(model, BATCH, verify=True).outputs
    lost = {name: rule for name, rule in keras_gradients.GRADIENTS.items() if name != "StopGradient"}
    monkeypatch.setattr(keras_gradients, "GRADIENTS", lost)
    assert pock.from_keras(model, BATCH).outputs
    with pytest.raises(ModelError, match=r"block does not train as Keras does: .* that of 'norm/beta'"):
        pock.from_keras(model, BATCH, verify=True)


def test_a_framework_without_float64_decides_nothing() -> None:
    """A layer that can be made only once: what float32 leaves open stays a difference, with a note that says why."""

    class Own(layers.Layer):
        def __init__(self, made: object) -> None:
            super().__init__()
            self.made, self.kernel = made, self.add_weight(shape=(6, 6), name="kernel")

        def call(self, x: Any) -> Any:
            return tf.tanh(x @ self.kernel)

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((6,)), Own(object()), layers.Dense(3)], name="own")
    report = verify(model, X[:, 0], Recipe(optimizer={"name": "sgd", "lr": 0.1}))
    assert report.agrees and not report.notes
    with pytest.raises(ModelError, match="own cannot be made again in float64"):
        keras_side(model).trainable(Task((), SGD, resolve(SGD, pock.from_keras(model)), (), {}), double=True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: verify(BLOCK.apply, (IDS, X), SGD), ["a JAX function with its 'params'", "method"]),
        (lambda: of_jax(SGD, fixed=["ids"]), ["'fixed'", "PyTorch modules alone"]),
        (
            lambda: verify(keras_block(), (IDS, X), SGD.with_(batch_norm="train")),
            ["'batch_norm: train'", "PyTorch alone"],
        ),
        (lambda: verify(keras_block(), (IDS,), SGD), ["takes ids, x", "each of them"]),
        (lambda: verify(keras_block(), (IDS, X[:, :2]), SGD), ["the example of 'x' is [4, 2, 6]"]),
    ],
)
def test_mistakes(call: Any, words: list[str]) -> None:
    with pytest.raises(pock.PockError) as caught:
        call()
    assert [word for word in words if word not in str(caught.value)] == []
