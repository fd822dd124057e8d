"""Reading images at computed places: GridSample, AffineGrid, RoiAlign. Written as gathers of whole pixels with weights,
so that gradients reach both the image and the places."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir import DType, Value
from ...ops import Emitter
from .registry import NodeContext, Operand, converts


@dataclass(frozen=True)
class _Tap:
    """Index into one axis of an image, i64, and the weight of what is there (None: 1)."""

    index: Value
    weight: Value | None


def _pixels(e: Emitter, x: Value) -> Value:
    """`[n, c, spatial…]` as rows of channels `[n * spatial, c]`."""
    last = e.transpose(x, [0, *range(2, x.type.rank), 1])
    return e.reshape(last, (x.type.size // x.type.shape[1], x.type.shape[1]))


def _weighted(e: Emitter, x: Value, image: Value, taps: Sequence[Sequence[_Tap]]) -> list[Value]:
    """For each combination of one tap an axis: the pixels there, times the weights, `[…, channels]`. `image` is the
    index of the image each place lies in; all shapes broadcast."""
    rows, spatial, found = _pixels(e, x), x.type.shape[2:], []
    for chosen in itertools.product(*taps):
        position = image
        for size, tap in zip(spatial, chosen, strict=True):
            position = e.add(e.mul(position, size), tap.index)
        pixels = e.op("gather", rows, position, axis=0)
        weights = [tap.weight for tap in chosen if tap.weight is not None]
        if weights:
            weight = functools.reduce(e.mul, weights)
            pixels = e.mul(pixels, e.reshape(weight, (*weight.type.shape, 1)))
        found.append(pixels)
    return found


def _whole(e: Emitter, x: Value) -> Value:
    return e.cast(x, DType.I64)


@dataclass(frozen=True)
class _Border:
    """What lies beyond the ends of an axis of `size` elements: zeros, border, reflection."""

    padding: str
    size: int
    align_corners: bool

    def bring_in(self, e: Emitter, x: Value) -> Value:
        """A place or an index, moved inside where the padding repeats the image."""
        if self.padding == "border":
            return e.op("clip", x, lo=0.0, hi=float(self.size - 1))
        if self.padding != "reflection":
            return x
        low = 0.0 if self.align_corners else -0.5
        span = self.size - 1 - 2 * low
        if span == 0:
            return e.mul(x, 0.0)
        turned = e.op("mod", e.op("abs", e.sub(x, low)), e.scalar(2 * span, x))
        return e.sub(low + span, e.op("abs", e.sub(turned, span)))

    def tap(self, e: Emitter, index: Value, weight: Value | None) -> _Tap:
        """`index` is a whole number as a float."""
        if self.padding == "zeros":
            inside = e.op(
                "logical_and",
                e.op("less_equal", e.scalar(0.0, index), index),
                e.op("less_equal", index, e.scalar(self.size - 1, index)),
            )
            weight = e.cast(inside, index.type.dtype) if weight is None else e.where(inside, weight, 0.0)
        held = e.op("clip", self.bring_in(e, index), lo=0.0, hi=float(self.size - 1))
        return _Tap(_whole(e, held), weight)


def _cubic_weights(e: Emitter, t: Value) -> list[Value]:
    """R. Keys' kernel with a = -3/4 at t + 1, t, 1 - t, 2 - t."""
    a = -0.75

    def near(d: Value) -> Value:
        return e.add(e.mul(e.mul(e.sub(e.mul(d, a + 2), a + 3), d), d), 1.0)

    def far(d: Value) -> Value:
        return e.sub(e.mul(e.add(e.mul(e.sub(e.mul(d, a), 5 * a), d), 8 * a), d), 4 * a)

    return [far(e.add(t, 1.0)), near(t), near(e.sub(1.0, t)), far(e.sub(2.0, t))]


def _axis_taps(e: Emitter, place: Value, border: _Border, mode: str) -> list[_Tap]:
    """The elements of one axis around `place` with their weights. The place itself is moved inside except for cubic,
    as in PyTorch and onnxruntime (onnx's reference differs)."""
    if mode == "nearest":
        return [border.tap(e, border.bring_in(e, e.op("round", place)), None)]
    place = border.bring_in(e, place) if mode == "linear" else place
    start = e.op("floor", place)
    t = e.sub(place, start)
    weights = [e.sub(1.0, t), t] if mode == "linear" else _cubic_weights(e, t)
    first = 0 if mode == "linear" else -1
    return [border.tap(e, e.add(start, float(first + i)), weight) for i, weight in enumerate(weights)]


_MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}


