"""Losses as composites: each gives one number per position (`autodiff/loss_terms.py` makes means of them). Those with a
gradient of their own have none for the target, but for the binary ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir import Attrs, DType, Node, Value
from .composites import composite
from .emitter import Emitter
from .registry import Indices, Sample


def one_hot(e: Emitter, labels: Value, classes: int) -> Value:
    """labels [...] -> bool [..., classes]; all false for a label outside 0..classes-1."""
    iota = e.const(np.arange(classes, dtype=np.int64))
    column = e.reshape(e.cast(labels, DType.I64), (*labels.type.shape, 1))
    return e.op("equal", iota, column)


def counted(e: Emitter, labels: Value, ignore_index: int) -> Value:
    """1.0 where a label counts, 0.0 where it is `ignore_index`."""
    ignored = e.op("equal", labels, e.const(ignore_index, labels.type.dtype))
    return e.cast(e.op("logical_not", ignored), DType.F32)


def _class_shares(e: Emitter, inputs: Sequence[Value], smoothing: float) -> tuple[Value | float, Value | float]:
    """How much -log p of a class counts: where it is the label's class, and where it is another."""
    spread = smoothing / inputs[0].type.shape[-1]
    hit, miss = 1.0 - smoothing + spread, spread
    if len(inputs) < 3:
        return hit, miss
    weights = inputs[2]
    return (e.mul(weights, hit) if smoothing else weights), (e.mul(weights, miss) if smoothing else 0.0)


def _must_mask(logits: Value, attrs: Attrs) -> bool:
    """Whether an ignored label would count if nothing were done: its one-hot row is not all that is summed, or not
    zero."""
    return float(attrs["label_smoothing"]) > 0 or 0 <= int(attrs["ignore_index"]) < logits.type.shape[-1]


