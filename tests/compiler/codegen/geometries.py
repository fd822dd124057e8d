"""Random contractions and regions, drawn from a seed so that a whole batch compiles as one library."""

from __future__ import annotations

import math

import numpy as np

from pockengine.ir import Builder, DType, RegionKind, TensorType, Value
from pockengine.ops import Emitter, Sample, prune
from pockengine.ops.convolution import Geometry
from tests.compiler.codegen.harness import Case, draw, region_case, sample_case


def matmul(rng: np.random.Generator) -> Case:
    """Sizes around the edges of register tiles, vectors and packing blocks; sometimes batched, sometimes empty."""
    m, n, k = (int(rng.choice([1, 2, 7, 15, 16, 17, 33, 48, 49, 65, 100, 130])) for _ in range(3))
    if rng.random() < 0.15:
        k = int(rng.integers(2000, 2600))
    if rng.random() < 0.05:
        k = 0
    lead = [(), (3,), (2, 2)][rng.integers(3)]
    trans_a, trans_b = bool(rng.integers(2)), bool(rng.integers(2))
    a, b = (*lead, *((k, m) if trans_a else (m, k))), (*lead, *((n, k) if trans_b else (k, n)))
    types = tuple(str(TensorType(DType.F32, shape)) for shape in (a, b))
    return sample_case("matmul", Sample(types, {"trans_a": trans_a, "trans_b": trans_b}), rng)


def convolution(rng: np.random.Generator, op: str, depthwise: bool = False) -> Case:
    """A convolution or a gradient of one: random stride, dilation, padding, groups, layout; with `depthwise` groups are
    many and small."""
    while True:
        groups = int(rng.integers(2, 40)) if depthwise else int(rng.choice([1, 1, 2, 3]))
        ci, co = int(rng.integers(1, 36)), int(rng.integers(1, 36))
        if depthwise:
            ci = co = int(rng.choice([1, 1, 1, 2, 4, 8, 16]))
        kernel = (int(rng.integers(1, 6)), int(rng.integers(1, 6)))
        size = (int(rng.integers(1, 15)), int(rng.integers(1, 15)))
        attrs = {
            "stride": tuple(int(v) for v in rng.integers(1, 4, 2)),
            "pad": tuple(int(v) for v in rng.integers(0, 4, 4)),
            "dilation": tuple(int(v) for v in rng.integers(1, 3, 2)),
            "groups": groups,
            "layout": "NHWC" if depthwise or rng.random() < 0.8 else "NCHW",
        }
        geometry = Geometry.of(attrs)
        out = geometry.output_size(size, kernel)
        if min(out) >= 1:
            break
    batch = int(rng.integers(1, 4))
    x = geometry.shape(batch, groups * ci, *size)
    y = geometry.shape(batch, groups * co, *out)
    w = (groups * co, ci, *kernel)
    pairs = {"conv2d": (x, w), "conv2d_dx": (y, w), "conv2d_dw": (x, y)}
    extra = {"conv2d": {}, "conv2d_dx": {"size": size}, "conv2d_dw": {"kernel": kernel}}
    types = tuple(str(TensorType(DType.F32, shape)) for shape in pairs[op])
    return sample_case(op, Sample(types, {**attrs, **extra[op]}), rng)


def with_epilogue(case: Case, rng: np.random.Generator) -> Case:
    """The anchor followed by scale, bias, residual and clip, with a mask and the raw product as further outputs."""
    builder = Builder("body")
    e = Emitter(builder)
    anchor = case.node
    operands = [builder.input(f"a{i}", value.type) for i, value in enumerate(anchor.inputs)]
    shape = anchor.output.type.shape
    product = e.multi(anchor.op, operands, **dict(anchor.attrs))[0]
    small = tuple(1 if rng.random() < 0.5 else d for d in shape)
    scale, bias = (
        builder.input(name, TensorType(DType.F32, s)) for name, s in (("scale", small), ("bias", shape[-1:]))
    )
    residual = builder.input("residual", TensorType(DType.F32, shape))
    total = e.add(e.add(e.mul(product, scale), bias), residual)
    builder.outputs = {"y": e.op("clip", total, lo=0.0, hi=6.0), "mask": e.less(0.0, total)}
    if rng.random() < 0.5:
        builder.outputs["product"] = product
    body = builder.finish()
    arrays = [*case.inputs, *(draw(value.type, rng) for value in body.inputs[len(operands) :])]
    return region_case(body, "contraction", arrays, f"{case.label} with an epilogue")


def _shape(rng: np.random.Generator, rank: int) -> tuple[int, ...]:
    return tuple(
        int(rng.choice([1, 2, 3, 5, 16, 33, 70])) if axis < rank - 1 else int(rng.integers(1, 90))
        for axis in range(rank)
    )


def _broadcast(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d if rng.random() < 0.6 else 1 for d in shape)[int(rng.integers(0, len(shape))) :]