@converts("GridSample")
def grid_sample(c: NodeContext) -> Sequence[Operand]:
    e, x, grid = c.e, c.value(0), c.value(1)
    given, padding, align = str(c.attr("mode", "linear")), c.attr("padding_mode", "zeros"), c.attr("align_corners", 0)
    if given not in _MODES:
        raise c.unsupported(f"the mode '{given}'")
    places, rank, count = grid.type.shape[1:-1], grid.type.shape[-1], x.type.shape[0]
    flat = e.reshape(grid, (count, math.prod(places), rank))
    taps = []
    for axis, size in enumerate(x.type.shape[2:]):
        component = rank - 1 - axis  # the grid names the innermost axis first
        starts, stops = (0, 0, component), (*flat.type.shape[:2], component + 1)
        normal = e.reshape(e.op("slice", flat, starts=starts, stops=stops, steps=(1, 1, 1)), flat.type.shape[:2])
        half = (size - 1) / 2
        place = e.add(e.mul(normal, half if align else size / 2), half)
        taps.append(_axis_taps(e, place, _Border(str(padding), size, bool(align)), _MODES[given]))
    image = e.const(np.arange(count)[:, None])
    y = functools.reduce(e.add, _weighted(e, x, image, taps))
    y = e.reshape(y, (count, *places, x.type.shape[1]))
    return [e.transpose(y, [0, y.type.rank - 1, *range(1, y.type.rank - 1)])]


@converts("AffineGrid")
def affine_grid(c: NodeContext) -> Sequence[Operand]:
    """Places on a regular grid in [-1, 1], in homogeneous coordinates, times theta."""
    theta, size = c.value(0), c.ints(1, "the size")
    spatial = size[2:]
    lines = []
    for count in spatial:
        if c.attr("align_corners", 0):
            lines.append(np.linspace(-1, 1, count) if count > 1 else np.full(1, -1.0))
        else:
            lines.append((2 * np.arange(count) + 1) / count - 1)
    axes = np.meshgrid(*lines, indexing="ij")
    places = np.stack([*reversed(axes), np.ones(spatial)], axis=-1).reshape(-1, len(spatial) + 1)
    points = c.e.const(np.broadcast_to(places, (size[0], *places.shape)), theta.type.dtype)
    return [c.e.reshape(c.e.matmul(points, theta, trans_b=True), (size[0], *spatial, len(spatial)))]


def _roi_taps(e: Emitter, start: Value, end: Value, out: int, ratio: int, size: int, half_pixel: bool) -> list[_Tap]:
    """Along one axis: `ratio` places in each of `out` bins of each region, `[regions, out * ratio]`."""
    length = e.sub(end, start)
    if not half_pixel:
        length = e.maximum(length, 1.0)
    inside = (np.arange(out)[:, None] + (np.arange(ratio) + 0.5) / ratio).reshape(1, -1) / out
    place = e.add(start, e.mul(length, e.const(inside, start.type.dtype)))
    known = e.op("logical_and", e.op("less_equal", e.scalar(-1.0, place), place), _at_most(e, place, size))
    place = e.op("clip", place, lo=0.0, hi=float(size - 1))
    low = e.op("floor", place)
    t = e.sub(place, low)
    high = e.op("clip", e.add(low, 1.0), lo=0.0, hi=float(size - 1))
    weights = [e.where(known, weight, 0.0) for weight in (e.sub(1.0, t), t)]
    return [_Tap(_whole(e, index), weight) for index, weight in zip((low, high), weights, strict=True)]


def _at_most(e: Emitter, x: Value, bound: float) -> Value:
    return e.op("less_equal", x, e.scalar(bound, x))


def _reshaped(e: Emitter, taps: list[_Tap], shape: tuple[int, ...]) -> list[_Tap]:
    return [_Tap(e.reshape(tap.index, shape), e.reshape(tap.weight, shape) if tap.weight else None) for tap in taps]


@converts("RoiAlign")
def roi_align(c: NodeContext) -> Sequence[Operand]:
    e, x, rois = c.e, c.value(0), c.value(1)
    rows, columns, ratio = int(c.attr("output_height", 1)), int(c.attr("output_width", 1)), c.attr("sampling_ratio", 0)
    half_pixel = c.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    count, (height, width) = rois.type.shape[0], x.type.shape[2:]
    if ratio < 1:
        raise c.unsupported("sampling_ratio 0 (the number of samples would depend on data: set it to 2)")
    scaled = e.sub(e.mul(rois, float(c.attr("spatial_scale", 1.0))), 0.5 if half_pixel else 0.0)
    x0, y0, x1, y1 = (e.op("slice", scaled, starts=(0, i), stops=(count, i + 1), steps=(1, 1)) for i in range(4))
    down = _reshaped(e, _roi_taps(e, y0, y1, rows, ratio, height, half_pixel), (count, rows * ratio, 1))
    across = _reshaped(e, _roi_taps(e, x0, x1, columns, ratio, width, half_pixel), (count, 1, columns * ratio))
    image = e.reshape(_whole(e, c.value(2)), (count, 1, 1))
    corners = _weighted(e, x, image, [down, across])
    split = (count, rows, ratio, columns, ratio, x.type.shape[1])
    if str(c.attr("mode", "avg")) == "max":
        # ONNX takes the greatest of the weighted corners, not of the interpolated values.
        y = e.max(e.reshape(functools.reduce(e.maximum, corners), split), [2, 4], keepdims=False)
    else:
        y = e.mean(e.reshape(functools.reduce(e.add, corners), split), [2, 4], keepdims=False)
    return [e.transpose(y, (0, 3, 1, 2))]
