"""Max and average pooling and their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..ir import Array, Attr, Attrs, Node, TensorType, Value
from .convolution import Geometry
from .emitter import Emitter
from .movement import ints
from .registry import LINEAR, Kind, Op, Role, Sample, register


def _geometry(attrs: Attrs) -> Geometry:
    return Geometry.of({**attrs, "groups": 1})


def _kernel(attrs: Attrs) -> tuple[int, int]:
    kh, kw = ints(attrs, "kernel")
    return kh, kw


def _pool_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    g = _geometry(attrs)
    n, c, h, w = g.nchw(inputs[0].shape)
    return (inputs[0].with_shape(g.shape(n, c, *g.output_size((h, w), _kernel(attrs)))),)


def _taps(attrs: Attrs) -> Iterator[tuple[int, int]]:
    kh, kw = _kernel(attrs)
    return ((i, j) for i in range(kh) for j in range(kw))


def _max_pool(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    g = _geometry(attrs)
    x = g.read(inputs[0])
    out = g.output_size(x.shape[2:], _kernel(attrs))
    padded = g.padded(x, -np.inf)
    windows = [padded[:, :, *g.window(i, j, out)] for i, j in _taps(attrs)]
    return [g.write(np.maximum.reduce(windows))]


def _max_pool_dx(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    g = _geometry(attrs)
    x, y, dy = (g.read(v) for v in inputs)
    top, left, _, _ = g.pad
    padded = g.padded(x, -np.inf)
    result = np.zeros_like(padded)
    free = np.ones(y.shape, bool)
    for i, j in _taps(attrs):
        place = (slice(None), slice(None), *g.window(i, j, (y.shape[2], y.shape[3])))
        hit = (padded[place] == y) & free
        result[place] += np.where(hit, dy, 0)
        free &= ~hit
    return [g.write(result[:, :, top : top + x.shape[2], left : left + x.shape[3]])]


def _window_sizes(attrs: Attrs, size: tuple[int, int]) -> Array:
    """How many real pixels each window of an average pool covers (or all, when padding counts)."""
    g, kernel = _geometry(attrs), _kernel(attrs)
    out = g.output_size(size, kernel)
    if attrs["count_include_pad"]:
        return np.full((1, 1, *out), float(kernel[0] * kernel[1]))
    ones = g.padded(np.ones((1, 1, *size)))
    covered: Array = np.sum([ones[:, :, *g.window(i, j, out)] for i, j in _taps(attrs)], axis=0)
    return covered


def _avg_pool(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    g = _geometry(attrs)
    x = g.read(inputs[0])
    size = (x.shape[2], x.shape[3])
    out, padded = g.output_size(size, _kernel(attrs)), g.padded(x)
    total = np.add.reduce([padded[:, :, *g.window(i, j, out)] for i, j in _taps(attrs)])
    return [g.write((total / _window_sizes(attrs, size)).astype(x.dtype))]


def _avg_pool_dx(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    g = _geometry(attrs)
    dy = g.read(inputs[0])
    (h, w), (top, left, bottom, right) = ints(attrs, "size"), g.pad
    share = (dy / _window_sizes(attrs, (h, w))).astype(dy.dtype)
    result = np.zeros((*dy.shape[:2], h + top + bottom, w + left + right), dy.dtype)
    for i, j in _taps(attrs):
        result[:, :, *g.window(i, j, (dy.shape[2], dy.shape[3]))] += share
    return [g.write(result[:, :, top : top + h, left : left + w])]


def _avg_pool_dx_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    g = _geometry(attrs)
    n, c, _, _ = g.nchw(inputs[0].shape)
    h, w = ints(attrs, "size")
    return (inputs[0].with_shape(g.shape(n, c, h, w)),)


def _max_pool_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return e.op("max_pool_dx", node.inputs[0], node.output, dys[0], **node.attrs)


def _avg_pool_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    _, _, h, w = _geometry(node.attrs).nchw(node.inputs[0].type.shape)
    return e.op("avg_pool_dx", dys[0], size=(h, w), **node.attrs)


def _avg_pool_dx_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return e.op("avg_pool", dys[0], **{key: value for key, value in node.attrs.items() if key != "size"})


_CASES = (
    ((2, 3, 6, 6), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((1, 5, 7, 9), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((1, 20, 5, 5), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((1, 3, 7, 8), (3, 2), (1, 2), (2, 0, 1, 1), (2, 3)),
    ((4, 68, 3, 4), (2, 2), (2, 1), (1, 0, 0, 1), (1, 1)),
)


def _samples(extra: Attrs, inputs: str) -> tuple[Sample, ...]:
    """`inputs` is a string over x (input image) and y (output image)."""
    samples = []
    for layout in ("NHWC", "NCHW"):
        for shape, kernel, stride, pad, dilation in _CASES:
            window: dict[str, Attr] = {"kernel": kernel, "stride": stride, "pad": pad, "dilation": dilation}
            attrs: dict[str, Attr] = {**window, "layout": layout, **extra}
            g = _geometry(attrs)
            out = g.output_size((shape[2], shape[3]), kernel)
            text = {"x": g.shape(*shape), "y": g.shape(shape[0], shape[1], *out)}
            if inputs == "y":
                attrs["size"] = (shape[2], shape[3])
            types = tuple(f"f32[{','.join(map(str, text[c]))}]" for c in inputs)
            samples.append(Sample(types, attrs))
    return tuple(samples)


def _window_cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Attrs) -> int:
    kh, kw = _kernel(attrs)
    return kh * kw * min(inputs[-1].size, outputs[0].size)


_MAX: Attrs = {}
_TIED = tuple(
    Sample(
        (shape,),
        {"kernel": (2, 2), "stride": (1, 1), "pad": pad, "dilation": (1, 1), "layout": layout},
        fixed=((0, (1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0)),),
    )
    for shape, layout in (("f32[1,1,3,3]", "NCHW"), ("f32[1,3,3,1]", "NHWC"))
    for pad in ((0, 0, 0, 0), (1, 1, 1, 1))
)
"""Images in which nearly every window has several greatest elements."""
_AVG: Attrs = {"count_include_pad": False}
register(
    Op(
        "max_pool",
        Kind.POOLING,
        _pool_type,
        _max_pool,
        vjps=(_max_pool_vjp,),
        cost=_window_cost,
        singular=_TIED,
        roles=(Role.IMAGE,) * 2,
        samples=_samples(_MAX, "x"),
    )
)
register(
    Op(
        "max_pool_dx",
        Kind.POOLING,
        lambda inputs, attrs: (inputs[0],),
        _max_pool_dx,
        cost=_window_cost,
        roles=(Role.IMAGE,) * 4,
        samples=_samples(_MAX, "xyy"),
    )
)
register(
    Op(
        "avg_pool",
        Kind.POOLING,
        _pool_type,
        _avg_pool,
        vjps=(_avg_pool_vjp,),
        cost=_window_cost,
        singular=LINEAR,
        roles=(Role.IMAGE,) * 2,
        samples=_samples(_AVG, "x") + _samples({"count_include_pad": True}, "x"),
    )
)
register(
    Op(
        "avg_pool_dx",
        Kind.POOLING,
        _avg_pool_dx_type,
        _avg_pool_dx,
        vjps=(_avg_pool_dx_vjp,),
        cost=_window_cost,
        singular=LINEAR,
        roles=(Role.IMAGE,) * 2,
        samples=_samples(_AVG, "y"),
    )
)
