"""The C backend: readable C kernels for one target, compiled with `zig cc`, and the tables that make them a model."""

from .backend import CBackend
from .emit.model import IN_FILE, LookedUp, Model, Tensor, emit_model, kernel_sources

__all__ = ["IN_FILE", "CBackend", "LookedUp", "Model", "Tensor", "emit_model", "kernel_sources"]
