"""The C backend: readable C kernels for one target, compiled with `zig cc`, and the tables that make them a model."""

from .backend import CBackend
from .contraction_plan import PACKED
from .emit_model import Model, Tensor, emit_model, kernel_sources

__all__ = ["PACKED", "CBackend", "Model", "Tensor", "emit_model", "kernel_sources"]
