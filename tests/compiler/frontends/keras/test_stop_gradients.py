"""What stops or changes a gradient in Keras does so here, or the model is refused."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import keras
import tensorflow as tf
from keras import layers

import pockengine as pock
from pockengine import interp
from pockengine.errors import PockError, RecipeError
from tests.sweeps import some

from ..gradients import gradients
from .gradient_forms import FORMS, Form, between, frozen_layers, rounded

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).standard_normal((3, 3)).astype(np.float32)


@pytest.mark.parametrize("form", some(FORMS, 2), ids=lambda form: form.name)
def test_gradients_are_kerass_or_the_model_is_refused(form: Form) -> None:
    keras.utils.set_random_seed(2)
    model = form.build()
    if form.refused:
        with pytest.raises(PockError, match=form.refused):
            pock.from_keras(model, 3)
        return
    graph = pock.from_keras(model, 3)
    feeds = {graph.inputs[0].name: X}
    (output,) = graph.outputs
    with tf.GradientTape() as tape:
        expected = model(X, training=False)
        loss = tf.reduce_sum(expected * WEIGHTS)
    slopes = tape.gradient(loss, [v.value for v in model.trainable_variables], unconnected_gradients="zero")
    np.testing.assert_allclose(interp.evaluate(graph, feeds)[output], expected, rtol=1e-4, atol=1e-5)
    found = gradients(graph, feeds, output, WEIGHTS)
    assert any(np.any(gradient) for gradient in found.values())
    for variable, slope in zip(model.trainable_variables, slopes, strict=True):
        gradient = np.asarray(slope)
        ours = found.get(variable.path, 0 * gradient)
        np.testing.assert_allclose(ours, gradient, rtol=1e-4, atol=1e-4, err_msg=variable.path)


def test_a_compiled_model_with_a_rule_and_a_frozen_layer_trains_as_in_keras() -> None:
    keras.utils.set_random_seed(4)
    model = keras.Sequential([frozen_layers(), layers.Lambda(rounded), layers.Dense(3)])
    model(X)
    frozen = model.layers[0].layers[2]
    labels = np.array([2, 0, 1])
    recipe = pock.Recipe("cross_entropy", {"name": "sgd", "lr": 0.1}, "full", 3)
    graph = pock.from_keras(model, 3)
    session = pock.compile(graph, recipe, threads=1).load()
    losses = [session.step({graph.inputs[0].name: X, "labels": labels}) for _ in range(3)]
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    np.testing.assert_allclose(losses, [float(model.train_on_batch(X, labels)) for _ in range(3)], rtol=1e-4)
    state = session.state()
    assert {variable.path for variable in model.weights} == set(state)
    for variable in model.weights:
        np.testing.assert_allclose(state[variable.path], variable, atol=1e-5, err_msg=variable.path)
    assert not frozen.trainable_variables


def test_a_recipe_that_names_what_keras_does_not_train_says_so() -> None:
    model = between(layers.BatchNormalization())
    model.layers[1].trainable = False
    graph = pock.from_keras(model, 3)

    def compiled(pattern: str) -> pock.Artifact:
        recipe = pock.Recipe("mse", {"name": "sgd", "lr": 0.1}, [{"params": pattern}], 3)
        return pock.compile(graph, recipe, threads=1)

    mean = model.layers[2].moving_mean.path
    with pytest.raises(RecipeError, match=f"'{mean}' cannot be trained: it is a variable that Keras never trains"):
        compiled(mean)
    pattern = f"{model.layers[1].name}/*"
    with pytest.raises(
        RecipeError, match=f"'{re.escape(pattern)}' matches nothing .* has trainable=False in the Keras model"
    ):
        compiled(pattern)