def _cross_entropy(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """logits [..., classes], labels [...], optionally a weight for each class -> [...], 0 where the label is ignored.

    -(1 - s) w[label] log p[label] - s / classes * sum of w[c] log p[c], with s the label smoothing (as PyTorch's
    cross_entropy without reduction)."""
    logits, labels = inputs[:2]
    hit, miss = _class_shares(e, inputs, float(attrs["label_smoothing"]))
    log_p = e.op("log_softmax", logits, axis=-1)
    here = log_p if hit == 1.0 else e.mul(log_p, hit)
    elsewhere = 0.0 if miss == 0.0 else e.mul(log_p, miss)
    picked = e.where(one_hot(e, labels, logits.type.shape[-1]), here, elsewhere)
    losses = e.reshape(e.op("neg", e.sum(picked, [-1])), labels.type.shape)
    if _must_mask(logits, attrs):
        losses = e.mul(losses, e.cast(counted(e, labels, int(attrs["ignore_index"])), logits.type.dtype))
    return [losses]


def _cross_entropy_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """softmax * (sum of shares) - shares, from the logits alone; softmax - one_hot in the plain case."""
    logits, labels = node.inputs[:2]
    dtype, column = logits.type.dtype, (*labels.type.shape, 1)
    hit, miss = _class_shares(e, node.inputs, float(node.attrs["label_smoothing"]))
    counts = e.cast(e.reshape(counted(e, labels, int(node.attrs["ignore_index"])), column), dtype)
    matches = one_hot(e, labels, logits.type.shape[-1])
    if hit == 1.0:
        shares = e.cast(matches, dtype)
    else:
        shares = e.where(matches, *(e.scalar(x, logits) if isinstance(x, float) else x for x in (hit, miss)))
    if _must_mask(logits, node.attrs):
        shares = e.mul(shares, counts)
    total = e.sum(shares, [-1]) if len(node.inputs) > 2 else counts
    slope = e.sub(e.mul(e.op("softmax", logits, axis=-1), total), shares)
    return e.mul(slope, e.reshape(dys[0], column))


_PLAIN: Attrs = {"label_smoothing": 0.0, "ignore_index": -100}
_PAIR = ("f32[4,3]", "i64[4]")
_EXTREME = (1000.0, 0.0, -1000.0, 0.0, 0.0, 0.0, 1e30, 0.0, -1e30, 100.0, 100.0, 0.0)
_WEIGHTED = ("f32[2,3,5]", "i64[2,3]", "f32[5]")
composite(
    "cross_entropy",
    _cross_entropy,
    (
        Sample(("f32[4,7]", "i64[4]"), {"label_smoothing": 0.0, "ignore_index": -100}, ints=7),
        Sample(("f32[2,3,19]", "i64[2,3]"), {"label_smoothing": 0.0, "ignore_index": -100}, ints=19),
        Sample(("f32[2,3,5]", "i64[2,3]"), {"label_smoothing": 0.1, "ignore_index": 2}, ints=5),
        Sample(_WEIGHTED, {"label_smoothing": 0.0, "ignore_index": 2}, ints=5),
        Sample(_WEIGHTED, {"label_smoothing": 0.2, "ignore_index": -100}, ints=5),
    ),
    [_cross_entropy_vjp, None, None],
    singular=(
        Sample(_PAIR, _PLAIN, fixed=((0, _EXTREME), (1, (0, 1, -100, 2)))),
        Sample(_PAIR, _PLAIN, fixed=((1, (-100,) * 4),)),
        Sample(_PAIR, {"label_smoothing": 0.1, "ignore_index": 2}, fixed=((0, _EXTREME[:3] * 4), (1, (2,) * 4))),
        Sample(_PAIR, _PLAIN, fixed=((0, (-math.inf, 0.0, 0.0) * 4), (1, (0, 1, 1, 2)))),
    ),
    indices=Indices(1, lambda n: n.inputs[0].type.shape[-1], ignored="ignore_index"),
)


def _kl_divergence(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """student, teacher: logits [..., classes] -> T^2 * KL(softmax(teacher / T) || softmax(student / T)) [...]
    (Hinton et al. 2015)."""
    temperature = float(attrs["temperature"])
    student, teacher = (e.mul(x, 1.0 / temperature) if temperature != 1.0 else x for x in inputs)
    log_p, log_q = (e.op("log_softmax", x, axis=-1) for x in (teacher, student))
    divergence = e.sum(e.mul(e.op("exp", log_p), e.sub(log_p, log_q)), [-1])
    scaled = e.mul(divergence, temperature**2) if temperature != 1.0 else divergence
    return [e.reshape(scaled, inputs[0].type.shape[:-1])]


def _kl_divergence_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """T * (softmax(student / T) - softmax(teacher / T)); the teacher gets no gradient."""
    temperature = float(node.attrs["temperature"])
    scaled = [e.mul(x, 1.0 / temperature) if temperature != 1.0 else x for x in node.inputs]
    student, teacher = (e.op("softmax", x, axis=-1) for x in scaled)
    slope = e.sub(student, teacher)
    slope = e.mul(slope, temperature) if temperature != 1.0 else slope
    return e.mul(slope, e.reshape(dys[0], (*dys[0].type.shape, 1)))


composite(
    "kl_divergence",
    _kl_divergence,
    (
        Sample(("f32[4,7]", "f32[4,7]"), {"temperature": 1.0}),
        Sample(("f32[2,3,19]", "f32[2,3,19]"), {"temperature": 2.5}),
    ),
    [_kl_divergence_vjp, None],
    singular=(
        Sample(
            ("f32[4,3]", "f32[4,3]"),
            {"temperature": 1.0},
            fixed=((0, _EXTREME), (1, (0.0, 0.0, 0.0, 50.0, 0.0, -50.0, 1e30, 0.0, -1e30, 0.0, 0.0, 0.0))),
        ),
    ),
)


def _squared_error(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    difference = e.sub(inputs[0], inputs[1])
    return [e.mul(difference, difference)]


_MET = ((0, (0.0, 1.0, 2.0, -1.0, 1e30)), (1, (0.0, 0.0, 1.0, 0.0, 0.0)))
"""Where both are equal, or as far apart as a knee is."""
composite(
    "squared_error",
    _squared_error,
    (Sample(("f32[4,7]", "f32[4,7]")),),
    singular=(Sample(("f32[5]", "f32[5]"), fixed=_MET),),
)


def _absolute_error(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    return [e.op("abs", e.sub(inputs[0], inputs[1]))]


composite(
    "absolute_error",
    _absolute_error,
    (Sample(("f32[4,7]", "f32[4,7]")),),
    singular=(Sample(("f32[5]", "f32[5]"), fixed=_MET),),
)


def _huber_error(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """d^2 / 2 for |d| <= delta, beyond it delta (|d| - delta / 2)."""
    distance = e.op("abs", e.sub(inputs[0], inputs[1]))
    near = e.op("clip", distance, lo=-math.inf, hi=float(attrs["delta"]))
    return [e.mul(near, e.sub(distance, e.mul(near, 0.5)))]


def _huber_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    delta = float(node.attrs["delta"])
    return e.mul(e.op("clip", e.sub(node.inputs[0], node.inputs[1]), lo=-delta, hi=delta), dys[0])


composite(
    "huber_error",
    _huber_error,
    tuple(Sample(("f32[4,7]", "f32[4,7]"), {"delta": delta}) for delta in (1.0, 0.3)),
    [_huber_vjp, None],
    singular=(Sample(("f32[5]", "f32[5]"), {"delta": 1.0}, fixed=_MET),),
)


def _bce(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """scores x, probabilities t, optionally a weight of the positive answers that broadcasts to them:
    (1 - t) log(1 + exp(x)) + pos_weight t log(1 + exp(-x)), written so that it does not overflow."""
    x, t = inputs[:2]
    tail = e.op("log", e.add(e.op("exp", e.op("neg", e.op("abs", x))), 1.0))
    above = e.op("clip", x, lo=0.0, hi=math.inf)
    if len(inputs) < 3:
        return [e.add(e.sub(above, e.mul(x, t)), tail)]
    wrong = e.mul(e.sub(1.0, t), e.add(above, tail))
    right = e.mul(e.mul(inputs[2], t), e.add(e.sub(above, x), tail))
    return [e.add(wrong, right)]


def _bce_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """sigmoid(x) - t; with a weight (1 - t) sigmoid(x) - pos_weight t (1 - sigmoid(x))."""
    x, t = node.inputs[:2]
    p = e.op("sigmoid", x)
    if len(node.inputs) < 3:
        return e.mul(e.sub(p, t), dys[0])
    right = e.mul(e.mul(node.inputs[2], t), e.sub(1.0, p))
    return e.mul(e.sub(e.mul(e.sub(1.0, t), p), right), dys[0])


def _bce_target(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """-x; with a weight pos_weight log(1 + exp(-x)) - log(1 + exp(x))."""
    x, t = node.inputs[:2]
    slope = e.op("neg", x)
    if len(node.inputs) > 2:
        slope = e.sub(e.mul(node.inputs[2], e.op("softplus", slope)), e.op("softplus", x))
    return e.unbroadcast(e.mul(slope, dys[0]), t.type.shape)


_SCORES = (0.0, 100.0, -100.0, 200.0, 1e10, -1e10)
_ANSWERS = (0.0, 1.0, 1.0, 0.0, 1.0, 0.0)
composite(
    "bce_with_logits",
    _bce,
    (Sample(("f32[4,7]", "f32[4,7]")), Sample(("f32[4,7]", "f32[4,7]", "f32[7]"))),
    [_bce_vjp, _bce_target, None],
    singular=(
        Sample(("f32[6]", "f32[6]"), fixed=((0, _SCORES), (1, _ANSWERS))),
        Sample(("f32[6]", "f32[6]", "f32[1]"), fixed=((0, _SCORES), (1, _ANSWERS))),
    ),
)


def _bce_of_probabilities(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """probabilities p and t: -t log(p) - (1 - t) log(1 - p), logarithms at least -100 as PyTorch bounds them."""
    p, t = inputs
    right, wrong = (e.op("clip", e.op("log", x), lo=-100.0, hi=math.inf) for x in (p, e.sub(1.0, p)))
    return [e.op("neg", e.add(e.mul(t, right), e.mul(e.sub(1.0, t), wrong)))]


def _bce_of_probabilities_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """(p - t) / (p (1 - p)), the divisor at least 1e-12."""
    p, t = node.inputs
    divisor = e.op("clip", e.mul(p, e.sub(1.0, p)), lo=1e-12, hi=math.inf)
    return e.div(e.mul(dys[0], e.sub(p, t)), divisor)


def _bce_of_probabilities_target(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    p = node.inputs[0]
    return e.mul(dys[0], e.sub(e.op("log", e.sub(1.0, p)), e.op("log", p)))


composite(
    "binary_cross_entropy",
    _bce_of_probabilities,
    (Sample(("f32[4,7]", "f32[4,7]"), low=0.1, high=0.9),),
    [_bce_of_probabilities_vjp, _bce_of_probabilities_target],
    singular=(
        Sample(("f32[6]", "f32[6]"), fixed=((0, (0.0, 1.0, 0.0, 1.0, 0.5, 1e-30)), (1, (*_ANSWERS[2:], 0.5, 0.0)))),
    ),
)