def elementwise(rng: np.random.Generator) -> Case:
    """Several inputs broadcast in different ways, two outputs of different types."""
    shape = _shape(rng, int(rng.integers(1, 5)))
    if math.prod(shape) > 60_000:
        shape = shape[-2:]
    builder = Builder("body")
    e = Emitter(builder)
    x = builder.input("x", TensorType(DType.F32, shape))
    others = [builder.input(f"b{i}", TensorType(DType.F32, _broadcast(rng, shape))) for i in range(2)]
    y = e.sub(e.mul(x, others[0]), e.op("tanh", others[1]))
    builder.outputs = {"y": y, "positive": e.less(0.0, y)}
    body = builder.finish()
    return region_case(body, "elementwise", [draw(v.type, rng) for v in body.inputs], f"elementwise {shape}")


def row(rng: np.random.Generator) -> Case:
    """Normalisation of rows, then a softmax over it, with the statistics as further outputs."""
    shape, count = _shape(rng, 3), int(rng.integers(1, 3))
    axes = tuple(range(3 - count, 3))
    builder = Builder("body")
    e = Emitter(builder)
    x, gain = (builder.input(n, TensorType(DType.F32, s)) for n, s in (("x", shape), ("gain", _broadcast(rng, shape))))
    centred = e.sub(x, e.mean(x, axes))
    deviation = e.op("sqrt", e.add(e.mean(e.mul(centred, centred), axes), 1e-3))
    scaled = e.mul(e.div(centred, deviation), gain)
    powers = e.op("exp", e.sub(scaled, e.max(scaled, axes)))
    builder.outputs = {"soft": e.div(powers, e.sum(powers, axes)), "deviation": deviation, "centred": centred}
    body = builder.finish()
    return region_case(body, "row", [draw(v.type, rng) for v in body.inputs], f"row {shape} {axes}")


def column(rng: np.random.Generator) -> Case:
    """Two sums over axes that are not trailing, of a product that is itself an output; an epilogue on the sums."""
    rank = int(rng.integers(2, 5))
    shape = _shape(rng, rank)
    while math.prod(shape) > 60_000:
        shape = (*[min(d, 5) for d in shape[:-1]], shape[-1])
    axes = [(0,), (0, 1), (1,), (0, 1, 2), (1, 2), (0, 2)][int(rng.integers(0, {2: 1, 3: 3, 4: 6}[rank]))]
    if rng.random() < 0.3:  # full and reduced values of one type
        shape = tuple(1 if axis in axes else d for axis, d in enumerate(shape))
    builder = Builder("body")
    e = Emitter(builder)
    x, dy = (builder.input(n, TensorType(DType.F32, s)) for n, s in (("x", shape), ("dy", _broadcast(rng, shape))))
    product = e.mul(x, dy)
    total: Value = e.sum(product, axes)
    offset = builder.input("offset", total.type)
    builder.outputs = {"product": product, "mean": e.add(e.mul(total, 0.25), offset), "most": e.max(x, axes)}
    body = builder.finish()
    return region_case(body, "column", [draw(v.type, rng) for v in body.inputs], f"column {shape} {axes}")


def depthwise_gradients(rng: np.random.Generator) -> Case:
    """Both gradients of a depthwise convolution: a masked image gradient with its sum, a momentum update of the
    weights, the sum of dy; sometimes only some of them."""
    while True:
        anchor = convolution(rng, "conv2d_dx", depthwise=True).node
        dy_type, w_type, x_type = anchor.inputs[0].type, anchor.inputs[1].type, anchor.output.type
        channels = (1, 1, 1, x_type.shape[3])
        if w_type.shape[1] == 1 and len({x_type.shape, w_type.shape, channels}) == 3:
            break
    builder = Builder("body")
    e = Emitter(builder)
    dy, w, x = (builder.input(n, t) for n, t in (("dy", dy_type), ("w", w_type), ("x", x_type)))
    momentum = builder.input("momentum", w_type)
    scale, offset = (builder.input(n, TensorType(DType.F32, channels)) for n in ("scale", "offset"))
    attrs = {name: value for name, value in anchor.attrs.items() if name != "size"}
    dw = e.op("conv2d_dw", x, dy, kernel=w_type.shape[2:], **attrs)
    dx = e.op("conv2d_dx", dy, w, **anchor.attrs)
    masked = e.op("where", e.less(0.0, x), e.mul(dx, scale), e.const(np.zeros((), np.float32)))
    update = e.add(e.mul(momentum, 0.9), dw)
    builder.outputs = {"update": update, "weights": e.sub(w, e.mul(update, 0.1))}
    image, sums = rng.random() < 0.7, rng.random() < 0.7
    if image or not sums:
        builder.outputs |= {"masked": masked}
    if sums:
        total = e.sum(masked, (0, 1, 2))
        builder.outputs |= {"total": e.add(total, offset), "sum": e.mul(e.sum(dy, (0, 1, 2)), total)}
    body = prune(builder.finish())
    arrays = [draw(value.type, rng) for value in body.inputs]
    return region_case(
        body, RegionKind.GRADIENTS, arrays, f"depthwise gradients {dy_type} {w_type} {dict(anchor.attrs)}"
    )
