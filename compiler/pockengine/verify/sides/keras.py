"""A Keras model as the other side of a comparison: `tf.GradientTape` over it. Imported only where TensorFlow is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ...errors import ModelError
from ...frontends.exported import first_line
from ...frontends.keras.importer import inference
from ...ir import Array
from .foreign import ForeignSide, Pullback, plain


def keras_side(model: Any) -> ForeignSide:
    return ForeignSide(model.name, "Keras", lambda double: _Differentiated(model, double))


class _Differentiated:
    def __init__(self, model: Any, double: bool) -> None:
        variables = [*model.trainable_variables, *model.non_trainable_variables]
        held = {variable.path: variable for variable in variables}
        self._names = list(held)
        self._inputs = [x.name for x in model.inputs]
        self._outputs = list(getattr(model, "output_names", ("output",)))
        self._model = _in_double(model) if double else model
        self.weights = {name: plain(x) for name, x in held.items() if np.issubdtype(x.dtype, np.floating)}
        self._constants = {name: np.asarray(x) for name, x in held.items() if name not in self.weights}
        types = (*self._model.trainable_variables, *self._model.non_trainable_variables)
        self._types = {variable.path: variable.dtype for variable in types}
        if self._types.keys() != held.keys():
            raise ModelError(f"a copy of {model.name} in float64 has other variables")

    def run(self, weights: Mapping[str, Array], inputs: Mapping[str, Array]) -> tuple[dict[str, Array], Pullback]:
        """As inference computes it."""
        given = [
            tf.constant(inputs[name], x.dtype) if name in inputs else tf.zeros(x.shape, x.dtype)
            for name, x in zip(self._inputs, self._model.inputs, strict=True)
        ]
        everything = {**self._constants, **self.weights, **weights}
        held = {name: tf.constant(everything[name], self._types[name]) for name in self._names}
        asked = [held[name] for name in weights]
        with tf.GradientTape() as tape:
            tape.watch(asked)
            found = inference(self._model)(*given, *(held[name] for name in self._types))
        results = dict(zip(self._outputs, found.values(), strict=True))
        floats = {name: x for name, x in results.items() if x.dtype.is_floating}

        def back(slopes: Mapping[str, Array]) -> dict[str, Array]:
            arriving = [tf.constant(slopes[name], x.dtype) for name, x in floats.items()]
            found = tape.gradient(
                list(floats.values()), asked, arriving, unconnected_gradients=tf.UnconnectedGradients.ZERO
            )
            dense = [tf.convert_to_tensor(slope) for slope in found]  # an embedding's are slices
            return dict(zip(weights, map(plain, dense), strict=True))

        return {name: plain(result) for name, result in results.items()}, back


def _in_double(model: Any) -> Any:
    """The same layers in float64, with weights of their own."""
    try:
        return keras.saving.deserialize_keras_object(
            _widened(keras.saving.serialize_keras_object(model)), safe_mode=False
        )
    except Exception as error:  # of any of the user's layers
        raise ModelError(f"{model.name} cannot be made again in float64: {first_line(error)}") from error


def _widened(config: Any) -> Any:
    """A configuration in which float64 is where float32 was."""
    if isinstance(config, dict):
        return {key: _widened(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return type(config)(map(_widened, config))
    return "float64" if config == "float32" else config
