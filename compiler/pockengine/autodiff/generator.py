"""The state that random numbers of a step are made from."""

from __future__ import annotations

import itertools

from ..ir import Builder, DType, TensorType, Value
from ..ops import Emitter
from ..ops.random import seed_of

GENERATOR = "generator"
"""Its name: seed in the high half, number of the run in the low half (see `bernoulli`)."""


def generator_of(builder: Builder) -> Value:
    """The state, i64 of rank 0, which a run advances by 1; dropout and rounding share it."""
    found = next((state for state in builder.states if state.name == GENERATOR), None)
    if found is not None:
        return found
    generator = builder.state(GENERATOR, TensorType(DType.I64, ()))
    phase, origin = builder.phase, builder.origin
    builder.phase, builder.origin = "update", GENERATOR
    builder.updates[generator] = Emitter(builder).add(generator, 1)
    builder.phase, builder.origin = phase, origin
    return generator


class Noise:
    """Where rounding at random finds its numbers: one seed a run, a site for each tensor."""

    def __init__(self, builder: Builder) -> None:
        self._builder, self._sites = builder, itertools.count()
        self._seed: Value | None = None

    def seed(self) -> Value:
        """u32 of rank 0."""
        if self._seed is None:
            self._seed = seed_of(Emitter(self._builder), generator_of(self._builder))
        return self._seed

    def site(self) -> int:
        """Another one each time."""
        return next(self._sites)
