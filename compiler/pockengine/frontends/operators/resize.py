"""Resize: interpolation along one axis after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ModelError
from ...ir import DType, Value
from ...ops.resample import COORDINATES, outside
from .registry import NodeContext, Operand, converts


@converts("Resize")
def resize(c: NodeContext) -> Sequence[Operand]:
    """Innermost axis first, so that most of the work is done on the smaller tensor. Integers are interpolated in f32
    and rounded; the nearest element needs no arithmetic."""
    x, dtype, mode = c.value(0), c.value(0).type.dtype, str(c.attr("mode", "nearest"))
    sizes, scales = _sizes_and_scales(c, x.type.shape)
    attrs = _attributes(c, mode)
    axes = [int(axis) % x.type.rank for axis in c.attr("axes", tuple(range(x.type.rank)))]
    crops = _crops(c, axes) if attrs["coordinates"] == "tf_crop_and_resize" else {}
    rounded = mode != "nearest" and not dtype.is_float
    y = c.e.cast(x, DType.F32) if rounded else x
    for axis in reversed(range(x.type.rank)):
        crop = crops.get(axis, (0.0, 1.0))
        if (sizes[axis], scales[axis], crop) != (x.type.shape[axis], 1.0, (0.0, 1.0)):
            place = {"axis": axis, "source": x.type.shape[axis], "size": sizes[axis], "scale": scales[axis]}
            y = _along(c, y, {**attrs, **place, "crop": crop})
    return [c.e.cast(c.e.op("round", y), dtype) if rounded else y]


def _along(c: NodeContext, x: Value, attrs: dict[str, Any]) -> Value:
    y, axis = c.e.op("resample", x, **attrs), attrs["axis"]
    beyond = outside(attrs)
    if attrs["coordinates"] != "tf_crop_and_resize" or not beyond.any():
        return y
    mask = beyond.reshape([-1] + [1] * (x.type.rank - axis - 1))
    return c.e.where(c.e.const(mask), c.e.scalar(c.attr("extrapolation_value", 0.0), y), y)


def _attributes(c: NodeContext, mode: str) -> dict[str, Any]:
    """What the axes have in common."""
    coordinates = str(c.attr("coordinate_transformation_mode", "half_pixel"))
    if mode not in ("nearest", "linear", "cubic"):
        raise c.unsupported(f"the mode '{mode}'")
    if coordinates not in COORDINATES:
        raise c.unsupported(f"coordinate_transformation_mode '{coordinates}'")
    return {
        "mode": mode,
        "coordinates": coordinates,
        "rounding": str(c.attr("nearest_mode", "round_prefer_floor")),
        "cubic": float(c.attr("cubic_coeff_a", -0.75)),
        "antialias": bool(c.attr("antialias", 0)),
        "exclude_outside": bool(c.attr("exclude_outside", 0)),
        "transposed": False,
    }


def _sizes_and_scales(c: NodeContext, shape: tuple[int, ...]) -> tuple[list[int], list[float]]:
    """Length of each axis of the result, and by how much it is stretched."""
    axes = [int(axis) % len(shape) for axis in c.attr("axes", tuple(range(len(shape))))]
    policy = str(c.attr("keep_aspect_ratio_policy", "stretch"))
    sizes, scales = list(shape), [1.0] * len(shape)
    if c.has(3) and c.shape(3) != (0,):
        for axis, size in zip(axes, c.ints(3, "the sizes"), strict=True):
            sizes[axis], scales[axis] = size, size / shape[axis]
        if policy != "stretch":
            scale = (min if policy == "not_larger" else max)(scales[axis] for axis in axes)
            for axis in axes:
                sizes[axis], scales[axis] = int(scale * shape[axis] + 0.5), scale
        return sizes, scales
    given = c.static(2, "the scales").astype(np.float32)
    for axis, scale in zip(axes, given, strict=True):
        if not 0 < scale < math.inf:
            raise ModelError(f"the scales of a Resize are finite and greater than 0, not {scale:g}")
        sizes[axis], scales[axis] = int(np.floor(scale * np.float32(shape[axis]))), float(scale)
    return sizes, scales


def _crops(c: NodeContext, axes: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Start and end of the region of interest along each axis."""
    roi = [float(bound) for bound in c.static(1, "the region of interest").reshape(-1)]
    return dict(zip(axes, zip(roi[: len(axes)], roi[len(axes) :], strict=True), strict=True))
