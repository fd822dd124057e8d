"""A model under construction whose values are known: every node is evaluated as it is added, so that operators with a
domain (log, division, powers) are only put where the numbers allow it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pockengine import interp
from pockengine.ir import Array, Builder, DType, Graph, TensorType, Value
from pockengine.ops import Emitter

Draw = Callable[..., Any]
"""hypothesis' `draw`: takes a strategy, gives an example of it."""

MOST_ELEMENTS = 3000
TOKENS = 7
"""Integer inputs are in [0, TOKENS)."""


class Sketch:
    """`e` emits; call `settle` afterwards to know the new values. `numbers` are the f32 values to choose from."""

    def __init__(self, seed: int, batch: int) -> None:
        self.builder = Builder("random")
        self.e = Emitter(self.builder)
        self.rng = np.random.default_rng(seed)
        self.batch = batch
        self.arrays: dict[Value, Array] = {}
        self.numbers: list[Value] = []
        self.flags: list[Value] = []
        self.indices: list[Value] = []
        self._settled = 0

    # sources
    def input(self, name: str, type: TensorType) -> Value:
        value = self.builder.input(name, type)
        self.arrays[value] = random_input(type, self.rng)
        return value

    def param(self, kind: str, *shape: int, low: float = -1.0, high: float = 1.0, dtype: DType = DType.F32) -> Value:
        """Uniform contents; matrices are scaled by their fan-in."""
        name = f"layer.{len(self.builder.params)}.{kind}"
        scale = 1 / math.sqrt(math.prod(shape[1:]) or 1) if len(shape) > 1 and low < 0 else 1.0
        data = (self.rng.uniform(low, high, shape) * scale).astype(dtype.numpy)
        value = self.builder.param(name, TensorType(dtype, shape), data)
        self.arrays[value] = data.astype(np.float64)
        return value

    # values
    def settle(self) -> None:
        """Evaluate the nodes added since the last time."""
        self.arrays.update({value: array for value, array in self.builder.consts.items() if value not in self.arrays})
        for node in self.builder.nodes[self._settled :]:
            results = interp.run_node(node, [self.arrays[value] for value in node.inputs])
            self.arrays.update(zip(node.outputs, results, strict=True))
        self._settled = len(self.builder.nodes)

    def range(self, value: Value) -> tuple[float, float]:
        """The least and the greatest element."""
        self.settle()
        array = self.arrays[value]
        return (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)

    def within(self, value: Value, low: float, high: float) -> bool:
        """Whether every element is between the two."""
        least, greatest = self.range(value)
        return low <= least and greatest <= high

    def bounded(self, value: Value, most: float = 20.0) -> Value:
        """The value, scaled down by a constant where it holds large numbers."""
        least, greatest = self.range(value)
        size = max(-least, greatest)
        return self.e.mul(value, 2.0 ** -math.ceil(math.log2(size))) if size > most else value

    def add(self, *values: Value) -> None:
        """New values to choose from, by their type."""
        self.settle()
        for value in values:
            if value.type.dtype is DType.F32:
                if np.isfinite(self.arrays[value]).all():
                    self.numbers.append(self.bounded(value))
            elif value.type.dtype is DType.BOOL:
                self.flags.append(value)
            elif value.type.dtype is DType.I64:
                self.indices.append(value)
        self.settle()

    def finish(self, outputs: dict[str, Value]) -> Graph:
        self.builder.outputs = outputs
        return self.builder.finish()


def random_input(type: TensorType, rng: np.random.Generator) -> Array:
    """Contents of an input of a type: floats of about 1, tokens, flags."""
    if type.dtype.is_float:
        return rng.uniform(-1.5, 1.5, type.shape).astype(type.dtype.numpy)
    most = 2 if type.dtype is DType.BOOL else TOKENS
    return rng.integers(0, most, type.shape).astype(type.dtype.numpy)


def fits(shape: Sequence[int]) -> bool:
    """Whether a tensor of this shape is small enough."""
    return 0 < math.prod(shape) <= MOST_ELEMENTS and len(shape) <= 5
