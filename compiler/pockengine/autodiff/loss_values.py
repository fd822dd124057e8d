"""From loss terms to numbers: the scalar that is trained on, and the means of each sample that evaluation reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..ir import DType, Value
from ..ops import Emitter
from .loss_terms import Term

_LEAST = 1e-20
"""Below any sum of weights but 0, and its reciprocal times any other factor still a float."""


@dataclass(frozen=True)
class LossValues:
    """loss: scalar. The rest is f32 [batch], for evaluation.

    sample_loss  mean within the sample
    loss_weight  what that mean counts among the samples
    correct      share of right answers, None where that means nothing
    counted      what that share counts among the samples
    positions    the largest loss_weight of a sample without class weights: the number of its positions"""

    loss: Value
    sample_loss: Value
    loss_weight: Value
    correct: Value | None = None
    counted: Value | None = None
    positions: int = 1


def values_of(e: Emitter, term: Term, sample_weight: Value | None) -> LossValues:
    """The means of a term. A batch or a sample in which nothing counts has the loss 0."""
    losses = term.losses
    batch, rank = losses.type.shape[0], losses.type.rank
    if sample_weight is not None:
        sample_weight = e.reshape(sample_weight, (batch,) + (1,) * (rank - 1))
    sample_loss, weight = _means(e, losses, term.weights, range(1, rank), sample_weight, term.stray)
    if sample_weight is None:
        loss, _ = _means(e, losses, term.weights, range(rank), None, term.stray)
    else:
        loss, _ = _means(e, e.mul(sample_loss, weight), weight, range(rank), None)
    values = LossValues(
        e.reshape(loss, ()),
        e.reshape(sample_loss, (batch,)),
        e.reshape(weight, (batch,)),
        positions=losses.type.size // batch,
    )
    if term.right is None:
        return values
    correct, counted = _means(e, term.right, term.answered, range(1, rank), sample_weight)
    return replace(values, correct=e.reshape(correct, (batch,)), counted=e.reshape(counted, (batch,)))


def values_of_scalar(e: Emitter, scalar: Value, batch: int) -> LossValues:
    """A loss that the model computes itself: every sample is said to have the batch's."""
    loss = e.reshape(scalar, ())
    return LossValues(loss, e.broadcast_to(loss, (batch,)), e.broadcast_to(e.const(1.0, DType.F32), (batch,)))


def weighted_sum(e: Emitter, weights: Sequence[float], parts: Sequence[LossValues]) -> LossValues:
    """The sum of losses. Accuracy is that of the first that has one; of several losses a sample counts as the share of
    its positions that count."""
    first = next((part for part in parts if part.correct is not None), parts[0])
    loss, sample_loss = (
        _added(e, [_times(e, getattr(part, name), weight) for part, weight in zip(parts, weights, strict=True)])
        for name in ("loss", "sample_loss")
    )
    if len(parts) == 1:
        loss_weight = first.loss_weight
    else:
        shares = [_times(e, part.loss_weight, 1.0 / part.positions) for part in parts]
        loss_weight = shares[0]
        for share in shares[1:]:
            loss_weight = e.maximum(loss_weight, share)
    return LossValues(loss, sample_loss, loss_weight, first.correct, first.counted)


def _means(
    e: Emitter, x: Value, weights: Value | None, axes: Sequence[int], factor: Value | None, stray: bool = False
) -> tuple[Value, Value]:
    """The weighted mean of x over the axes, which are kept, and the sum of its weights times `factor`. x is weighted
    already; weights have its first axes. stray: as in Term."""
    summed = e.sum(x, axes)
    if weights is None:
        count = x.type.size // summed.type.size
        mean = _times(e, summed, 1.0 / count)
        weight = e.broadcast_to(e.const(float(count), DType.F32), summed.type.shape)
    else:
        repeats = x.type.size // weights.type.size
        weight = e.sum(e.reshape(weights, weights.type.shape + (1,) * (x.type.rank - weights.type.rank)), axes)
        weight = _times(e, weight, repeats)
        mean = _ratio(e, summed, weight)
        if stray:
            mean = e.where(e.less(0.0, weight), mean, 0.0)
    return mean, weight if factor is None else e.mul(weight, factor)


def _ratio(e: Emitter, a: Value, b: Value) -> Value:
    """a / b, and 0 / 0 = 0."""
    return e.div(a, e.maximum(b, _LEAST))


def _times(e: Emitter, x: Value, factor: float) -> Value:
    return x if factor == 1 else e.mul(x, factor)


def _added(e: Emitter, values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = e.add(total, value)
    return total
