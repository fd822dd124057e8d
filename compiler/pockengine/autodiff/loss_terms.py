"""Each loss of a recipe as a term: what every position loses and how much it counts in the mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import RecipeError
from ..ir import DType, TensorType, Value
from ..ops import Emitter
from ..ops.losses import counted
from ..recipe.losses.kinds import KL, BCEWithLogits, Classification, CrossEntropy, Huber, Loss


@dataclass(frozen=True)
class Term:
    """One loss, position by position; f32 [batch, ...].

    losses    what each position loses, 0 where it does not count
    weights   what it counts in the mean; None: 1
    right     1 where the model's answer is right; None where that means nothing
    answered  what it counts in the accuracy; None: 1
    stray     whether a position of weight 0 may lose something: classes of weight 0 with label smoothing"""

    losses: Value
    weights: Value | None = None
    right: Value | None = None
    answered: Value | None = None
    stray: bool = False


@dataclass(frozen=True)
class TermRule:
    """target: the type of the target for an output type; RecipeError where the loss cannot read such an output.
    build: (emitter, loss, output, target, mask or None) -> term; the mask is f32 [batch, ...]."""

    target: Callable[[Loss, TensorType], TensorType]
    build: Callable[[Emitter, Loss, Value, Value, Value | None], Term]


def mask_shape(loss: Loss, output: TensorType) -> tuple[int, ...]:
    """Of a mask that the model does not have: [batch, time] for [batch, time, features], one for each label of a
    classification, else [batch]."""
    if isinstance(loss, Classification | KL):
        return _without_classes(loss, output)
    return output.shape[:2] if output.rank == 3 else output.shape[:1]


def maskable(loss: Loss, output: TensorType) -> tuple[int, ...]:
    """The axes that a mask may lie over, or the first few of them: the output's without the classes."""
    return _without_classes(loss, output) if isinstance(loss, Classification | KL) else output.shape


def _masked(e: Emitter, x: Value, mask: Value | None) -> Value:
    return x if mask is None else e.mul(x, _aligned(e, mask, x.type.rank))


def _aligned(e: Emitter, mask: Value, rank: int) -> Value:
    return e.reshape(mask, mask.type.shape + (1,) * (rank - mask.type.rank))


def _axis(loss: Loss) -> int:
    return int(getattr(loss, "axis", -1))


def _without_classes(loss: Loss, output: TensorType) -> tuple[int, ...]:
    axis = _axis(loss) % output.rank
    return output.shape[:axis] + output.shape[axis + 1 :]


def _classes_last(e: Emitter, loss: Loss, x: Value) -> Value:
    axis = _axis(loss) % x.type.rank
    return e.transpose(x, [*(i for i in range(x.type.rank) if i != axis), axis])


# cross_entropy and causal_lm


def _labels_type(loss: Loss, output: TensorType) -> TensorType:
    assert isinstance(loss, Classification)
    if isinstance(loss, CrossEntropy) and output.rank < 2:
        raise RecipeError(f"cross_entropy reads scores [batch, ..., classes], and the output is {output}")
    if not isinstance(loss, CrossEntropy) and (output.rank != 3 or output.shape[1] < 2):
        raise RecipeError(f"causal_lm reads scores [batch, time, vocabulary], and the output is {output}")
    classes = output.shape[_axis(loss)]
    if loss.class_weights is not None and len(loss.class_weights) != classes:
        raise RecipeError(f"class_weights has {len(loss.class_weights)} numbers, and the model has {classes} classes")
    return TensorType(DType.I64, _without_classes(loss, output))


def _cross_entropy(e: Emitter, loss: Loss, output: Value, labels: Value, mask: Value | None) -> Term:
    assert isinstance(loss, Classification)
    logits = _classes_last(e, loss, output)
    classes, ignored = logits.type.shape[-1], loss.ignore_index
    inputs = [logits, labels]
    if loss.class_weights is not None:
        inputs.append(e.const(np.asarray(loss.class_weights, np.float32)))
    losses = e.op("cross_entropy", *inputs, label_smoothing=loss.label_smoothing, ignore_index=ignored)
    answered = weights = _masked(e, counted(e, labels, ignored), mask)
    if loss.class_weights is not None:
        known = e.op("minimum", e.maximum(labels, 0), e.const(classes - 1, labels.type.dtype))
        weights = e.mul(answered, e.op("gather", inputs[2], known, axis=0))
    best = e.reshape(e.op("argmax", logits, axis=logits.type.rank - 1), labels.type.shape)
    right = e.cast(e.op("equal", best, e.cast(labels, DType.I64)), DType.F32)
    if mask is not None or 0 <= ignored < classes:
        right = e.mul(right, answered)
    stray = loss.label_smoothing > 0 and loss.class_weights is not None and 0 in loss.class_weights
    return Term(_masked(e, losses, mask), weights, right, answered, stray)


