"""Convolutions of signals, images and volumes, transposed ones, and Col2Im.

A convolution over volumes is one over images: the slices that the taps along the depth see are stacked as channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...errors import ModelError
from ...ir import Value
from ...ops import Emitter
from .registry import NodeContext, Operand, converts
from .windows import Ints, Window, as_image, as_signal, crop, pad_spatial


def add_bias(c: NodeContext, y: Value, index: int = 2) -> Value:
    """A bias of zeros, which exporters write where there is none, is left out."""
    zeros = c.constant(index)
    if not c.has(index) or (zeros is not None and not zeros.any()):
        return y
    bias = c.value(index)
    return c.e.add(y, c.e.reshape(bias, (bias.type.size, *[1] * (y.type.rank - 2))))


@converts("Conv")
def conv(c: NodeContext) -> Sequence[Operand]:
    return [add_bias(c, convolve(c, c.value(0), c.value(1)))]


def convolve(c: NodeContext, x: Value, w: Value) -> Value:
    """The convolution that the node's attributes describe, without a bias."""
    groups = c.attr("group", 1)
    if x.type.rank != w.type.rank or x.type.shape[1] != w.type.shape[1] * groups:
        raise ModelError(f"{c.where} cannot convolve {x.type} with weights {w.type} in {groups} groups")
    window = Window.of(c, x.type.shape[2:], w.type.shape[2:])
    return _volume_conv(c.e, x, w, window, groups) if window.rank == 3 else _image_conv(c.e, x, w, window, groups)


def _image_conv(e: Emitter, x: Value, w: Value, window: Window, groups: int) -> Value:
    """Signals and images."""
    geometry = window.as_image().geometry()
    y = e.op("conv2d", as_image(e, x), as_image(e, w), **geometry, groups=groups, layout="NCHW")
    return as_signal(e, y, x.type.rank)


