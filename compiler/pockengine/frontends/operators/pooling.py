"""Max, average and Lp pooling of signals, images and volumes, and MaxUnpool.

Pooling over volumes is pooling over the planes, then over the depth: maximum, and mean over windows that are boxes, can
be taken in two steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...errors import ModelError
from ...ir import Attr, DType, Value
from ...ops import Emitter
from .registry import NodeContext, Operand, converts
from .windows import Window, as_image, as_signal, pad_spatial, spatial_size


def _pool(e: Emitter, op: str, x: Value, window: Window, **attrs: Attr) -> Value:
    """A pooling primitive over one, two or three axes."""

    def images(x: Value, window: Window) -> Value:
        return e.op(op, x, kernel=window.kernel, **window.geometry(), layout="NCHW", **attrs)

    if window.rank < 3:
        return as_signal(e, images(as_image(e, x), window.as_image()), x.type.rank)
    n, channels, depth, height, width = x.type.shape
    planes = images(e.reshape(x, (n, channels * depth, height, width)), window.part(slice(1, 3)))
    height, width = planes.type.shape[2:]
    columns = e.reshape(planes, (n, channels, depth, height * width))
    one = Window((1,), (1,), (1,), (0,), (0,))
    along = window.part(slice(0, 1))
    tall = Window(*(getattr(along, k) + getattr(one, k) for k in ("kernel", "stride", "dilation", "low", "high")))
    y = images(columns, tall)
    return e.reshape(y, (n, channels, y.type.shape[2], height, width))


def _window(c: NodeContext, x: Value) -> Window:
    """The node's window, with the extra padding of `ceil_mode`."""
    sizes = x.type.shape[2:]
    window = Window.of(c, sizes, c.attr("kernel_shape", ()))
    return window.with_ceil(sizes) if c.attr("ceil_mode", 0) else window


@converts("MaxPool")
def max_pool(c: NodeContext) -> Sequence[Operand]:
    """Whole numbers are pooled as floats, which hold those of 8 bits exactly."""
    x, window = c.value(0), _window(c, c.value(0))
    if not x.type.dtype.is_float and x.type.dtype.nbytes > 1:
        raise c.unsupported(f"the element type {x.type.dtype.value}")
    floats = x if x.type.dtype.is_float else c.e.cast(x, DType.F32)
    y = c.e.cast(_pool(c.e, "max_pool", floats, window), x.type.dtype)
    if not any(c.node.output[1:]):
        c.attr("storage_order", 0)
        return [y]
    return [y, _places_of_maxima(c, floats, window, y.type.shape)]


def _places_of_maxima(c: NodeContext, x: Value, window: Window, shape: tuple[int, ...]) -> Value:
    """Flat position of each maximum in x. A tap in padding repeats the window's first real one, so it never wins."""
    sizes, images = x.type.shape[2:], math.prod(x.type.shape[:2])
    flat, real = window.positions(sizes)
    first = np.take_along_axis(flat, np.argmax(real, axis=1)[:, None], axis=1)
    flat = np.where(real, flat, first)
    e, size, (windows, taps) = c.e, spatial_size(x), flat.shape
    seen = e.op("gather", e.reshape(x, (images, size)), e.const(flat), axis=1)
    winner = e.reshape(e.op("argmax", seen, axis=2), (images, windows))
    # With storage_order 1 the position counts columns first.
    counted = np.ravel_multi_index(
        np.unravel_index(flat, sizes), sizes, order="F" if c.attr("storage_order", 0) else "C"
    )
    table = e.const(counted.reshape(-1).astype(np.int64))
    place = e.op("gather", table, e.add(winner, e.const(np.arange(windows) * taps)), axis=0)
    return e.reshape(e.add(place, e.const(np.arange(images)[:, None] * size)), shape)


@converts("AveragePool")
def average_pool(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    plain = Window.of(c, x.type.shape[2:], c.attr("kernel_shape", ()))
    window = _window(c, x)
    counted = bool(c.attr("count_include_pad", 0)) and plain.padded
    if counted and window != plain:
        # The model's padding counts, that of ceil_mode does not: make the former part of the tensor.
        x = pad_spatial(c.e, x, plain.low, plain.high)
        high = tuple(more - own for more, own in zip(window.high, plain.high, strict=True))
        window, counted = replace(window, low=(0,) * plain.rank, high=high), False
    return [_pool(c.e, "avg_pool", x, window, count_include_pad=counted)]


@converts("LpPool")
def lp_pool(c: NodeContext) -> Sequence[Operand]:
    """The p-norm of each window, as a mean of powers."""
    x, window = c.value(0), _window(c, c.value(0))
    mean = _pool(c.e, "avg_pool", _power(c.e, x, c.attr("p", 2)), window, count_include_pad=True)
    return [_root(c.e, c.e.mul(mean, float(math.prod(window.kernel))), c.attr("p", 2))]


@converts("GlobalLpPool")
def global_lp_pool(c: NodeContext) -> Sequence[Operand]:
    x, p = c.value(0), c.attr("p", 2)
    axes = tuple(range(2, x.type.rank))
    if p == 1:
        return [c.e.sum(c.e.op("abs", x), axes)]
    return [c.e.op("l2_norm", x, axes=axes) if p == 2 else c.e.op("power_norm", x, axes=axes, p=float(p))]


def _power(e: Emitter, x: Value, p: int) -> Value:
    if p == 2:
        return e.mul(x, x)
    size = e.op("abs", x)
    return size if p == 1 else e.op("pow", size, e.scalar(p, x))


def _root(e: Emitter, x: Value, p: int) -> Value:
    if p == 2:
        return e.op("sqrt", x)
    return x if p == 1 else e.op("pow", x, e.scalar(1.0 / p, x))


@converts("MaxUnpool")
def max_unpool(c: NodeContext) -> Sequence[Operand]:
    """Each maximum goes back to where it was found, zeros elsewhere. Windows that overlap found the same maximum: the
    sum of its copies is divided by their number."""
    x, places = c.value(0), c.value(1)
    kernel = c.attr("kernel_shape", ())
    window = Window.of(c, x.type.shape[2:], kernel)
    parts = zip(x.type.shape[2:], window.stride, window.reach, window.low, window.high, strict=True)
    natural = (*x.type.shape[:2], *((n - 1) * s + reach - low - high for n, s, reach, low, high in parts))
    shape = c.ints(2, "the output's shape") if c.has(2) else natural
    if len(shape) != len(natural) or any(size < own for size, own in zip(shape, natural, strict=True)):
        raise ModelError(f"{c.where}: the output's shape {list(shape)} cannot hold {list(natural)}")
    e, flat = c.e, c.e.reshape(places, (places.type.size,))
    y = e.op("scatter_add", e.reshape(x, (x.type.size,)), flat, axis=0, size=math.prod(natural))
    if any(step < reach for step, reach in zip(window.stride, window.reach, strict=True)):
        ones = e.const(np.ones(x.type.size, x.type.dtype.numpy))
        copies = e.op("scatter_add", ones, flat, axis=0, size=math.prod(natural))
        y = e.div(y, e.maximum(copies, 1.0))
    grown = [size - own for size, own in zip(shape[2:], natural[2:], strict=True)]
    return [pad_spatial(e, e.reshape(y, natural), (0,) * len(grown), grown)]
