"""Importers: a model of some framework -> Graph. Everything goes through ONNX."""

from .onnx_import import load
from .pytorch import from_torch

__all__ = ["from_torch", "load"]