def _volume_conv(e: Emitter, x: Value, w: Value, window: Window, groups: int) -> Value:
    depth, plane = window.part(slice(0, 1)), window.part(slice(1, 3))
    x = pad_spatial(e, x, (*depth.low, 0, 0), (*depth.high, 0, 0))
    n, channels, size, height, width = x.type.shape
    (count,) = replace(depth, low=(0,), high=(0,)).output((size,))
    step, gap = depth.stride[0], depth.dilation[0]
    taps = [
        crop(e, x, 2, tap * gap, tap * gap + (count - 1) * step + 1, step) for tap in range(depth.kernel[0])
    ]  # each [n, channels, count, height, width]
    if len(taps) > 1:
        split = (n, groups, 1, channels // groups, count, height, width)
        x = e.op("concat", *(e.reshape(tap, split) for tap in taps), axis=2)
    else:
        (x,) = taps
    stacked = e.reshape(x, (n, channels * len(taps), count, height, width))
    y = _image_conv(e, _depth_to_batch(e, stacked), _stacked_weights(e, w), plane, groups)
    return _batch_to_depth(e, y, n)


def _stacked_weights(e: Emitter, w: Value) -> Value:
    """[out, in, depth, height, width] -> [out, depth * in, height, width]"""
    out, channels, depth, height, width = w.type.shape
    return e.reshape(e.transpose(w, (0, 2, 1, 3, 4)), (out, depth * channels, height, width))


def _depth_to_batch(e: Emitter, x: Value) -> Value:
    n, channels, depth, height, width = x.type.shape
    return e.reshape(e.transpose(x, (0, 2, 1, 3, 4)), (n * depth, channels, height, width))


def _batch_to_depth(e: Emitter, x: Value, n: int) -> Value:
    frames, channels, height, width = x.type.shape
    return e.transpose(e.reshape(x, (n, frames // n, channels, height, width)), (0, 2, 1, 3, 4))


@converts("ConvTranspose")
def conv_transpose(c: NodeContext) -> Sequence[Operand]:
    """The input gradient of a convolution whose weight is `[in, out / groups, *kernel]`."""
    x, w = c.value(0), c.value(1)
    groups = c.attr("group", 1)
    if x.type.rank != w.type.rank or x.type.shape[1] != w.type.shape[0]:
        raise ModelError(f"{c.where} cannot convolve {x.type} with weights {w.type}")
    window = _transposed_window(c, x, w)
    # An output larger than the windows reach is filled up with zeros.
    low, high = (tuple(max(0, -p) for p in pads) for pads in (window.low, window.high))
    window = replace(window, low=tuple(max(0, p) for p in window.low), high=tuple(max(0, p) for p in window.high))
    y = _volume_transposed(c.e, x, w, window, groups) if window.rank == 3 else _transposed(c.e, x, w, window, groups)
    return [add_bias(c, pad_spatial(c.e, y, low, high))]


def _transposed_window(c: NodeContext, x: Value, w: Value) -> Window:
    """The window of the convolution whose gradient it is; paddings that ask for more than the windows reach are
    negative."""
    kernel, sizes = w.type.shape[2:], x.type.shape[2:]
    auto = c.attr("auto_pad", "NOTSET")
    wanted: Ints = tuple(c.attr("output_shape", ()))
    extra = tuple(c.attr("output_padding", ())) or (0,) * len(kernel)
    window = Window.of(c, sizes, kernel)
    if wanted or auto in ("SAME_UPPER", "SAME_LOWER"):
        target = wanted[-len(kernel) :] or tuple(n * s for n, s in zip(sizes, window.stride, strict=True))
        parts = zip(sizes, window.stride, window.reach, extra, target, strict=True)
        totals = [(n - 1) * s + reach + more - size for n, s, reach, more, size in parts]
        smaller, larger = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
        low, high = (smaller, larger) if auto == "SAME_UPPER" else (larger, smaller)
        window = replace(window, low=low, high=high)
    return replace(window, high=tuple(p - more for p, more in zip(window.high, extra, strict=True)))


def _transposed_size(window: Window, sizes: Sequence[int]) -> Ints:
    parts = zip(sizes, window.stride, window.reach, window.low, window.high, strict=True)
    return tuple((n - 1) * s + reach - low - high for n, s, reach, low, high in parts)


def _transposed(e: Emitter, x: Value, w: Value, window: Window, groups: int) -> Value:
    """Signals and images."""
    image, shape = window.as_image(), as_image(e, x).type.shape
    size = _transposed_size(image, shape[2:])
    geometry = image.geometry()
    y = e.op("conv2d_dx", as_image(e, x), as_image(e, w), **geometry, groups=groups, layout="NCHW", size=size)
    return as_signal(e, y, x.type.rank)


def _volume_transposed(e: Emitter, x: Value, w: Value, window: Window, groups: int) -> Value:
    """Every tap along the depth adds its slices to the result, `stride` apart."""
    depth, plane = window.part(slice(0, 1)), window.part(slice(1, 3))
    n, _, count, _, _ = x.type.shape
    (taps,), (step,), (gap,) = depth.kernel, depth.stride, depth.dilation
    y = _batch_to_depth(e, _transposed(e, _depth_to_batch(e, x), _stacked_weights(e, w), plane, groups), n)
    _, channels, _, height, width = y.type.shape
    stacked = e.reshape(y, (n, groups, taps, channels // (groups * taps), count, height, width))
    full = (count - 1) * step + (taps - 1) * gap + 1
    parts = []
    for tap in range(taps):
        part = e.reshape(crop(e, stacked, 2, tap, tap + 1), (n, channels // taps, count, height, width))
        low, span = tap * gap, (count - 1) * step + 1
        parts.append(pad_spatial(e, part, (low, 0, 0), (full - low - span, 0, 0), (step - 1, 0, 0)))
    total = parts[0]
    for part in parts[1:]:
        total = e.add(total, part)
    return crop(e, total, 2, depth.low[0], full - depth.high[0])


@converts("Col2Im")
def col2im(c: NodeContext) -> Sequence[Operand]:
    """Adds each window's elements to where they come from: one scatter to known positions."""
    x = c.value(0)
    sizes, kernel = c.ints(1, "the image's shape"), c.ints(2, "the block's shape")
    window = Window.of(c, sizes, kernel)
    taps, windows, size = math.prod(kernel), math.prod(window.output(sizes)), math.prod(sizes)
    n, rows = x.type.shape[0], x.type.shape[1]
    if rows % taps or x.type.shape[2:] != (windows,):
        raise ModelError(f"{c.where}: {x.type} does not hold {windows} blocks of {taps} elements")
    places, real = window.positions(sizes)
    places = np.where(real, places, size).T.reshape(-1)  # what lies in padding goes to one more element
    channels = rows // taps
    spread = c.e.reshape(x, (n * channels, taps * windows))
    image = c.e.op("scatter_add", spread, c.e.const(places), axis=1, size=size + 1)
    return [c.e.reshape(crop(c.e, image, 1, 0, size), (n, channels, *sizes))]
