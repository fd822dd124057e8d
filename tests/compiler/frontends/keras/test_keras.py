"""Models of Keras: ten training steps against Keras itself."""

from __future__ import annotations

import os

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import keras
from keras import layers

import pockengine as pock
from pockengine.errors import DynamicShapeError, ModelError

STEPS, BATCH, RATE = 10, 4, 0.05


def convolutional():
    return keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            layers.Conv2D(8, 3, padding="same", strides=2),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.DepthwiseConv2D(3, padding="same"),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 1),
            layers.LayerNormalization(),
            layers.Activation("gelu"),
            layers.GlobalAveragePooling2D(),
            layers.Dropout(0.0),
            layers.Dense(5),
        ]
    )


def recurrent():
    inputs = keras.Input((6, 4), name="series")
    hidden = layers.LSTM(8, unroll=True, return_sequences=True)(inputs)
    hidden = layers.GRU(8, unroll=True)(hidden)
    return keras.Model(inputs, layers.Dense(5, name="scores")(hidden))


@pytest.mark.parametrize("build", [convolutional, recurrent])
def test_ten_steps(build):
    keras.utils.set_random_seed(3)
    model = build()
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.trainable = False  # Keras then normalises with the moving averages, as our recipe's default does
            layer.moving_variance.assign(layer.moving_variance * 1.5)
    rng = np.random.default_rng(5)
    batches = [
        (rng.normal(size=(BATCH, *model.inputs[0].shape[1:])).astype(np.float32), rng.integers(0, 5, BATCH))
        for _ in range(STEPS)
    ]
    graph = pock.from_keras(model, BATCH)
    recipe = pock.Recipe("cross_entropy", {"name": "sgd", "lr": RATE}, "full", BATCH)
    session = pock.compile(graph, recipe, threads=1).load()
    name = model.inputs[0].name
    losses = [session.step({name: x, "labels": y}) for x, y in batches]

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(RATE), loss)
    expected = [float(model.train_on_batch(x, y)) for x, y in batches]

    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    found = session.state()
    frozen = {v.path for layer in model.layers for v in layer.weights if v.path.endswith(("gamma", "beta"))}
    assert {variable.path for variable in model.trainable_variables} | frozen == set(found)
    for variable in model.trainable_variables:
        tensor = np.asarray(variable)
        limit = 1e-3 * np.abs(tensor).max()
        np.testing.assert_allclose(found[variable.path], tensor, atol=limit, err_msg=variable.path)


def test_names_of_inputs_and_outputs():
    graph = pock.from_keras(recurrent(), 2)
    assert [(value.name, value.type.shape) for value in graph.inputs] == [("series", (2, 6, 4))]
    assert list(graph.outputs) == ["scores"]


def test_unknown_dimension():
    inputs = keras.Input((None, 4), name="series")
    model = keras.Model(inputs, layers.Dense(2)(inputs))
    with pytest.raises(DynamicShapeError, match="dimension 1 of the Keras input 'series'"):
        pock.from_keras(model)


def test_model_that_was_never_built():
    with pytest.raises(ModelError, match="call it once"):
        pock.from_keras(keras.Sequential([layers.Dense(2)]))
