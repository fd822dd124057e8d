"""The C backend: readable C kernels for one target, compiled with `zig cc`, and the tables that make them a model."""

from .backend import CBackend
from .emit.model import emit_model, kernel_sources

__all__ = ["CBackend", "emit_model", "kernel_sources"]
