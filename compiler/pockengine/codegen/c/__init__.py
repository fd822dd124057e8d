"""The C backend: readable C kernels for one target, compiled with `zig cc`, and the tables that make them a model."""

from .backend import CBackend

__all__ = ["CBackend"]
