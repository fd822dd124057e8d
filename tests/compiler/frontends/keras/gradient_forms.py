"""Ways in which a Keras model says that no gradient passes, or another one: each a few lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops


@dataclass(frozen=True)
class Form:
    """build    -> a model of inputs [batch, 4]
    refused  what from_keras says instead of importing it; empty where it is to be right"""

    name: str
    build: Callable[[], Any]
    refused: str = ""


class Expression(layers.Layer):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)


def between(layer: Any) -> Any:
    """A model with this layer between two that are trained."""
    inputs = keras.Input((4,))
    return keras.Model(inputs, layers.Dense(3)(layer(layers.Dense(5)(inputs))))


FORMS: list[Form] = []


def form(refused: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds what a function makes of hidden values."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        FORMS.append(Form(function.__name__, lambda: between(Expression(function)), refused))
        return function

    return add


def model(build: Callable[[], Any]) -> Callable[[], Any]:
    """Adds a model."""
    FORMS.append(Form(build.__name__, build))
    return build


@tf.custom_gradient
def rounded(x: Any) -> Any:
    return tf.round(x), lambda dy: dy * tf.where(tf.abs(x) < 0.5, 1.0, 0.1)


@tf.custom_gradient
def clipped(x: Any) -> Any:
    return tf.identity(x), lambda dy: tf.clip_by_value(dy, -0.1, 0.1)


@tf.custom_gradient
def pulled(x: Any) -> Any:
    return tf.identity(x), lambda dy: dy + 0.1 * tf.sign(x)


@tf.custom_gradient
def sums(x: Any, y: Any) -> Any:
    return (x * y, x + y), lambda product, total: (2 * product * y + total, None)


@ops.custom_gradient
def doubled(x: Any) -> Any:
    def rule(*args: Any, upstream: Any = None) -> Any:
        return ops.multiply(args[0] if upstream is None else upstream, 2.0)

    return ops.round(x), rule


@form()
def stop_gradient_of_tensorflow(x: Any) -> Any:
    return tf.stop_gradient(tf.tanh(x)) * x


@form()
def stop_gradient_of_keras(x: Any) -> Any:
    return ops.stop_gradient(ops.tanh(x)) * x


SCALES = tf.constant([1.0, 0.5, 2.0, -1.0, 3.0])


@form()
def constants_from_outside_of_the_model(x: Any) -> Any:
    return tf.stop_gradient(x * SCALES) * (x + SCALES)


@form()
def rounding_straight_through(x: Any) -> Any:
    return x + ops.stop_gradient(ops.round(x) - x)


@form()
def greatest_straight_through(x: Any) -> Any:
    soft = ops.softmax(x)
    return soft + ops.stop_gradient(ops.one_hot(tf.argmax(x, -1), 5) - soft)


@form()
def rounding_without_a_rule(x: Any) -> Any:
    return ops.round(x) * x + ops.sign(x) * x + ops.cast(ops.cast(x, "int32"), "float32")


@form()
def pass_through_of_tensorflow(x: Any) -> Any:
    return tf.grad_pass_through(tf.round)(x)


@form()
def custom_gradient_of_tensorflow(x: Any) -> Any:
    return rounded(rounded(x) * x)


@form()
def custom_gradient_of_keras(x: Any) -> Any:
    return doubled(x)


@form()
def custom_gradient_reversed(x: Any) -> Any:
    return tf.custom_gradient(lambda v: (tf.identity(v), lambda dy: -dy))(x)


@form()
def custom_gradient_of_several_results(x: Any) -> Any:
    return sums(x, 2 * x)[0] + sums(x, x)[1]


@form("the function 'clipped' of '.*gradient_forms' .*not linear in the gradient that arrives")
def custom_gradient_that_is_not_linear(x: Any) -> Any:
    return clipped(x)


@form("the function 'pulled' of '.*gradient_forms' .*not linear in the gradient that arrives")
def custom_gradient_that_adds(x: Any) -> Any:
    return pulled(x)


@form()
def recomputed(x: Any) -> Any:
    return tf.recompute_grad(lambda v: tf.nn.silu(v) * v)(x)


@form()
def a_derivative_with_a_tape(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(x) + tf.sigmoid(x) * tf.nn.softplus(x) + tf.sqrt(1 + x * x) + tf.nn.elu(x) + tf.nn.relu(x) ** 2
        with tape.stop_recording():
            factor = tf.sin(x)
        y = y * factor
    return tape.gradient(y, x)


@form("the model imitates quantisation .'FakeQuantWithMinMaxVars'")
def quantisation_imitated(x: Any) -> Any:
    return keras.quantizers.fake_quant_with_min_max_vars(x, -1.0, 1.0)


@form("the operator 'PreventGradient'")
def gradients_forbidden(x: Any) -> Any:
    return tf.raw_ops.PreventGradient(input=x)


@form("the model draws random numbers .'StatelessRandomNormalV2'")
def random_numbers(x: Any) -> Any:
    return x + keras.random.normal((3, 5))


@model
def frozen_layers() -> Any:
    built = between(layers.Dense(5, activation="tanh"))
    built.layers[2].trainable = False
    return built


@model
def what_inference_leaves_out() -> Any:
    noises = [layers.Dropout(0.5), layers.GaussianNoise(0.5), layers.GaussianDropout(0.5), layers.AlphaDropout(0.5)]
    inputs = keras.Input((4,))
    hidden = layers.ActivityRegularization(0.1)(layers.Dense(5)(inputs))
    for noise in noises:
        hidden = noise(hidden)
    return keras.Model(inputs, layers.Dense(3)(hidden))


@model
def spectral_normalization() -> Any:
    return between(layers.SpectralNormalization(layers.Dense(6)))


@model
def images_that_are_not_augmented() -> Any:
    inputs = keras.Input((4,))
    images = layers.Conv2D(2, 2)(layers.Reshape((2, 2, 1))(inputs))
    return keras.Model(
        inputs, layers.Dense(3)(layers.Flatten()(layers.RandomRotation(0.2)(layers.RandomFlip()(images))))
    )


def reads_a_weight() -> Any:
    class Scaled(layers.Layer):
        def build(self, shape: Any) -> None:
            self.factor = self.add_weight(shape=shape[-1:])

        def call(self, x: Any) -> Any:
            return tf.custom_gradient(lambda v: (v * self.factor, lambda dy, variables=None: dy))(x)

    return between(Scaled())


def traced_before() -> Any:
    return between(Expression(tf.function(rounded)))


FORMS += [
    Form("custom_gradient_of_what_is_no_argument", reads_a_weight, "it reads '.*', which is no argument of it"),
    Form(
        "custom_gradient_traced_before", traced_before, "custom_gradient in a tf.function that has been traced before"
    ),
]
