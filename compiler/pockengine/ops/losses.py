"""Losses. Each composite gives one number per position; `build` reduces them to the scalar that is trained on and to
the per-sample loss and accuracy that evaluation reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..ir import Attrs, DType, Node, TensorType, Value
from .composites import composite
from .emitter import Emitter
from .registry import Sample

IGNORE = -100
"""Labels with this value do not count (PyTorch's default `ignore_index`)."""


def _one_hot(e: Emitter, labels: Value, classes: int) -> Value:
    iota = e.const(np.arange(classes, dtype=np.int64))
    column = e.reshape(e.cast(labels, DType.I64), (*labels.type.shape, 1))
    return e.op("equal", iota, column)


def _cross_entropy(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """logits [..., classes], labels [...] -> -log p(label) [...], 0 where the label is IGNORE."""
    logits, labels = inputs
    log_p = e.op("log_softmax", logits, axis=-1)
    picked = e.where(_one_hot(e, labels, logits.type.shape[-1]), log_p, 0.0)
    return [e.reshape(e.op("neg", e.sum(picked, [-1])), labels.type.shape)]


def _counted(e: Emitter, labels: Value) -> Value:
    """1.0 where a label counts, 0.0 where it is IGNORE."""
    ignored = e.op("equal", labels, e.const(IGNORE, labels.type.dtype))
    return e.cast(e.op("logical_not", ignored), DType.F32)


def _cross_entropy_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    """softmax - one_hot, from the logits alone."""
    logits, labels = node.inputs
    column = (*labels.type.shape, 1)
    counted = e.cast(e.reshape(_counted(e, labels), column), logits.type.dtype)
    one_hot = e.cast(_one_hot(e, labels, logits.type.shape[-1]), logits.type.dtype)
    slope = e.sub(e.mul(e.op("softmax", logits, axis=-1), counted), one_hot)
    return e.mul(slope, e.reshape(dys[0], column))


composite(
    "cross_entropy",
    _cross_entropy,
    (Sample(("f32[4,7]", "i64[4]"), ints=7), Sample(("f32[2,3,19]", "i64[2,3]"), ints=19)),
    [_cross_entropy_vjp, None],
)


def _squared_error(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    difference = e.sub(inputs[0], inputs[1])
    return [e.mul(difference, difference)]


composite("squared_error", _squared_error, (Sample(("f32[4,7]", "f32[4,7]")),))


def _bce(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """max(x, 0) - x t + log(1 + exp(-|x|)), which does not overflow."""
    x, t = inputs
    tail = e.op("log", e.add(e.op("exp", e.op("neg", e.op("abs", x))), 1.0))
    return [e.add(e.sub(e.op("clip", x, lo=0.0, hi=math.inf), e.mul(x, t)), tail)]


def _bce_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return e.mul(e.sub(e.op("sigmoid", node.inputs[0]), node.inputs[1]), dys[0])


def _bce_target_vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
    return e.op("neg", e.mul(node.inputs[0], dys[0]))


composite("bce_with_logits", _bce, (Sample(("f32[4,7]", "f32[4,7]")),), [_bce_vjp, _bce_target_vjp])


@dataclass(frozen=True)
class LossValues:
    """loss: scalar. sample_loss: [batch]. correct: [batch] share of right answers, None where that means nothing."""

    loss: Value
    sample_loss: Value
    correct: Value | None


@dataclass(frozen=True)
class LossSpec:
    """labels: the type of the labels for an output type (leading axis the batch). build: emits the loss."""

    labels: Callable[[TensorType], TensorType]
    build: Callable[[Emitter, Value, Value], LossValues]


def _per_sample(e: Emitter, x: Value) -> Value:
    axes = list(range(1, x.type.rank))
    return e.reshape(e.mean(x, axes) if axes else x, (x.type.shape[0],))


def _mean(e: Emitter, x: Value) -> Value:
    return e.reshape(e.mean(x, list(range(x.type.rank))), ())


def _classified(e: Emitter, logits: Value, labels: Value) -> LossValues:
    losses = e.op("cross_entropy", logits, labels)
    counted = _counted(e, labels)
    total, count = e.sum(losses, list(range(losses.type.rank))), e.sum(counted, list(range(losses.type.rank)))
    best = e.reshape(e.op("argmax", logits, axis=logits.type.rank - 1), labels.type.shape)
    right = e.cast(e.op("equal", best, e.cast(labels, DType.I64)), DType.F32)
    per_sample = e.sum(counted, list(range(1, counted.type.rank))) if counted.type.rank > 1 else counted
    ratio = e.maximum(per_sample, 1.0)

    def average(x: Value) -> Value:
        summed = e.sum(x, list(range(1, x.type.rank))) if x.type.rank > 1 else x
        return e.reshape(e.div(summed, ratio), (x.type.shape[0],))

    return LossValues(e.reshape(e.div(total, e.maximum(count, 1.0)), ()), average(losses), average(right))


def _causal(e: Emitter, logits: Value, labels: Value) -> LossValues:
    """Position t predicts label t + 1."""
    batch, time, classes = logits.type.shape
    head = e.op("slice", logits, starts=(0, 0, 0), stops=(batch, time - 1, classes), steps=(1, 1, 1))
    return _classified(e, head, e.op("slice", labels, starts=(0, 1), stops=(batch, time), steps=(1, 1)))


def _regression(e: Emitter, output: Value, target: Value) -> LossValues:
    losses = e.op("squared_error", output, target)
    return LossValues(_mean(e, losses), _per_sample(e, losses), None)


def _binary(e: Emitter, output: Value, target: Value) -> LossValues:
    losses = e.op("bce_with_logits", output, target)
    agree = e.op("equal", e.less(0.0, output), e.less(0.5, target))
    return LossValues(_mean(e, losses), _per_sample(e, losses), _per_sample(e, e.cast(agree, DType.F32)))


LOSSES: dict[str, LossSpec] = {
    "cross_entropy": LossSpec(lambda t: TensorType(DType.I64, t.shape[:-1]), _classified),
    "causal_lm": LossSpec(lambda t: TensorType(DType.I64, t.shape[:-1]), _causal),
    "mse": LossSpec(lambda t: t, _regression),
    "bce_with_logits": LossSpec(lambda t: t, _binary),
}
"""Recipe name -> loss."""
