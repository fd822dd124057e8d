"""TensorFlow: a Keras model, a gradient tape and Keras's SGD in one `tf.function`, with XLA or without, in float32 or
with the policy `mixed_bfloat16`."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from benchmarks.peers import keras_models
from benchmarks.peers.case import Case
from benchmarks.peers.training import Training
from benchmarks.workloads import LEARNING_RATE, MOMENTUM, Array

_SUFFIXES = {"kernel": "weight", "gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "scale": "weight",
             "moving_variance": "running_var", "embeddings": "weight", "bias": "bias"}  # fmt: skip
"""What Keras calls a layer's variables -> what PyTorch calls them."""


def build(case: Case, variant: str, threads: int) -> Training:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    keras.config.set_dtype_policy("mixed_bfloat16" if "bf16" in variant else "float32")
    model = keras_models.MODELS[case.workload.family]()
    weights = case.weights()
    variables = _named(model)
    for name, variable in variables.items():
        variable.assign(_to_keras(weights[name], variable))
    names = list(case.trained)
    trained = [variables[name] for name in names]
    masks = {n: tf.constant(_to_keras(mask, variables[n])) for n, mask in case.masks(weights).items()}
    del weights
    optimizer = keras.optimizers.SGD(LEARNING_RATE, momentum=MOMENTUM)
    optimizer.build(trained)
    feed = case.feed()
    inputs = feed[case.workload.model.input_name]
    batch = (tf.constant(inputs.transpose(0, 2, 3, 1) if inputs.ndim == 4 else inputs), tf.constant(feed["labels"]))
    loss_of = _causal if case.workload.model.loss == "causal_lm" else _classification
    values = [variable.value for variable in trained]

    def traced(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            loss = loss_of(labels, tf.cast(model(inputs, training=False), tf.float32))
        gradients = tape.gradient(loss, values)
        gradients = [g * masks[name] if name in masks else g for name, g in zip(names, gradients, strict=True)]
        optimizer.apply(gradients, trained)
        return loss

    update = tf.function(traced, jit_compile="xla" in variant)
    return Training(lambda: float(update(*batch)), sum(int(np.prod(v.shape)) for v in trained))


def _named(model: keras.Model) -> dict[str, keras.Variable]:
    """The model's variables by PyTorch's names."""
    return {f"{layer.name}.{_SUFFIXES[v.name]}": v for layer in model.layers for v in layer.variables
            if v.name in _SUFFIXES}  # fmt: skip


def _to_keras(array: Array, variable: keras.Variable) -> Array:
    """Kernels [out, in, h, w] -> [h, w, in, out], depthwise ones [channels, 1, h, w] -> [h, w, channels, 1], matrices
    of linear layers [out, in] -> [in, out]."""
    if array.ndim == 4:
        moved = array.transpose(2, 3, 1, 0)
        return moved if moved.shape == tuple(variable.shape) else array.transpose(2, 3, 0, 1)
    return array.T if array.ndim == 2 and variable.name == "kernel" else array


def _classification(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def _causal(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return _classification(labels[:, 1:], logits[:, :-1])
