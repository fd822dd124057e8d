"""Convolution that samples its input at places of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...errors import ModelError
from ...ir import DType, Value
from ...ops import Emitter
from .convolution import add_bias
from .registry import NodeContext, Operand, converts
from .windows import Window


@converts("DeformConv")
def deform_conv(c: NodeContext) -> Sequence[Operand]:
    """Every tap reads the image at its place plus an offset, between four pixels; zeros lie around the image."""
    e, x, w = c.e, c.value(0), c.value(1)
    if x.type.rank != 4 or w.type.rank != 4:
        raise c.unsupported(f"a tensor of rank {x.type.rank}")
    window = Window.of(c, x.type.shape[2:], w.type.shape[2:])
    c.attr("kernel_shape", ())
    groups, fields = c.attr("group", 1), c.attr("offset_group", 1)
    n, channels = x.type.shape[:2]
    taps, (height, width) = math.prod(window.kernel), window.output(x.type.shape[2:])
    if c.shape(2) != (n, fields * taps * 2, height, width) or w.type.shape[1] * groups != channels:
        raise ModelError(f"{c.where} cannot convolve {x.type} with weights {w.type} and offsets {c.value(2).type}")
    field = (n, fields, taps, height, width)
    strength = e.reshape(c.value(4), field) if c.has(4) else None
    seen = _sampled(e, x, fields, *_places(e, c.value(2), window, field), strength)
    # [n, fields, taps, h, w, own channels] -> [groups, pixels, channels of the group * taps]
    rows = e.reshape(e.transpose(seen, (0, 3, 4, 1, 5, 2)), (n * height * width, groups, channels * taps // groups))
    weights = e.reshape(w, (groups, w.type.shape[0] // groups, channels * taps // groups))
    y = e.matmul(e.transpose(rows, (1, 0, 2)), weights, trans_b=True)
    y = e.reshape(y, (groups, n, height * width, w.type.shape[0] // groups))
    return [add_bias(c, e.reshape(e.transpose(y, (1, 0, 3, 2)), (n, w.type.shape[0], height, width)), 3)]


def _places(e: Emitter, offset: Value, window: Window, field: tuple[int, ...]) -> tuple[Value, Value]:
    """Row and column that each tap reads, [n, fields, taps, h, w]."""
    n, fields, taps, height, width = field
    offsets = e.multi("split", [e.reshape(offset, (n, fields, taps, 2, height, width))], axis=3, sizes=(1, 1))
    places = []
    for axis, moved in enumerate(offsets):
        start = np.arange((height, width)[axis]) * window.stride[axis] - window.low[axis]
        tap = np.indices(window.kernel)[axis].reshape(-1) * window.dilation[axis]
        shape = (1, height, 1) if axis == 0 else (1, 1, width)
        base = tap.reshape(-1, 1, 1) + start.reshape(shape)
        places.append(e.add(e.reshape(moved, field), e.const(base, moved.type.dtype)))
    return places[0], places[1]


def _sampled(e: Emitter, x: Value, fields: int, row: Value, column: Value, strength: Value | None) -> Value:
    """[n, fields, taps, h, w, channels / fields]: the image between the four pixels around each place."""
    n, channels, height, width = x.type.shape
    pixels = e.transpose(e.reshape(x, (n, fields, channels // fields, height * width)), (0, 1, 3, 2))
    pixels = e.reshape(pixels, (n * fields * height * width, channels // fields))
    first = e.const((np.arange(n * fields) * height * width).reshape(n, fields, 1, 1, 1))
    total: Value | None = None
    for y, share_y in _neighbours(e, row, height):
        for x_, share_x in _neighbours(e, column, width):
            place = e.add(e.add(e.mul(y, width), x_), first)
            share = e.mul(share_y, share_x) if strength is None else e.mul(e.mul(share_y, share_x), strength)
            part = e.mul(e.op("gather", pixels, place, axis=0), e.reshape(share, (*share.type.shape, 1)))
            total = part if total is None else e.add(total, part)
    assert total is not None
    return total


def _neighbours(e: Emitter, place: Value, size: int) -> list[tuple[Value, Value]]:
    """Index and share of the pixels before and after a place along one axis; outside, the share is zero."""
    low = e.op("floor", place)
    after = e.sub(place, low)
    found = []
    for index, share in ((low, e.sub(1.0, after)), (e.add(low, 1.0), after)):
        inside = e.op("clip", index, lo=0.0, hi=float(size - 1))
        found.append((e.cast(inside, DType.I64), e.where(e.op("equal", inside, index), share, 0.0)))
    return found
