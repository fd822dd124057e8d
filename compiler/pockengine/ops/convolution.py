"""Convolution and its two gradients: contractions of images with filters. Each gradient is again one of these ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ModelError
from ..ir import Array, Attr, Attrs, Node, TensorType, Value
from .axes import Source, Sources
from .emitter import Emitter
from .movement import ints
from .registry import PRODUCTS, Convolution, Kind, Op, Role, Sample, convolution_of, record_of, register, roles_of


@dataclass(frozen=True)
class Geometry:
    """The attributes of a convolution, and images seen as NCHW whatever their layout."""

    stride: tuple[int, int]
    pad: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    nhwc: bool

    @classmethod
    def of(cls, attrs: Attrs) -> Geometry:
        stride, pad, dilation = ints(attrs, "stride"), ints(attrs, "pad"), ints(attrs, "dilation")
        return cls(
            (stride[0], stride[1]),
            (pad[0], pad[1], pad[2], pad[3]),
            (dilation[0], dilation[1]),
            int(attrs["groups"]),
            attrs["layout"] == "NHWC",
        )

    def nchw(self, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
        """(batch, channels, height, width) of an image shape in this layout."""
        n, a, b, c = shape
        return (n, c, a, b) if self.nhwc else (n, a, b, c)

    @property
    def channel_axis(self) -> int:
        """The axis of an image's channels in this layout."""
        return 3 if self.nhwc else 1

    def shape(self, n: int, c: int, h: int, w: int) -> tuple[int, int, int, int]:
        """An image shape in this layout."""
        return (n, h, w, c) if self.nhwc else (n, c, h, w)

    def output_size(self, size: tuple[int, int], kernel: tuple[int, int]) -> tuple[int, int]:
        """Height and width after the convolution."""
        (top, left, bottom, right), (dh, dw) = self.pad, self.dilation
        return (
            (size[0] + top + bottom - dh * (kernel[0] - 1) - 1) // self.stride[0] + 1,
            (size[1] + left + right - dw * (kernel[1] - 1) - 1) // self.stride[1] + 1,
        )

    def read(self, x: Array) -> Array:
        """An image as NCHW."""
        return np.transpose(x, (0, 3, 1, 2)) if self.nhwc else x

    def write(self, x: Array) -> Array:
        """An NCHW image in this layout."""
        return np.asarray(np.transpose(x, (0, 2, 3, 1)), order="C") if self.nhwc else x

    def padded(self, x: Array, value: float = 0.0) -> Array:
        top, left, bottom, right = self.pad
        return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)

    def window(self, i: int, j: int, out: tuple[int, int]) -> tuple[slice, slice]:
        """Where kernel tap (i, j) reads in the padded image."""
        (sh, sw), (dh, dw) = self.stride, self.dilation
        return (
            slice(i * dh, i * dh + (out[0] - 1) * sh + 1, sh),
            slice(j * dw, j * dw + (out[1] - 1) * sw + 1, sw),
        )


def _conv_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, w = inputs
    g = Geometry.of(attrs)
    n, c, h, wd = g.nchw(x.shape)
    if w.rank != 4 or w.shape[1] * g.groups != c or w.shape[0] % g.groups:
        raise ModelError(f"a convolution of {x} with weights {w} and {g.groups} groups does not fit")
    out = g.output_size((h, wd), (w.shape[2], w.shape[3]))
    if min(out) < 1:
        raise ModelError(f"a convolution of {x} with weights {w} has no output pixels")
    return (x.with_shape(g.shape(n, w.shape[0], *out)),)


