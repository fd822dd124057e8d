"""Graphs and inputs drawn from the op records' samples; every generated test of the compiler starts here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pockengine import ops
from pockengine.ir import Array, Builder, DType, Graph, parse_type, verify
from pockengine.ops import Emitter, Op, Sample


def all_samples() -> Iterator[tuple[Op, Sample, str]]:
    """Every sample of every op, with a test id."""
    for op in ops.all_ops():
        for index, sample in enumerate(op.samples):
            yield op, sample, f"{op.name}-{index}"


def graph_of(op: Op, sample: Sample) -> Graph:
    """A graph with this one op; inputs i0, i1, …; outputs 0, 1, …"""
    builder = Builder(op.name)
    inputs = [builder.input(f"i{i}", parse_type(text)) for i, text in enumerate(sample.shapes)]
    outputs = Emitter(builder).multi(op.name, inputs, **sample.attrs)
    builder.outputs = {str(i): value for i, value in enumerate(outputs)}
    return verify(builder.finish())


def inputs_of(graph: Graph, sample: Sample, seed: int = 0, dtype: type | None = None) -> dict[str, Array]:
    """Random contents for the graph's inputs, as the sample asks; `dtype` overrides the floating-point type."""
    rng = np.random.default_rng(seed)
    fixed = dict(sample.fixed)
    arrays: dict[str, Array] = {}
    for index, value in enumerate(graph.inputs):
        shape, kind = value.type.shape, value.type.dtype
        if index in fixed:
            drawn = np.asarray(fixed[index]).reshape(shape)
        elif kind.is_float:
            drawn = rng.uniform(sample.low, sample.high, shape)
        else:
            drawn = rng.integers(0, 2 if kind is DType.BOOL else sample.ints, shape)
        arrays[value.name] = drawn.astype(dtype if dtype and kind.is_float else kind.numpy)
    return arrays
