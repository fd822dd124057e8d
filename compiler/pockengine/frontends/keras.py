"""Keras -> Graph, through tf2onnx."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DynamicShapeError, ModelError, PockError
from ..ir import Graph
from .exported import first_line, quiet, with_weights
from .onnx_import import import_model

OPSET = 18
"""The newest opset that tf2onnx writes."""


def from_keras(model: Any, batch: int = 1) -> Graph:
    """Import a Keras 3 model (TensorFlow backend) as its inference computes it.

    batch  size of the inputs' first dimension

    Parameters are called by their variables' paths, as in `sequential/dense/kernel`; variables that are not trainable
    (moving averages) are constants. Inputs and outputs are called as the model calls them. Raises ModelError when
    TensorFlow or tf2onnx is not installed or the model cannot be exported, DynamicShapeError for an input with an
    unknown dimension besides the batch."""
    try:
        import keras
        import tensorflow as tf
        import tf2onnx
    except ImportError:
        raise ModelError("from_keras needs tensorflow and tf2onnx: pip install 'pockengine[keras]'") from None
    if keras.backend.backend() != "tensorflow":
        raise ModelError(
            f"from_keras needs Keras's TensorFlow backend, not '{keras.backend.backend()}': "
            "set KERAS_BACKEND=tensorflow before importing keras"
        )
    if not getattr(model, "built", False) or not getattr(model, "inputs", None):
        raise ModelError("the Keras model has no defined inputs: call it once, or build it with an Input layer")
    trained, fixed = list(model.trainable_variables), list(model.non_trainable_variables)
    names = list(getattr(model, "output_names", ("output",)))
    inputs = [tf.TensorSpec(_shape(tensor, batch), tensor.dtype, name=tensor.name) for tensor in model.inputs]
    variables = [
        tf.TensorSpec(variable.shape, variable.dtype, name=f"weight_{index}")
        for index, variable in enumerate([*trained, *fixed])
    ]

    def infer(*tensors: Any) -> Any:
        given = tensors[: len(inputs)] if len(inputs) > 1 else tensors[0]
        weights = tensors[len(inputs) :]
        outputs, _ = model.stateless_call(weights[: len(trained)], weights[len(trained) :], given, training=False)
        flat = keras.tree.flatten(outputs)
        return {name: tf.identity(value) for name, value in zip(names, flat, strict=True)}

    try:
        with quiet():
            proto, _ = tf2onnx.convert.from_function(
                tf.function(infer),
                [*inputs, *variables],
                opset=OPSET,
                custom_op_handlers={"Erfc": (_erfc, [])},
            )
    except PockError:
        raise
    except Exception as error:
        raise ModelError(f"TensorFlow cannot export {type(model).__name__} to ONNX: {first_line(error)}") from error
    weights = {
        f"weight_{index}": (variable.path, np.asarray(variable)) for index, variable in enumerate([*trained, *fixed])
    }
    return import_model(with_weights(proto, weights), model.name, parameters={v.path for v in trained})


def _shape(tensor: Any, batch: int) -> tuple[int, ...]:
    for axis, size in enumerate(tensor.shape[1:], 1):
        if size is None:
            raise DynamicShapeError(
                f"dimension {axis} of the Keras input '{tensor.name}' is unknown: give its Input layer a full shape"
            )
    return (batch, *tensor.shape[1:])


def _erfc(context: Any, node: Any, name: str, args: Any) -> None:
    """tf2onnx has no Erfc, which Keras's exact GELU uses: 1 - erf(x)."""
    one = context.make_const(f"{name}_one", np.array(1, np.float32)).output[0]
    erf = context.make_node("Erf", node.input).output[0]
    shapes, dtypes = node.output_shapes, node.output_dtypes
    context.remove_node(node.name)
    context.make_node("Sub", [one, erf], outputs=node.output, name=name, shapes=shapes, dtypes=dtypes)