def _causal_lm(e: Emitter, loss: Loss, output: Value, labels: Value, mask: Value | None) -> Term:
    """Position t predicts label t + 1, and counts as label t + 1 does. The last position gets a label that is ignored
    and is left out afterwards: the scores themselves, which are large, are not sliced."""
    assert isinstance(loss, Classification)
    batch, time, _ = output.type.shape

    def following(x: Value, last: float) -> Value:
        rest = e.op("slice", x, starts=(0, 1), stops=(batch, time), steps=(1, 1))
        return e.op("pad", rest, low=(0, 0), high=(0, 1), interior=(0, 0), value=last)

    def leading(x: Value | None) -> Value | None:
        return None if x is None else e.op("slice", x, starts=(0, 0), stops=(batch, time - 1), steps=(1, 1))

    shifted = following(mask, 0.0) if mask is not None and mask.type.rank > 1 else mask
    term = _cross_entropy(e, loss, output, following(labels, loss.ignore_index), shifted)
    losses = leading(term.losses)
    assert losses is not None
    return Term(losses, leading(term.weights), leading(term.right), leading(term.answered), term.stray)


# losses of two tensors of the same shape


def _same_type(loss: Loss, output: TensorType) -> TensorType:
    if not output.rank:
        raise RecipeError(f"{loss.name} reads an output whose first axis is the batch, and the output is a scalar")
    return TensorType(DType.F32, output.shape)


def _regression(op: str) -> Callable[[Emitter, Loss, Value, Value, Value | None], Term]:
    def build(e: Emitter, loss: Loss, output: Value, target: Value, mask: Value | None) -> Term:
        attrs = {"delta": loss.delta} if isinstance(loss, Huber) else {}
        losses = e.op(op, output, target, **attrs)
        return Term(_masked(e, losses, mask), mask)

    return build


def _scores_type(loss: Loss, output: TensorType) -> TensorType:
    assert isinstance(loss, BCEWithLogits)
    wanted = _same_type(loss, output)
    if isinstance(loss.pos_weight, tuple) and len(loss.pos_weight) != output.shape[_axis(loss)]:
        found = output.shape[_axis(loss)]
        raise RecipeError(f"pos_weight has {len(loss.pos_weight)} numbers, and the model has {found} classes")
    return wanted


def _binary(e: Emitter, loss: Loss, output: Value, target: Value, mask: Value | None) -> Term:
    assert isinstance(loss, BCEWithLogits)
    inputs = [output, target]
    if loss.pos_weight is not None:
        weight = np.asarray(loss.pos_weight, np.float32)
        after = output.type.rank - 1 - _axis(loss) % output.type.rank
        inputs.append(e.const(weight.reshape(-1, *[1] * after) if weight.ndim else weight))
    agree = e.op("equal", e.less(0.0, output), e.less(0.5, target))
    right = _masked(e, e.cast(agree, DType.F32), mask)
    return Term(_masked(e, e.op("bce_with_logits", *inputs), mask), mask, right, mask)


def _classes_type(loss: Loss, output: TensorType) -> TensorType:
    if output.rank < 2:
        raise RecipeError(f"kl reads scores [batch, ..., classes], and the output is {output}")
    return TensorType(DType.F32, output.shape)


def _kl(e: Emitter, loss: Loss, output: Value, target: Value, mask: Value | None) -> Term:
    assert isinstance(loss, KL)
    student, teacher = (_classes_last(e, loss, x) for x in (output, target))
    losses = e.op("kl_divergence", student, teacher, temperature=loss.temperature)
    return Term(_masked(e, losses, mask), mask)


RULES: dict[str, TermRule] = {
    "cross_entropy": TermRule(_labels_type, _cross_entropy),
    "causal_lm": TermRule(_labels_type, _causal_lm),
    "bce_with_logits": TermRule(_scores_type, _binary),
    "mse": TermRule(_same_type, _regression("squared_error")),
    "l1": TermRule(_same_type, _regression("absolute_error")),
    "huber": TermRule(_same_type, _regression("huber_error")),
    "kl": TermRule(_classes_type, _kl),
}
"""By the loss's name in the recipe; the model's own loss has no positions and no rule."""
