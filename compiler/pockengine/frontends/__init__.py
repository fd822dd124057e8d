"""Importers: a model of some framework -> Graph. Everything goes through ONNX."""

from .jax import from_jax
from .keras import from_keras
from .onnx_import import load
from .pytorch import from_torch
from .survey import OperatorUse, Survey, UnsupportedNode, survey

__all__ = ["OperatorUse", "Survey", "UnsupportedNode", "from_jax", "from_keras", "from_torch", "load", "survey"]
