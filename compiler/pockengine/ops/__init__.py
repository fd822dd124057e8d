"""Operators: one record each. Importing this package registers them all."""

from . import (
    attention,
    bitwise,
    composites,
    contraction,
    elementwise,
    losses,
    movement,
    optimizers,
    ordering,
    pooling,
    quantised,
    random,
    reduction,
    resample,
    scatter,
    split,
    transcendental,
)
from .emitter import Emitter
from .registry import Op, Sample, all_ops, differentiable, get, is_kind, passes_gradient, register
from .rewrite import Rule, expand_where, prune, rewrite

__all__ = [
    "Emitter",
    "Op",
    "Rule",
    "Sample",
    "all_ops",
    "differentiable",
    "expand_where",
    "get",
    "is_kind",
    "passes_gradient",
    "prune",
    "register",
    "rewrite",
]

del (
    attention,
    bitwise,
    composites,
    contraction,
    elementwise,
    losses,
    movement,
    optimizers,
    ordering,
    pooling,
    quantised,
    random,
    reduction,
    resample,
    scatter,
    split,
    transcendental,
)
