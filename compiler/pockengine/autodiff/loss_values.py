"""From loss terms to numbers: the scalar that is trained on, and the means of each sample that evaluation reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir import DType, Value
from ..ops import Emitter
from .loss_terms import Term


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
    batch = term.losses.type.shape[0]
    positions = term.losses.type.size // batch
    sample_loss, weight = _sample_means(e, term.losses, term.weights)
    if sample_weight is not None:
        weight = e.mul(weight, sample_weight)
        loss = _ratio(e, _total(e, e.mul(sample_loss, weight)), _total(e, weight))
    elif term.weights is None:
        loss = e.mul(_total(e, term.losses), 1.0 / term.losses.type.size)
    else:
        count = _times(e, _total(e, term.weights), _repeats(term.losses, term.weights))
        loss = _ratio(e, _total(e, term.losses), count)
    if term.right is None:
        return LossValues(loss, sample_loss, weight, positions=positions)
    correct, counted = _sample_means(e, term.right, term.answered)
    if sample_weight is not None:
        counted = e.mul(counted, sample_weight)
    return LossValues(loss, sample_loss, weight, correct, counted, positions)


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


def _sample_means(e: Emitter, x: Value, weights: Value | None) -> tuple[Value, Value]:
    """The weighted mean of x [batch, ...] within each sample, and the sum of its weights; both [batch]. x is weighted
    already."""
    batch = x.type.shape[0]
    if weights is None:
        positions = x.type.size // batch
        mean = _times(e, _sums(e, x), 1.0 / positions)
        return mean, e.broadcast_to(e.const(float(positions), DType.F32), (batch,))
    weight = _times(e, _sums(e, weights), _repeats(x, weights))
    return _ratio(e, _sums(e, x), weight), weight


def _repeats(x: Value, weights: Value) -> int:
    """How many positions share one weight."""
    return x.type.size // weights.type.size


def _sums(e: Emitter, x: Value) -> Value:
    """[batch, ...] -> [batch]."""
    return e.sum(x, range(1, x.type.rank), keepdims=False) if x.type.rank > 1 else x


def _total(e: Emitter, x: Value) -> Value:
    return e.sum(x, range(x.type.rank), keepdims=False)


def _ratio(e: Emitter, a: Value, b: Value) -> Value:
    """a / b, and 0 / 0 = 0: weights are not negative, so nothing has been summed where b is 0."""
    return e.div(a, e.where(e.less(0.0, b), b, 1.0))


def _times(e: Emitter, x: Value, factor: float) -> Value:
    return x if factor == 1 else e.mul(x, factor)


def _added(e: Emitter, values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = e.add(total, value)
    return total
