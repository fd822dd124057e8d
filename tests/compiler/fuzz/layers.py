"""Random layers: products, convolutions, pooling, norms, attention, lookups."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pockengine.ir import DType, TensorType, Value

from .sketch import TOKENS, Draw, Sketch, fits

WIDTHS = (1, 2, 3, 4, 5, 8, 9, 16, 17)


def linear(draw: Draw, s: Sketch, x: Value) -> Value:
    """x W + b, W stored either way round."""
    e = s.e
    if x.type.rank < 2:
        x = e.reshape(x, (1, *x.type.shape)) if x.type.rank else e.reshape(x, (1, 1))
    width, out = x.type.shape[-1], draw(st.sampled_from(WIDTHS))
    if not fits((*x.type.shape[:-1], out)):
        out = 1
    if draw(st.booleans()):
        y = e.matmul(x, e.transpose(s.param("weight", out, width), (1, 0)))
    else:
        y = e.matmul(x, s.param("weight", width, out), trans_b=False)
    return e.add(y, s.param("bias", out)) if draw(st.booleans()) else y


def product(draw: Draw, s: Sketch, x: Value) -> Value:
    """A product of activations, perhaps of one with itself."""
    e = s.e
    if x.type.rank < 2:
        return e.mul(x, x)
    alike = [v for v in s.numbers if v.type.shape[:-2] == x.type.shape[:-2] and v.type.rank == x.type.rank]
    other = draw(st.sampled_from(alike)) if alike else x
    for trans_a in draw(st.permutations((False, True))):
        for trans_b in draw(st.permutations((False, True))):
            rows, inner = x.type.shape[-2:][::-1] if trans_a else x.type.shape[-2:]
            depth, columns = other.type.shape[-2:][::-1] if trans_b else other.type.shape[-2:]
            if inner == depth and fits((*x.type.shape[:-2], rows, columns)):
                return e.op("matmul", x, other, trans_a=trans_a, trans_b=trans_b)
    return e.mul(x, 0.5)


def as_image(s: Sketch, x: Value) -> Value:
    """The value as [batch, channels, height, width]."""
    shape = x.type.shape
    if len(shape) == 4:
        return x
    if len(shape) > 4:
        return s.e.reshape(x, (*shape[:3], -1 if 0 in shape else x.type.size // (shape[0] * shape[1] * shape[2])))
    return s.e.reshape(x, (*shape, *[1] * (4 - len(shape))))


def _window(draw: Draw, x: Value, wide: int = 3) -> dict[str, tuple[int, ...]] | None:
    """kernel, stride, pad, dilation of a window that fits at least once."""
    sizes = x.type.shape[2:]
    kernel = tuple(draw(st.integers(1, wide)) for _ in sizes)
    dilation = tuple(draw(st.sampled_from((1, 1, 1, 2))) for _ in sizes)
    stride = tuple(draw(st.sampled_from((1, 1, 2, 3))) for _ in sizes)
    pad = tuple(draw(st.integers(0, kernel[side % 2] - 1)) for side in range(4))
    for axis, size in enumerate(sizes):
        if size + pad[axis] + pad[axis + 2] < (kernel[axis] - 1) * dilation[axis] + 1:
            return None
    return {"kernel": kernel, "stride": stride, "pad": pad, "dilation": dilation}


def convolution(draw: Draw, s: Sketch, x: Value) -> Value:
    e, x = s.e, as_image(s, x)
    window = _window(draw, x, 4)
    if window is None:
        window = {"kernel": (1, 1), "stride": (1, 1), "pad": (0,) * 4, "dilation": (1, 1)}
    kernel, channels = window.pop("kernel"), x.type.shape[1]
    groups = draw(st.sampled_from([g for g in (1, 2, 3, channels) if channels % g == 0]))
    out = groups * draw(st.integers(1, 3 if groups > 4 else 6))
    attrs = {**window, "groups": groups, "layout": "NCHW"}
    if draw(st.integers(0, 3)) == 0:  # transposed
        size = tuple(
            (n - 1) * step + (k - 1) * gap + 1 - low - high
            for n, k, step, gap, low, high in zip(
                x.type.shape[2:], kernel, window["stride"], window["dilation"], window["pad"][:2], window["pad"][2:],
                strict=True,
            )
        )  # fmt: skip
        per_group = draw(st.integers(1, 3))
        if min(size) > 0 and fits((x.type.shape[0], per_group * groups, *size)):
            weight = s.param("weight", channels, per_group, *kernel)
            return e.op("conv2d_dx", x, weight, size=size, **attrs)
    weight = s.param("weight", out, channels // groups, *kernel)
    y = e.op("conv2d", x, weight, **attrs)
    if draw(st.booleans()):
        y = e.add(y, s.param("bias", out, 1, 1))
    return y


def pooling(draw: Draw, s: Sketch, x: Value) -> Value:
    e, x = s.e, as_image(s, x)
    window = _window(draw, x)
    if window is None:
        return e.mean(x, (2, 3))
    if draw(st.booleans()):
        return e.op("max_pool", x, **window, layout="NCHW")
    return e.op("avg_pool", x, **window, layout="NCHW", count_include_pad=draw(st.booleans()))


def norm(draw: Draw, s: Sketch, x: Value) -> Value:
    e = s.e
    if x.type.rank < 2:
        return e.op("tanh", x)
    kind = draw(st.sampled_from(("batch", "batch", "layer", "rms", "group")))
    shape = x.type.shape
    if kind == "batch":
        tensors = [
            s.param("weight", shape[1], low=0.5, high=1.5),
            s.param("bias", shape[1]),
            s.param("running_mean", shape[1]),
            s.param("running_var", shape[1], low=0.5, high=1.5),
        ]
        return e.op("batch_norm", x, *tensors, epsilon=1e-3, momentum=0.1, training=False)
    axis = draw(st.integers(1, x.type.rank - 1))
    if kind == "group" and x.type.rank > 2:
        grouped = e.reshape(x, (shape[0], shape[1], x.type.size // (shape[0] * shape[1])))
        scale, bias = (s.param(name, *grouped.type.shape[2:]) for name in ("weight", "bias"))
        return e.reshape(e.op("layer_norm", grouped, scale, bias, axis=2, epsilon=1e-2), shape)
    scale = s.param("weight", *shape[axis:], low=0.5, high=1.5)
    if kind == "rms":
        return e.op("rms_norm", x, scale, axis=axis, epsilon=1e-2)
    return e.op("layer_norm", x, scale, s.param("bias", *shape[axis:]), axis=axis, epsilon=1e-2)


def attention(draw: Draw, s: Sketch, x: Value) -> Value:
    """Self-attention of [batch, heads, time, depth]."""
    e, x = s.e, as_image(s, x)
    q = e.mul(x, s.param("weight", x.type.shape[-1]))
    masks = []
    if draw(st.booleans()):
        masks.append(s.param("bias", x.type.shape[-2], x.type.shape[-2]))
    attrs: dict[str, Any] = {"dropout": 0.25} if draw(st.integers(0, 3)) == 0 else {}
    causal = draw(st.booleans())
    return e.multi("attention", (q, x, x, *masks), scale=0.5, causal=causal, **attrs)[0]


def embedding(draw: Draw, s: Sketch, x: Value) -> Value:
    """Rows of a table for tokens of an input, added to what there is where that fits."""
    e = s.e
    time, width = draw(st.integers(1, 5)), draw(st.sampled_from(WIDTHS))
    dtype = draw(st.sampled_from((DType.I64, DType.I32)))
    tokens = s.input(f"tokens{len(s.builder.inputs)}", TensorType(dtype, (s.batch, time)))
    rows = e.op("gather", s.param("table", TOKENS, width), tokens, axis=0)
    s.add(rows)
    return e.mean(rows, (1,)) if x.type.rank else e.mul(x, e.mean(rows, (0, 1, 2), keepdims=False))
