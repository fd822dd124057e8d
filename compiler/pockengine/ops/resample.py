"""Interpolation along one axis, as ONNX's Resize defines it, and its transpose, which is its gradient.

Each element of the result is a weighted sum of a few elements of the axis. The weights follow from the attributes:

    axis, source, size   the axis; its length before and after
    scale                length after / length before, which need not be the quotient of the two
    mode                 nearest, linear, cubic
    coordinates          where an element of the result lies in the source: ONNX's coordinate_transformation_mode
    rounding             of nearest: floor, ceil, round_prefer_floor, round_prefer_ceil
    cubic                the coefficient `a` of the cubic kernel (R. Keys, 1981)
    antialias            widen the kernel where the result is smaller
    exclude_outside      weights beyond the ends are dropped; else the end elements stand for what lies there
    crop                 (start, end) in units of the source, for tf_crop_and_resize; elements outside get no weight
    transposed           from `size` elements back to `source`
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attrs, Node, TensorType, Value
from .axes import of_attribute
from .emitter import Emitter
from .registry import LINEAR, AxisAttr, Kind, Op, Sample, register

COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"),
)


LONGEST = 1 << 24
"""Elements of an axis: the weights of each are known when compiling."""


def centres(attrs: Attrs) -> Array:
    """Where each element of the result lies in the source, in elements of it."""
    source, size, scale = int(attrs["source"]), int(attrs["size"]), float(attrs["scale"])
    length, y, mode = scale * source, np.arange(size, dtype=np.float64), attrs["coordinates"]
    if mode == "align_corners":
        return y * (source - 1) / (length - 1) if length != 1 else 0 * y
    if mode == "asymmetric":
        return y / scale
    if mode == "tf_crop_and_resize":
        start, end = (float(bound) for bound in attrs["crop"])
        step = (end - start) * (source - 1)
        inside = y * step / (length - 1) if length != 1 else 0 * y + step / 2
        return start * (source - 1) + inside
    if mode == "pytorch_half_pixel" and length == 1:
        return 0 * y - 0.5
    shift = source / 2 * (1 - size / length) if mode == "half_pixel_symmetric" else 0.0
    return (y + 0.5) / scale + (shift - 0.5)


def outside(attrs: Attrs) -> Array:
    """Elements of the result whose place is beyond the ends of the source."""
    x, last = centres(attrs), int(attrs["source"]) - 1
    return (x < 0) | (x > last)


def _nearest(x: Array, rounding: str) -> Array:
    if rounding in ("floor", "ceil"):
        return np.floor(x) if rounding == "floor" else np.ceil(x)
    return np.ceil(x - 0.5) if rounding == "round_prefer_floor" else np.floor(x + 0.5)


def _kernel(distance: Array, mode: str, a: float) -> Array:
    d = np.abs(distance)
    if mode == "linear":
        return np.asarray(np.clip(1 - d, 0, 1))
    near: Array = ((a + 2) * d - (a + 3)) * d * d + 1
    far: Array = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def matrix(attrs: Attrs) -> Any:
    """The weights, a sparse f64[size, source]; of a transposed node f64[source, size]."""
    return _matrix(tuple(sorted((key, value) for key, value in attrs.items() if key != "axis")))


@lru_cache(maxsize=64)
def _matrix(items: tuple[tuple[str, Any], ...]) -> Any:
    from scipy import sparse  # a fifth of the start-up time, for a rare operator

    attrs = dict(items)
    x, source, mode = centres(attrs), int(attrs["source"]), str(attrs["mode"])
    if mode == "nearest":
        places, weights = _nearest(x, str(attrs["rounding"]))[:, None], np.ones((x.size, 1))
    else:
        shrink = min(1.0, attrs["scale"]) if attrs["antialias"] else 1.0
        radius = (1 if mode == "linear" else 2) / shrink
        places = np.floor(x - radius)[:, None] + np.arange(int(np.ceil(2 * radius)) + 2)
        weights = _kernel((places - x[:, None]) * shrink, mode, float(attrs["cubic"]))
    if attrs["exclude_outside"]:
        weights = np.where((places < 0) | (places >= source), 0.0, weights)
    weights = weights / weights.sum(axis=1, keepdims=True)
    if attrs["coordinates"] == "tf_crop_and_resize":
        weights = np.where(outside(attrs)[:, None], 0.0, weights)
    columns = np.clip(places, 0, source - 1).astype(np.int64).ravel()
    rows = np.repeat(np.arange(x.size), places.shape[1])
    full = sparse.csr_array(sparse.coo_array((weights.ravel(), (rows, columns)), (x.size, source)))
    full.eliminate_zeros()
    return full.T.tocsr() if attrs["transposed"] else full


def _type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    axis, shape = int(attrs["axis"]), inputs[0].shape
    before, after = int(attrs["source"]), int(attrs["size"])
    if attrs["transposed"]:
        before, after = after, before
    if shape[axis] != before:
        raise ModelError(f"axis {axis} of {inputs[0]} is not {before} long")
    if max(before, after) > LONGEST:
        raise ModelError(f"an axis of {max(before, after)} elements is too long to be interpolated")
    return (inputs[0].with_shape((*shape[:axis], after, *shape[axis + 1 :])),)


def _resample(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    x, axis = inputs[0], int(attrs["axis"])
    first = np.moveaxis(x, axis, 0)
    rows = matrix(attrs) @ first.reshape(len(first), -1)
    return [np.asarray(np.moveaxis(rows.reshape(-1, *first.shape[1:]), 0, axis), order="C").astype(x.dtype)]


def _vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return e.op("resample", dys[0], **{**node.attrs, "transposed": not node.attrs["transposed"]})


def _cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Attrs) -> int:
    weights = matrix(attrs)
    return 0 if attrs["mode"] == "nearest" else 2 * int(weights.nnz) * (outputs[0].size // weights.shape[0])


DEFAULTS: Attrs = {
    "mode": "linear",
    "coordinates": "half_pixel",
    "rounding": "round_prefer_floor",
    "cubic": -0.75,
    "antialias": False,
    "exclude_outside": False,
    "crop": (0.0, 1.0),
    "transposed": False,
}


def _sample(shape: str, axis: int, size: int, **attrs: Any) -> Sample:
    source = int(shape.partition("[")[2].rstrip("]").split(",")[axis])
    both = {**DEFAULTS, "axis": axis, "source": source, "size": size, "scale": size / source, **attrs}
    if both["transposed"]:
        both["source"], both["size"], both["scale"] = size, source, source / size
    return Sample((shape,), both)


register(
    Op(
        "resample",
        Kind.MOVEMENT,
        _type,
        _resample,
        vjps=(_vjp,),
        cost=_cost,
        singular=LINEAR,
        axes=of_attribute("axis"),
        axis_attrs={"axis": AxisAttr.ONE},
        samples=(
            _sample("f32[2,4,3,5]", 1, 8, mode="nearest", coordinates="asymmetric", rounding="floor"),
            _sample("i64[6,3]", 0, 4, mode="nearest"),
            _sample("f32[2,5,600]", 1, 7),
            _sample("f32[3,6]", 1, 12, coordinates="align_corners"),
            _sample("f32[3,9,4]", 1, 4, antialias=True),
            _sample("f32[2,5,7]", 1, 9, mode="cubic", exclude_outside=True),
            _sample("f32[2,5,7]", 1, 6, coordinates="tf_crop_and_resize", crop=(0.4, 1.2)),
            _sample("f32[2,8,5]", 1, 4, mode="nearest", transposed=True),
            _sample("f32[2,9,5]", 1, 5, mode="cubic", transposed=True),
        ),
    )
)
