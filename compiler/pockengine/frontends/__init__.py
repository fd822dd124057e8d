"""Importers: a model of some framework -> Graph. Everything goes through ONNX."""

from .jax.importer import from_jax
from .keras.importer import from_keras
from .onnx.importer import load
from .onnx.survey import OperatorUse, Survey, UnsupportedNode, survey
from .torch.importer import from_torch

__all__ = ["OperatorUse", "Survey", "UnsupportedNode", "from_jax", "from_keras", "from_torch", "load", "survey"]
