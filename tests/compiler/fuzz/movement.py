"""Random nodes that move data."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from pockengine.ir import DType, Value
from pockengine.ops.resample import COORDINATES, DEFAULTS

from .sketch import Draw, Sketch, fits


def reshape(draw: Draw, s: Sketch, x: Value) -> Value:
    """Merge neighbouring axes, split one, or add or drop axes of size 1."""
    shape = list(x.type.shape)
    for _ in range(draw(st.integers(1, 2))):
        kind = draw(st.sampled_from(("merge", "split", "add", "drop", "flat")))
        place = draw(st.integers(0, max(0, len(shape) - 1)))
        if kind == "merge" and len(shape) > 1:
            place = min(place, len(shape) - 2)
            shape[place : place + 2] = [shape[place] * shape[place + 1]]
        elif kind == "split" and shape and len(shape) < 5:
            factors = [f for f in range(1, shape[place] + 1) if shape[place] % f == 0]
            factor = draw(st.sampled_from(factors))
            shape[place : place + 1] = [factor, shape[place] // factor]
        elif kind == "add" and len(shape) < 5:
            shape.insert(place, 1)
        elif kind == "drop" and shape and shape[place] == 1:
            del shape[place]
        elif kind == "flat":
            shape = [math.prod(shape)]
    return s.e.reshape(x, shape)


def transpose(draw: Draw, s: Sketch, x: Value) -> Value:
    return s.e.transpose(x, draw(st.permutations(range(x.type.rank)))) if x.type.rank else s.e.op("neg", x)


def broadcast(draw: Draw, s: Sketch, x: Value) -> Value:
    shape = [draw(st.integers(1, 4)) if d == 1 else d for d in x.type.shape]
    if len(shape) < 5 and draw(st.booleans()):
        shape.insert(0, draw(st.integers(1, 3)))
    return s.e.broadcast_to(x, shape) if fits(shape) else s.e.op("neg", x)


def cut(draw: Draw, s: Sketch, x: Value) -> Value:
    starts, stops, steps = [], [], []
    for size in x.type.shape:
        start = draw(st.integers(0, size - 1))
        starts.append(start)
        stops.append(draw(st.integers(start + 1, size)))
        steps.append(draw(st.sampled_from((1, 1, 2, 3))))
    if not starts:
        return s.e.op("abs", x)
    return s.e.op("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


def pad(draw: Draw, s: Sketch, x: Value) -> Value:
    low, high = (tuple(draw(st.integers(0, 2)) for _ in x.type.shape) for _ in range(2))
    gaps = tuple(draw(st.sampled_from((0, 0, 1))) for _ in x.type.shape)
    sizes = [n + a + b + (n - 1) * gap for n, a, b, gap in zip(x.type.shape, low, high, gaps, strict=True)]
    if not sizes or not fits(sizes):
        return s.e.op("neg", x)
    value = draw(st.sampled_from((0.0, 0.0, 1.5)))
    return s.e.op("pad", x, low=low, high=high, interior=gaps, value=value)


def join(draw: Draw, s: Sketch, x: Value) -> Value:
    if not x.type.rank:
        return s.e.op("neg", x)
    axis = draw(st.integers(0, x.type.rank - 1))

    def others(value: Value) -> tuple[int, ...]:
        return value.type.shape[:axis] + value.type.shape[axis + 1 :]

    alike = [v for v in s.numbers if v.type.rank == x.type.rank and others(v) == others(x)]
    parts = [x, *draw(st.lists(st.sampled_from(alike or [x]), min_size=1, max_size=3))]
    parts = draw(st.permutations(parts))
    total = sum(value.type.shape[axis] for value in parts)
    if not fits((*others(x), total)):
        return s.e.op("neg", x)
    return s.e.op("concat", *parts, axis=axis)


def split(draw: Draw, s: Sketch, x: Value) -> Value:
    axes = [axis for axis, size in enumerate(x.type.shape) if size > 1]
    if not axes:
        return s.e.op("neg", x)
    axis = draw(st.sampled_from(axes))
    size = x.type.shape[axis]
    cuts = sorted(draw(st.sets(st.integers(1, size - 1), min_size=1, max_size=3)))
    sizes = tuple(int(n) for n in np.diff([0, *cuts, size]))
    first, *rest = s.e.multi("split", [x], axis=axis, sizes=sizes)
    s.add(*rest)
    return first


def gather(draw: Draw, s: Sketch, x: Value) -> Value:
    if not x.type.rank:
        return s.e.op("neg", x)
    axis = draw(st.integers(0, x.type.rank - 1))
    size = x.type.shape[axis]
    indices = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5))
    if not fits((*x.type.shape, len(indices))):
        return s.e.op("neg", x)
    return s.e.op("gather", x, s.e.const(np.asarray(indices, np.int64)), axis=axis)


def scatter(draw: Draw, s: Sketch, x: Value) -> Value:
    """Rows of x put, or combined, at constant places of a tensor."""
    if not x.type.rank:
        return s.e.op("neg", x)
    e, axis = s.e, draw(st.integers(0, x.type.rank - 1))
    count = x.type.shape[axis]
    size = count + draw(st.integers(0, 3))
    shape = (*x.type.shape[:axis], size, *x.type.shape[axis + 1 :])
    if not fits(shape):
        return e.op("neg", x)
    kind = draw(st.sampled_from(("scatter_add", "scatter_set", "scatter_reduce")))
    if kind == "scatter_set":  # which of two updates of one place wins is not defined
        places = draw(st.permutations(range(size)))[:count]
    else:
        places = draw(st.lists(st.integers(0, size - 1), min_size=count, max_size=count))
    indices = e.const(np.asarray(places, np.int64))
    if kind == "scatter_add":
        return e.op("scatter_add", x, indices, axis=axis, size=size)
    if kind == "scatter_set":
        return e.op("scatter_set", s.param("rows", *shape), indices, x, axis=axis)
    reduction = draw(st.sampled_from(("max", "min", "mul")))
    return e.op("scatter_reduce", s.param("rows", *shape), indices, x, axis=axis, reduction=reduction)


def cumulative(draw: Draw, s: Sketch, x: Value) -> Value:
    if not x.type.rank:
        return s.e.op("neg", x)
    name = draw(st.sampled_from(("cumsum", "cumsum", "cumprod")))
    if name == "cumprod" and not s.within(x, -2.0, 2.0):
        x = s.e.op("tanh", x)
    flags = {"exclusive": draw(st.booleans()), "reverse": draw(st.booleans())}
    return s.e.op(name, x, axis=draw(st.integers(0, x.type.rank - 1)), **flags)


def top(draw: Draw, s: Sketch, x: Value) -> Value:
    """The places of the largest or least, as numbers."""
    if not x.type.rank:
        return s.e.op("neg", x)
    axis = draw(st.integers(0, x.type.rank - 1))
    k = draw(st.integers(1, x.type.shape[axis]))
    found = s.e.op("top_k", x, axis=axis, k=k, largest=draw(st.booleans()))
    s.add(found)
    return s.e.cast(found, DType.F32)


def resize(draw: Draw, s: Sketch, x: Value) -> Value:
    """Interpolation along one axis."""
    if not x.type.rank:
        return s.e.op("neg", x)
    axis = draw(st.integers(0, x.type.rank - 1))
    source, size = x.type.shape[axis], draw(st.integers(1, 9))
    if not fits((*x.type.shape[:axis], size, *x.type.shape[axis + 1 :])):
        return s.e.op("neg", x)
    attrs = {
        **DEFAULTS,
        "axis": axis,
        "source": source,
        "size": size,
        "scale": size / source,
        "mode": draw(st.sampled_from(("nearest", "linear", "cubic"))),
        "coordinates": draw(st.sampled_from(COORDINATES)),
        "rounding": draw(st.sampled_from(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))),
        "antialias": draw(st.booleans()),
    }
    return s.e.op("resample", x, **attrs)
