"""Normalisations and softmax: composites of ours wherever there is one, so that a backend can claim them whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import Attr, Value
from .registry import NodeContext, Operand, converts


@converts("Softmax", "LogSoftmax")
def softmax(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    op = "softmax" if c.node.op_type == "Softmax" else "log_softmax"
    return [c.e.op(op, x, axis=c.axis("axis", -1, x.type.rank))]


def _only_first_output(c: NodeContext) -> None:
    if any(c.node.output[1:]):
        raise c.unsupported(f"the output '{next(name for name in c.node.output[1:] if name)}'")


@converts("BatchNormalization")
def batch_norm(c: NodeContext) -> Sequence[Operand]:
    """As evaluation does it unless the model says otherwise; a recipe may turn it into training. ONNX's momentum is
    what is kept, ours what is new."""
    values = [c.value(index) for index in range(5)]
    epsilon, kept = c.attr("epsilon", 1e-5), c.attr("momentum", 0.9)
    settings: dict[str, Attr] = {"epsilon": epsilon, "momentum": round(1.0 - kept, 6)}
    if not c.attr("training_mode", 0):
        _only_first_output(c)
        return [c.e.op("batch_norm", *values, **settings, training=False)]
    x, _, _, mean, variance = values
    y, *_ = c.e.multi("batch_norm", values, **settings, training=True)
    if not any(c.node.output[1:]):
        return [y]
    # ONNX keeps the variance of the batch itself, our composite the unbiased one that PyTorch keeps.
    axes = [axis for axis in range(x.type.rank) if axis != 1]
    batch_mean = c.e.mean(x, axes)
    centred = c.e.sub(x, batch_mean)
    batch_variance = c.e.mean(c.e.mul(centred, centred), axes)
    new = ((mean, batch_mean), (variance, batch_variance))
    return [
        y,
        *(c.e.add(c.e.mul(old, kept), c.e.mul(c.e.reshape(own, old.type.shape), 1.0 - kept)) for old, own in new),
    ]


@converts("LRN")
def local_response_norm(c: NodeContext) -> Sequence[Operand]:
    """The squares around a channel are a mean over a window along the channels, padding included."""
    x, size = c.value(0), c.attr("size", 1)
    n, channels = x.type.shape[:2]
    spatial = x.type.size // (n * channels)
    image = c.e.reshape(c.e.mul(x, x), (n, 1, channels, spatial))
    pad = ((size - 1) // 2, 0, size // 2, 0)
    mean = c.e.op(
        "avg_pool",
        image,
        kernel=(size, 1),
        stride=(1, 1),
        dilation=(1, 1),
        pad=pad,
        layout="NCHW",
        count_include_pad=True,
    )
    divisor = c.e.add(c.e.mul(c.e.reshape(mean, x.type.shape), c.attr("alpha", 1e-4)), c.attr("bias", 1.0))
    return [c.e.mul(x, c.e.op("pow", divisor, c.e.scalar(-c.attr("beta", 0.75), x)))]


@converts("LayerNormalization")
def layer_norm(c: NodeContext) -> Sequence[Operand]:
    """The mean and the inverse deviation, where a model wants them, are computed beside the composite."""
    x, scale, bias = c.value(0), c.value(1), c.optional(2)
    if bias is None:
        bias = c.e.const(np.zeros(scale.type.shape, scale.type.dtype.numpy))
    axis, epsilon = c.axis("axis", -1, x.type.rank), c.attr("epsilon", 1e-5)
    y = c.e.op("layer_norm", x, scale, bias, axis=axis, epsilon=epsilon)
    if not any(c.node.output[1:]):
        return [y]
    axes = range(axis, x.type.rank)
    mean = c.e.mean(x, axes)
    centred = c.e.sub(x, mean)
    return [y, mean, c.e.op("rsqrt", c.e.add(c.e.mean(c.e.mul(centred, centred), axes), epsilon))]


@converts("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(c: NodeContext) -> Sequence[Operand]:
    _only_first_output(c)
    x = c.value(0)
    axis = c.axis("axis", -1, x.type.rank)
    return [c.e.op("rms_norm", x, c.value(1), axis=axis, epsilon=c.attr("epsilon", 1e-5))]


def _standardise(c: NodeContext, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    centred = c.e.sub(x, c.e.mean(x, axes))
    variance = c.e.mean(c.e.mul(centred, centred), axes)
    return c.e.mul(centred, c.e.op("rsqrt", c.e.add(variance, epsilon)))


def _per_channel(c: NodeContext, value: Value, rank: int) -> Value:
    return c.e.reshape(value, (value.type.size, *[1] * (rank - 2)))


@converts("InstanceNormalization")
def instance_norm(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    y = _standardise(c, x, range(2, x.type.rank), c.attr("epsilon", 1e-5))
    scaled = c.e.mul(y, _per_channel(c, c.value(1), x.type.rank))
    return [c.e.add(scaled, _per_channel(c, c.value(2), x.type.rank))]


@converts("GroupNormalization")
def group_norm(c: NodeContext) -> Sequence[Operand]:
    """Scale and bias are per channel from opset 21 on, per group before."""
    x, groups = c.value(0), int(c.attr("num_groups", 1))
    n, channels = x.type.shape[:2]
    grouped = c.e.reshape(x, (n, groups, x.type.size // (n * groups)))
    y = c.e.reshape(_standardise(c, grouped, [2], c.attr("epsilon", 1e-5)), x.type.shape)
    scale, bias = c.value(1), c.value(2)
    if scale.type.size != channels:
        scale, bias = (
            c.e.reshape(c.e.broadcast_to(c.e.reshape(v, (groups, 1)), (groups, channels // groups)), (channels,))
            for v in (scale, bias)
        )
    scaled = c.e.mul(y, _per_channel(c, scale, x.type.rank))
    return [c.e.add(scaled, _per_channel(c, bias, x.type.rank))]


@converts("LpNormalization")
def lp_normalisation(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    axis = c.axis("axis", -1, x.type.rank)
    if c.attr("p", 2) == 1:
        size = c.e.sum(c.e.op("abs", x), [axis])
    else:
        size = c.e.op("l2_norm", x, axes=(axis,))
    return [c.e.op("div", x, c.e.where(c.e.op("equal", size, c.e.scalar(0.0, size)), 1.0, size))]
