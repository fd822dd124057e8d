"""Operators: one record each. Importing this package registers them all."""

from . import composites, contraction, elementwise, losses, movement, optimizers, pooling, reduction
from .emitter import Emitter
from .registry import Op, Sample, all_ops, get, is_kind, register

__all__ = ["Emitter", "Op", "Sample", "all_ops", "get", "is_kind", "register"]

del composites, contraction, elementwise, losses, movement, optimizers, pooling, reduction
