"""Composite operators of neural networks, each written in other ops. Register a gradient only where the expansion's own
would keep more alive than it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir import Attrs, Builder, Node, TensorType, Value
from .emitter import Emitter
from .registry import MOVES, Expand, Indices, Kind, Op, Sample, Vjp, get, register


def composite(
    name: str,
    expand: Expand,
    samples: Sequence[Sample],
    vjps: Sequence[Vjp | None] = (),
    singular: Sequence[Sample] | str = (),
    indices: Indices | None = None,
    running: tuple[int, ...] = (),
) -> None:
    """Register a composite; its type rule is to expand it on the side and look."""

    def infer(inputs: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
        return tuple(value.type for value in _expanded(expand, inputs, attrs)[1])

    def cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Attrs) -> int:
        builder, _ = _expanded(expand, inputs, attrs)
        types = [([v.type for v in node.inputs], [v.type for v in node.outputs], node) for node in builder.nodes]
        return sum(get(node.op).cost(i, o, node.attrs) for i, o, node in types)

    points = singular if isinstance(singular, str) else tuple(singular)
    register(
        Op(
            name,
            Kind.COMPOSITE,
            infer,
            expand=expand,
            vjps=tuple(vjps),
            cost=cost,
            samples=tuple(samples),
            singular=points,
            indices=indices,
            running=running,
        )
    )


def _expanded(expand: Expand, inputs: Sequence[TensorType], attrs: Attrs) -> tuple[Builder, Sequence[Value]]:
    builder = Builder("expansion")
    values = [builder.input(f"i{i}", type) for i, type in enumerate(inputs)]
    return builder, expand(Emitter(builder), values, attrs)


def _softmax(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    (x,), axis = inputs, int(attrs["axis"])
    shifted = e.op("exp", e.sub(x, e.max(x, [axis])))
    return [e.div(shifted, e.sum(shifted, [axis]))]


def _softmax_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    y, dy = node.output, dys[0]
    return e.mul(y, e.sub(dy, e.sum(e.mul(y, dy), [int(node.attrs["axis"])])))


def _log_softmax(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    (x,), axis = inputs, int(attrs["axis"])
    shifted = e.sub(x, e.max(x, [axis]))
    return [e.sub(shifted, e.op("log", e.sum(e.op("exp", shifted), [axis])))]


def _log_softmax_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    dy = dys[0]
    return e.sub(dy, e.mul(e.op("exp", node.output), e.sum(dy, [int(node.attrs["axis"])])))


_AXES = (
    Sample(("f32[3,5]",), {"axis": 1}),
    Sample(("f32[2,3,19]",), {"axis": -1}),
    Sample(("f32[2,6,3]",), {"axis": 1}),
)
HIDDEN = (
    Sample(
        ("f32[4,3]",),
        {"axis": 1},
        fixed=((0, (-math.inf, 0.0, 0.0, *(-math.inf,) * 3, 1000.0, -1000.0, 1000.0, 1e30, 0.0, -1e30)),),
    ),
)
"""Rows with something hidden, with all hidden, and saturated."""
composite("softmax", _softmax, _AXES, [_softmax_vjp], singular=HIDDEN)
composite("log_softmax", _log_softmax, _AXES, [_log_softmax_vjp], singular=HIDDEN)


def _trailing(x: Value, axis: int) -> list[int]:
    return list(range(axis % x.type.rank, x.type.rank))


def _layer_norm(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    x, scale, bias = inputs
    axes = _trailing(x, int(attrs["axis"]))
    centred = e.sub(x, e.mean(x, axes))
    variance = e.mean(e.mul(centred, centred), axes)
    normal = e.mul(centred, e.op("rsqrt", e.add(variance, float(attrs["epsilon"]))))
    return [e.add(e.mul(normal, scale), bias)]


def _rms_norm(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    x, scale = inputs
    square = e.mean(e.mul(x, x), _trailing(x, int(attrs["axis"])))
    return [e.mul(e.mul(x, e.op("rsqrt", e.add(square, float(attrs["epsilon"])))), scale)]


_CONSTANT = ((0, (0.0, 0.0, 2.0, 2.0, 1.0, 3.0)),)
"""Rows of one number, and one that is not."""
composite(
    "layer_norm",
    _layer_norm,
    (
        Sample(("f32[3,8]", "f32[8]", "f32[8]"), {"axis": -1, "epsilon": 1e-5}),
        Sample(("f32[2,3,19]", "f32[3,19]", "f32[3,19]"), {"axis": 1, "epsilon": 1e-5}),
    ),
    singular=(
        Sample(("f32[3,2]", "f32[2]", "f32[2]"), {"axis": -1, "epsilon": 1e-5}, fixed=_CONSTANT),
        Sample(("f32[3,1]", "f32[1]", "f32[1]"), {"axis": -1, "epsilon": 1e-5}),
        Sample(("f32[3,2]", "f32[2]", "f32[2]"), {"axis": -1, "epsilon": 0.0}, fixed=_CONSTANT),
    ),
)
composite(
    "rms_norm",
    _rms_norm,
    (Sample(("f32[2,3,8]", "f32[8]"), {"axis": -1, "epsilon": 1e-6}),),
    singular=(
        Sample(("f32[3,2]", "f32[2]"), {"axis": -1, "epsilon": 1e-6}, fixed=_CONSTANT),
        Sample(("f32[3,2]", "f32[2]"), {"axis": -1, "epsilon": 0.0}, fixed=_CONSTANT),
    ),
)


def _batch_norm(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """Channels are axis 1. Inference: y = x * s + t with one s and t a channel. Training: statistics of the batch,
    and new running ones (unbiased variance, as PyTorch keeps them)."""
    x, scale, bias, mean, variance = inputs
    epsilon = float(attrs["epsilon"])
    axes = [axis for axis in range(x.type.rank) if axis != 1]
    aligned = [x.type.shape[1] if axis == 1 else 1 for axis in range(x.type.rank)]
    if not attrs["training"]:
        s = e.mul(scale, e.op("rsqrt", e.add(variance, epsilon)))
        t = e.sub(bias, e.mul(mean, s))
        return [e.add(e.mul(x, e.reshape(s, aligned)), e.reshape(t, aligned))]
    count = x.type.size // x.type.shape[1]
    batch_mean = e.mean(x, axes)
    centred = e.sub(x, batch_mean)
    batch_variance = e.mean(e.mul(centred, centred), axes)
    normal = e.mul(centred, e.op("rsqrt", e.add(batch_variance, epsilon)))
    y = e.add(e.mul(normal, e.reshape(scale, aligned)), e.reshape(bias, aligned))
    keep, momentum = 1.0 - float(attrs["momentum"]), float(attrs["momentum"])
    unbiased = momentum * count / max(1, count - 1)
    new_mean = e.add(e.mul(mean, keep), e.mul(e.reshape(batch_mean, mean.type.shape), momentum))
    new_variance = e.add(e.mul(variance, keep), e.mul(e.reshape(batch_variance, variance.type.shape), unbiased))
    return [y, new_mean, new_variance]


_BN = {"epsilon": 1e-3, "momentum": 0.1}
composite(
    "batch_norm",
    _batch_norm,
    tuple(
        Sample((f"f32[{shape}]", *["f32[3]"] * 4), {**_BN, "training": training}, low=0.2)
        for shape in ("2,3,4,5", "6,3")
        for training in (False, True)
    ),
    singular=tuple(
        Sample(
            ("f32[2,3]", *["f32[3]"] * 4),
            {**_BN, "training": training},
            fixed=((0, (0.0, 2.0, 1.0, 0.0, 2.0, 3.0)), (4, (0.0, 1.0, 2.0))),
        )
        for training in (False, True)
    ),
    running=(3, 4),
)


def _gelu(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    (x,) = inputs
    if attrs["approximate"] == "tanh":
        inner = e.mul(math.sqrt(2 / math.pi), e.add(x, e.mul(0.044715, e.mul(x, e.mul(x, x)))))
        gate = e.op("tanh", inner)
    else:
        gate = e.op("erf", e.mul(x, math.sqrt(0.5)))
    return [e.mul(e.mul(x, 0.5), e.add(gate, 1.0))]


def _silu(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    return [e.mul(inputs[0], e.op("sigmoid", inputs[0]))]


def _silu_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """s (1 + x (1 - s)) with s = sigmoid(x): one factor, so that an infinite gradient stays one at x = 0."""
    (x,) = node.inputs
    s = e.op("sigmoid", x)
    return e.mul(dys[0], e.mul(s, e.add(e.mul(x, e.sub(1.0, s)), 1.0)))


_SATURATED = ((0, (0.0, -0.0, 20.0, -20.0, 88.5, -88.5, 1e4, -1e4)),)
composite(
    "gelu",
    _gelu,
    tuple(Sample(("f32[3,17]",), {"approximate": a}) for a in ("none", "tanh")),
    singular=tuple(Sample(("f32[8]",), {"approximate": a}, fixed=_SATURATED) for a in ("none", "tanh")),
)
composite("silu", _silu, (Sample(("f32[3,17]",)),), [_silu_vjp], singular=(Sample(("f32[8]",), fixed=_SATURATED),))


def _softplus(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    (x,) = inputs  # max(x, 0) + log(1 + exp(-|x|)), which does not overflow
    tail = e.op("log", e.add(e.op("exp", e.op("neg", e.op("abs", x))), 1.0))
    return [e.add(e.op("clip", x, lo=0.0, hi=math.inf), tail)]


composite(
    "softplus",
    _softplus,
    (Sample(("f32[3,17]",)),),
    [lambda e, node, dys: e.mul(dys[0], e.op("sigmoid", node.inputs[0]))],
    singular=(Sample(("f32[8]",), fixed=_SATURATED),),
)

# x, of which autodiff sees no further: `torch.Tensor.detach`, `jax.lax.stop_gradient`, `tf.stop_gradient`.
composite(
    "stop_gradient",
    lambda e, inputs, attrs: inputs,
    (Sample(("f32[3,5]",)), Sample(("i64[4]",))),
    [None],
    singular=MOVES,
)
# x, whose gradient goes to the second operand instead: Bengio et al., arXiv 1308.3432.
composite(
    "straight_through",
    lambda e, inputs, attrs: inputs[:1],
    (Sample(("f32[3,5]", "f32[3,5]")),),
    [None, lambda e, node, dys: dys[0]],
    singular=MOVES,
)