def _grouped(x: Array, groups: int) -> Array:
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _conv(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    x, w = inputs
    g = Geometry.of(attrs)
    kh, kw = w.shape[2:]
    padded = g.padded(g.read(x))
    out = g.output_size(g.read(x).shape[2:], (kh, kw))
    weights = w.reshape(g.groups, w.shape[0] // g.groups, *w.shape[1:])
    result = np.zeros((x.shape[0], g.groups, w.shape[0] // g.groups, *out), x.dtype)
    for i in range(kh):
        for j in range(kw):
            patch = padded[:, :, *g.window(i, j, out)]
            result += np.einsum("ngchw,goc->ngohw", _grouped(patch, g.groups), weights[..., i, j], optimize=True)
    return [g.write(result.reshape(x.shape[0], w.shape[0], *out))]


def _conv_dx_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    dy, w = inputs
    g = Geometry.of(attrs)
    h, wd = ints(attrs, "size")
    return (dy.with_shape(g.shape(g.nchw(dy.shape)[0], w.shape[1] * g.groups, h, wd)),)


def _conv_dx(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    dy, w = inputs
    g = Geometry.of(attrs)
    gradient = _grouped(g.read(dy), g.groups)
    out, (h, wd), (kh, kw) = gradient.shape[3:], ints(attrs, "size"), w.shape[2:]
    top, left, bottom, right = g.pad
    padded = np.zeros((dy.shape[0], w.shape[1] * g.groups, h + top + bottom, wd + left + right), dy.dtype)
    weights = w.reshape(g.groups, w.shape[0] // g.groups, *w.shape[1:])
    for i in range(kh):
        for j in range(kw):
            part = np.einsum("ngohw,goc->ngchw", gradient, weights[..., i, j], optimize=True)
            padded[:, :, *g.window(i, j, (out[0], out[1]))] += part.reshape(dy.shape[0], -1, *out)
    return [g.write(padded[:, :, top : top + h, left : left + wd])]


def _conv_dw_type(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, dy = inputs
    g = Geometry.of(attrs)
    kh, kw = ints(attrs, "kernel")
    return (x.with_shape((g.nchw(dy.shape)[1], g.nchw(x.shape)[1] // g.groups, kh, kw)),)


def _conv_dw(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    x, dy = inputs
    g = Geometry.of(attrs)
    kh, kw = ints(attrs, "kernel")
    padded, gradient = g.padded(g.read(x)), _grouped(g.read(dy), g.groups)
    out = gradient.shape[3:]
    channels = padded.shape[1] // g.groups
    result = np.zeros((g.groups, gradient.shape[2], channels, kh, kw), x.dtype)
    for i in range(kh):
        for j in range(kw):
            patch = _grouped(padded[:, :, *g.window(i, j, (out[0], out[1]))], g.groups)
            result[..., i, j] = np.einsum("ngohw,ngchw->goc", gradient, patch, optimize=True)
    return [result.reshape(-1, channels, kh, kw)]


def _depthwise(attrs: Attrs, filters: tuple[int, ...]) -> bool:
    """Whether each channel of both images has filters of its own."""
    return int(attrs["groups"]) == filters[0] and filters[1] == 1


def _conv_axes(node: Node) -> Sources:
    """Of a convolution and of its image gradient: samples come from samples, channels from filters and, where each has
    filters of its own, from the image's channels. Pixels read windows."""
    g, filters, found = Geometry.of(node.attrs), node.inputs[1], list[Source | None]((None,) * 4)
    channel = g.channel_axis
    found[0] = (0, None)
    if g.groups == 1:
        found[channel] = (None, 0 if record_of(node).convolution is Convolution.FORWARD else 1)
    elif _depthwise(node.attrs, filters.type.shape):
        found[channel] = (channel, 0)
    return tuple(found)


def _conv_dw_axes(node: Node) -> Sources:
    """Filters [out, in, …] have the channels of dy and of x; depthwise ones those of both at once."""
    g = Geometry.of(node.attrs)
    if g.groups == 1:
        return ((None, g.channel_axis), (g.channel_axis, None), None, None)
    channels = (g.channel_axis,) * 2 if _depthwise(node.attrs, node.output.type.shape) else None
    return (channels, None, None, None)


def _conv_sized(node: Node, shape: Sequence[int]) -> Attrs:
    """With fewer channels, a depthwise convolution has fewer groups."""
    g = Geometry.of(node.attrs)
    made = record_of(node).convolution is Convolution.FILTER_GRADIENT
    return node.attrs if g.groups == 1 else {**node.attrs, "groups": shape[0 if made else g.channel_axis]}


GEOMETRY_KEYS = ("stride", "pad", "dilation", "groups", "layout")


def geometry_attrs(attrs: Attrs) -> dict[str, Attr]:
    """The attributes shared by a convolution and its gradients."""
    return {key: attrs[key] for key in GEOMETRY_KEYS}


def _dx(e: Emitter, attrs: Attrs, dy: Value, w: Value, x_shape: tuple[int, ...]) -> Value:
    _, _, h, wd = Geometry.of(attrs).nchw(x_shape)
    return e.op("conv2d_dx", dy, w, size=(h, wd), **geometry_attrs(attrs))


def _dw(e: Emitter, attrs: Attrs, x: Value, dy: Value, kernel: tuple[int, ...]) -> Value:
    return e.op("conv2d_dw", x, dy, kernel=tuple(kernel), **geometry_attrs(attrs))


def _fwd(e: Emitter, attrs: Attrs, x: Value, w: Value) -> Value:
    return e.op("conv2d", x, w, **geometry_attrs(attrs))


def _conv_flops(channels_in: int, kernel: tuple[int, ...], groups: int, dy_size: int) -> int:
    return 2 * dy_size * (channels_in // groups) * kernel[0] * kernel[1]


def _samples(forward: bool, transposed: bool) -> tuple[Sample, ...]:
    """The same geometries for the convolution and its gradients."""
    cases = [
        ((2, 3, 7, 6), (4, 3, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        ((1, 4, 8, 8), (6, 4, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((2, 3, 9, 9), (5, 3, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
        ((1, 3, 8, 8), (5, 3, 3, 3), (2, 2), (0, 0, 1, 1), (1, 1), 1),
        ((2, 20, 6, 5), (20, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 20),
        ((1, 6, 9, 7), (6, 1, 5, 5), (2, 2), (2, 2, 2, 2), (1, 1), 6),
        ((1, 6, 7, 7), (4, 3, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
        ((1, 2, 9, 9), (3, 2, 3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 1),
        ((2, 3, 5, 5), (4, 3, 1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
        ((1, 3, 1, 12), (4, 3, 1, 5), (1, 2), (0, 2, 0, 2), (1, 1), 1),
    ]
    samples = []
    for dtype, layout, chosen in (("f32", "NHWC", cases), ("f32", "NCHW", cases), ("i32", "NCHW", cases[2:8:2])):
        for x, w, stride, pad, dilation, groups in chosen:
            attrs = {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups, "layout": layout}
            g = Geometry.of(attrs)
            out = g.output_size((x[2], x[3]), (w[2], w[3]))
            x_type = f"{dtype}[{','.join(map(str, g.shape(*x)))}]"
            w_type = f"{dtype}[{','.join(map(str, w))}]"
            dy_type = f"{dtype}[{','.join(map(str, g.shape(x[0], w[0], *out)))}]"
            if forward:
                samples.append(Sample((x_type, w_type), attrs))
            elif transposed:
                samples.append(Sample((dy_type, w_type), {**attrs, "size": (x[2], x[3])}))
            else:
                samples.append(Sample((x_type, dy_type), {**attrs, "kernel": (w[2], w[3])}))
    return tuple(samples)


register(
    Op(
        "conv2d",
        Kind.CONTRACTION,
        _conv_type,
        _conv,
        vjps=(
            lambda e, n, dys: _dx(e, n.attrs, dys[0], n.inputs[1], n.inputs[0].type.shape),
            lambda e, n, dys: _dw(e, n.attrs, n.inputs[0], dys[0], n.inputs[1].type.shape[2:]),
        ),
        cost=lambda i, o, a: _conv_flops(
            Geometry.of(a).nchw(i[0].shape)[1], i[1].shape[2:], int(a["groups"]), o[0].size
        ),
        singular=PRODUCTS,
        axes=_conv_axes,
        sized=_conv_sized,
        roles=(Role.IMAGE, Role.FILTERS, Role.IMAGE),
        convolution=Convolution.FORWARD,
        samples=_samples(True, False),
    )
)
register(
    Op(
        "conv2d_dx",
        Kind.CONTRACTION,
        _conv_dx_type,
        _conv_dx,
        vjps=(
            lambda e, n, dys: _fwd(e, n.attrs, dys[0], n.inputs[1]),
            lambda e, n, dys: _dw(e, n.attrs, dys[0], n.inputs[0], n.inputs[1].type.shape[2:]),
        ),
        cost=lambda i, o, a: _conv_flops(
            Geometry.of(a).nchw(o[0].shape)[1], i[1].shape[2:], int(a["groups"]), i[0].size
        ),
        singular=PRODUCTS,
        axes=_conv_axes,
        sized=_conv_sized,
        roles=(Role.IMAGE, Role.FILTERS, Role.IMAGE),
        convolution=Convolution.IMAGE_GRADIENT,
        samples=_samples(False, True),
    )
)
register(
    Op(
        "conv2d_dw",
        Kind.CONTRACTION,
        _conv_dw_type,
        _conv_dw,
        vjps=(
            lambda e, n, dys: _dx(e, n.attrs, n.inputs[1], dys[0], n.inputs[0].type.shape),
            lambda e, n, dys: _fwd(e, n.attrs, n.inputs[0], dys[0]),
        ),
        cost=lambda i, o, a: _conv_flops(
            Geometry.of(a).nchw(i[0].shape)[1], ints(a, "kernel"), int(a["groups"]), i[1].size
        ),
        singular=PRODUCTS,
        axes=_conv_dw_axes,
        sized=_conv_sized,
        roles=(Role.IMAGE, Role.IMAGE, Role.FILTERS),
        selectable=True,
        convolution=Convolution.FILTER_GRADIENT,
        samples=_samples(False, False),
    )
)


def filters_of(node: Node) -> Value:
    """The weights of a convolution or of its input gradient; what a weight gradient makes."""
    return next(value for value, role in roles_of(node) if role is Role.FILTERS)


MOST_TAPS = 49
"""Of a filter in templates of depthwise convolution: 7 x 7."""


def channels_of_group(node: Node) -> int:
    """Channels that each group of a grouped convolution in NHWC, or of a gradient of one, reads and makes, where these
    are as many and filters have at most `MOST_TAPS` taps: 1 is a depthwise convolution. Otherwise 0."""
    if convolution_of(node) is None or node.attrs["layout"] != "NHWC":
        return 0
    groups, w = int(node.attrs["groups"]), filters_of(node).type.shape
    return w[1] if w[0] == groups * w[1] and groups > 1 and w[2] * w[3] <= MOST_TAPS else 0
