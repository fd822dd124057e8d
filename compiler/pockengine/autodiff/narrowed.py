"""Trained weights in 16 bits: which are, the model that reads them, and what an update makes of one.

Everything else is computed in f32: a weight is widened where it is read, its gradient and its new contents are f32, and
only what is stored is rounded. There is no other copy of it ("master weights", Micikevicius et al., "Mixed Precision
Training", 2018). bf16 has 8 bits of a number, so an update smaller than about 1/512 of its weight would be lost to the
nearest: rounding at random keeps it on average (Gupta et al., "Deep Learning with Limited Numerical Precision", 2015).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import cast

import numpy as np

from ..errors import RecipeError, nearest
from ..ir import Array, Builder, DType, Graph, Value, substitute, verify
from ..ops import Emitter
from ..ops.random import rounded_at_random
from ..recipe import Scheme, Trained, is_adapter, matches, module_of
from ..recipe.trained import RANDOM
from ..tensors import Deferred, let_go
from .generator import Noise

LEAST_SIZE = 4096
"""Numbers of a weight that nobody named, from which on it is stored so: smaller ones cost little."""


def narrowed(model: Graph, trained: Trained, scheme: Scheme) -> Graph:
    """The model with large trained weights in 16 bits, each widened once for all who read it. Contents are rounded to
    the nearest when somebody looks at them. Raises RecipeError for patterns that match no trained weight.

    %y = matmul(%x, %w)   ->   %v = cast(%w; to=f32); %y = matmul(%x, %v)       %w is bf16 now
    """
    chosen = _chosen(model, trained, scheme)
    if not chosen:
        return model
    dtype, builder = trained.dtype, Builder(model.name)
    new = {value: Value(value.name, value.type.with_dtype(dtype)) for value in chosen}
    names = {value.name for value in chosen}
    data = {name: _rounded(array, dtype) if name in names else array for name, array in model.data.items()}
    builder.adopt_sources(model.with_(params=tuple(new.get(value, value) for value in model.params), data=data))
    emitter, wide = Emitter(builder), dict[Value, Value]()
    for value in chosen:
        builder.origin = value.name
        wide[value] = emitter.cast(new[value], DType.F32)
    for node in model.nodes:
        builder.keep(substitute(node, wide))
    builder.outputs = {name: wide.get(value, value) for name, value in model.outputs.items()}
    builder.updates = dict(model.updates)
    return verify(builder.finish(), "narrowed")


def read_as(graph: Graph, param: Value) -> Value | None:
    """What a graph computes with in a parameter's place: itself, or what it is widened to. None where neither is
    f32."""
    if not param.type.dtype.is_narrow:
        return param if param.type.dtype is DType.F32 else None
    readers = [node for node in graph.nodes if param in node.inputs]
    widens = len(readers) == 1 and readers[0].op == "cast" and readers[0].output.type.dtype is DType.F32
    return readers[0].output if widens else None


class Storing:
    """Emits what is stored of a weight's new contents."""

    def __init__(self, builder: Builder, trained: Trained | None, noise: Noise) -> None:
        self.emitter, self.noise = Emitter(builder), noise
        self.at_random = trained is not None and trained.rounding == RANDOM

    def stored(self, param: Value, new: Value) -> Value:
        """The f32 `new` in the parameter's type."""
        if not param.type.dtype.is_narrow:
            return new
        if not self.at_random:
            return self.emitter.cast(new, param.type.dtype)
        return rounded_at_random(self.emitter, new, self.noise.seed(), self.noise.site())


def _chosen(model: Graph, trained: Trained, scheme: Scheme) -> Collection[Value]:
    """The weights to store in 16 bits, in the order of the model's parameters."""
    able = [value for value in model.params if _why_not(value, scheme) is None]
    if not trained.params:
        return [value for value in able if value.type.rank > 1 and value.type.size >= LEAST_SIZE]
    found = set[Value]()
    for pattern in trained.params:
        matched = [value for value in model.params if matches(pattern, value.name)]
        if not matched:
            names = [name for value in model.params for name in (value.name, module_of(value.name))]
            raise RecipeError(f"the pattern '{pattern}' of trained.params matches no weight{nearest(pattern, names)}")
        fit = [value for value in matched if value in able]
        if not fit:
            first = matched[0]
            raise RecipeError(
                f"'{first.name}' cannot be trained in {trained.weights}: {_why_not(first, scheme)}; narrow "
                "trained.params"
            )
        found.update(fit)
    return [value for value in able if value in found]


def _why_not(value: Value, scheme: Scheme) -> str | None:
    if value.name not in scheme.trained():
        return "the recipe does not train it"
    if is_adapter(value.name):
        return "it is an adapter, which stays f32"
    if not value.type.rank:
        return "it is a single number"
    return None if value.type.dtype is DType.F32 else f"it is {value.type}"


def _rounded(array: Array, dtype: DType) -> Array:
    return cast(Array, Deferred(dtype.numpy, array.shape, partial(_to, array, dtype.numpy)))


def _to(array: Array, dtype: np.dtype[np.generic]) -> Array:
    made = np.asarray(array).astype(dtype)
    let_go(array)
    return made
