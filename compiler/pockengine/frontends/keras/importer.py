"""Keras -> Graph, through tf2onnx."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from ...errors import DynamicShapeError, ModelError, PockError
from ...ir import Graph
from ..exported import MOST_OPERATIONS, drawn, first_line, operations, quiet, refuse_another_function, with_weights
from ..onnx.importer import OWN_DOMAIN, import_model

OPSET = 18
"""The newest opset that tf2onnx writes."""

_FROZEN = "has trainable=False in the Keras model"
_CONSTANT = "is a variable that Keras never trains"


def from_keras(model: Any, batch: int = 1, *, verify: bool = False) -> Graph:
    """Import a Keras 3 model (TensorFlow backend) as its inference computes it.

    batch   size of the inputs' first dimension
    verify  compare the graph's outputs with the model's whatever its size

    Parameters are called by their variables' paths, as in `sequential/dense/kernel`. Those of layers with
    `trainable=False` are parameters that patterns of recipes leave out; variables that no setting makes trainable
    (moving averages) are constants. Inputs and outputs are called as the model calls them. What
    `stop_gradient` and the rules of `custom_gradient` make of gradients is so here, too. Models of more than 1 G
    operations are compared only with `verify`. Raises ModelError when TensorFlow or tf2onnx is not installed, the model
    cannot be exported, or another function is; DynamicShapeError for an input with an unknown dimension besides the
    batch."""
    _refuse_unready(model)
    import tensorflow as tf

    trained, fixed = list(model.trainable_variables), list(model.non_trainable_variables)
    inputs = [tf.TensorSpec(_shape(tensor, batch), tensor.dtype, name=tensor.name) for tensor in model.inputs]
    variables = [
        tf.TensorSpec(variable.shape, variable.dtype, name=f"weight_{index}")
        for index, variable in enumerate([*trained, *fixed])
    ]
    signature = [*inputs, *variables]
    function, proto = _exported(model, signature)
    weights = {
        f"weight_{index}": (variable.path, np.asarray(variable)) for index, variable in enumerate([*trained, *fixed])
    }
    for outer, inner in function.get_concrete_function(*signature).graph.captures:
        if inner.dtype != tf.resource:
            weights[inner.name] = (inner.name, np.asarray(outer))
    untrained = _untrained(model, fixed)
    parameters = {variable.path for variable in (*trained, *fixed) if untrained.get(variable.path) != _CONSTANT}
    graph = import_model(with_weights(proto, weights), model.name, parameters=parameters)
    if verify or operations(graph) <= MOST_OPERATIONS:
        _refuse_other_outputs(graph, function, inputs, [*trained, *fixed])
    return graph.with_(untrained=untrained)


def _refuse_unready(model: Any) -> None:
    """Raise ModelError where nothing can be exported here, or not this model."""
    try:
        import keras
        import tensorflow  # noqa: F401
        import tf2onnx  # noqa: F401
    except ImportError:
        raise ModelError("from_keras needs tensorflow and tf2onnx: pip install 'pockengine[keras]'") from None
    if keras.backend.backend() != "tensorflow":
        raise ModelError(
            f"from_keras needs Keras's TensorFlow backend, not '{keras.backend.backend()}': "
            "set KERAS_BACKEND=tensorflow before importing keras"
        )
    if not getattr(model, "built", False) or not getattr(model, "inputs", None):
        raise ModelError("the Keras model has no defined inputs: call it once, or build it with an Input layer")


def _exported(model: Any, signature: Sequence[Any]) -> tuple[Any, onnx.ModelProto]:
    """TensorFlow's function of inputs and variables, and what tf2onnx makes of it."""
    import tensorflow as tf
    import tf2onnx

    from .gradients import GRADIENTS, traced
    from .operators import HANDLERS

    try:
        with quiet():
            function = traced(tf.function(inference(model)), signature)
            proto, _ = tf2onnx.convert.from_function(
                function,
                signature,
                opset=OPSET,
                custom_op_handlers={**HANDLERS, **GRADIENTS},
                extra_opset=[onnx.helper.make_opsetid(OWN_DOMAIN, 1)],
            )
    except PockError:
        raise
    except Exception as error:
        raise ModelError(f"TensorFlow cannot export {type(model).__name__} to ONNX: {first_line(error)}") from error
    return function, proto


def _refuse_other_outputs(graph: Graph, function: Any, inputs: Sequence[Any], variables: Sequence[Any]) -> None:
    """Raise ModelError unless the graph computes on made-up inputs what TensorFlow's function does."""
    import tensorflow as tf

    feeds = {spec.name: drawn(tuple(spec.shape), spec.dtype.name) for spec in inputs}
    given = [*feeds.values(), *(tf.convert_to_tensor(variable) for variable in variables)]
    expected = {key: np.asarray(value) for key, value in function(*given).items()}
    used = {value.name for value in graph.inputs}
    feeds = {key: array for key, array in feeds.items() if key in used}
    refuse_another_function(graph, feeds, expected, "TensorFlow")


def inference(model: Any) -> Callable[..., dict[str, Any]]:
    """What the model computes without training: a function of its inputs, then its variables, those that are trained
    first. It gives the outputs by name."""
    import keras
    import tensorflow as tf

    count, trained = len(model.inputs), len(model.trainable_variables)
    names = list(getattr(model, "output_names", ("output",)))

    def infer(*tensors: Any) -> dict[str, Any]:
        given = tensors[:count] if count > 1 else tensors[0]
        weights = tensors[count:]
        outputs, _ = model.stateless_call(weights[:trained], weights[trained:], given, training=False)
        return {name: tf.identity(value) for name, value in zip(names, keras.tree.flatten(outputs), strict=True)}

    return infer


def _untrained(model: Any, fixed: Sequence[Any]) -> dict[str, str]:
    """The variables that Keras does not train -> why, as the end of a sentence."""
    frozen = {id(variable) for layer in model._flatten_layers() for variable in layer._trainable_variables}
    return {v.path: _FROZEN if id(v) in frozen else _CONSTANT for v in fixed}


def _shape(tensor: Any, batch: int) -> tuple[int, ...]:
    for axis, size in enumerate(tensor.shape[1:], 1):
        if size is None:
            raise DynamicShapeError(
                f"dimension {axis} of the Keras input '{tensor.name}' is unknown: give its Input layer a full shape"
            )
    return (batch, *tensor.shape[1:])
