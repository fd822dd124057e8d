"""A recipe's losses in PyTorch, from PyTorch's own functions. Written beside the compiler's losses, not from them: they
are what those are compared with. Imported only where PyTorch is."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from ...errors import RecipeError
from ...recipe import Recipe
from ...recipe.losses.kinds import FROZEN, KL, L1, MSE, BCEWithLogits, CausalLM, Classification, Huber, Loss, OwnLoss
from ...recipe.losses.own import LossGraph

Tensors = Mapping[str, Tensor]


def has_own_teacher(recipe: Recipe) -> bool:
    """Whether a loss may go against the model as it was before training."""
    return any(isinstance(loss, KL) and loss.against == FROZEN for loss in recipe.loss)


def objective(recipe: Recipe, outputs: Tensors, feeds: Tensors, before: Tensors | None = None) -> Tensor:
    """The weighted sum of a recipe's losses: a scalar.

    outputs  what the model returned, by the compiler's names
    feeds    the batch: inputs and targets, and `sample_weight` where the recipe has one
    before   what the model returned before it was trained; None: `outputs`"""
    teacher = outputs if before is None else before
    sample_weight = feeds["sample_weight"] if recipe.last_batch == "partial" else None
    parts = [loss.weight * _value(loss, outputs, feeds, sample_weight, teacher) for loss in recipe.loss]
    return torch.stack(parts).sum()


def refuse_unmirrored(recipe: Recipe) -> None:
    """Raise RecipeError for a loss that this module cannot compute."""
    for loss in recipe.loss:
        if isinstance(loss, LossGraph) and loss.function is None:
            raise RecipeError(
                f"{loss.called} is an ONNX file, which PyTorch cannot compute: to verify, give it as a Python function"
            )


def _value(loss: Loss, outputs: Tensors, feeds: Tensors, sample_weight: Tensor | None, teacher: Tensors) -> Tensor:
    if isinstance(loss, LossGraph):
        return _own_function(loss, outputs, feeds, sample_weight)
    output = outputs[loss.pick_output(outputs)]
    output = output.float() if output.dtype in (torch.float16, torch.bfloat16) else output
    if isinstance(loss, OwnLoss):
        return output.reshape(())
    if isinstance(loss, KL) and loss.is_own_teacher(outputs):
        target = teacher[loss.pick_output(outputs)].detach()
    else:
        against = loss.pick_teacher(outputs) if isinstance(loss, KL) else None
        target = outputs[against].detach() if against else feeds[str(loss.target)]
    mask = feeds[loss.mask].to(output.dtype) if loss.mask else output.new_ones(())
    losses, weights = _term(loss, output, target, mask)
    return _mean(losses, weights, sample_weight)


def _mean(losses: Tensor, weights: Tensor, sample_weight: Tensor | None) -> Tensor:
    """The sum of the losses by that of their weights; 0 where nothing counts."""
    if sample_weight is not None:
        of_sample = sample_weight.to(losses.dtype).reshape(-1, *[1] * (losses.ndim - 1))
        losses, weights = losses * of_sample, weights * of_sample
    total = weights.sum()
    return losses.sum() / torch.where(total == 0, torch.ones_like(total), total)


def _own_function(loss: LossGraph, outputs: Tensors, feeds: Tensors, sample_weight: Tensor | None) -> Tensor:
    assert loss.function is not None and loss.inputs is not None
    read = [outputs[name] if name in outputs else feeds[name] for name in loss.inputs]
    result: Tensor = loss.function(*read)
    if not result.ndim or sample_weight is None:
        return result.mean()
    return _mean(result, torch.ones_like(result), sample_weight)


def _term(loss: Loss, output: Tensor, target: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """What each position loses, and what it counts in the mean."""
    if isinstance(loss, CausalLM):
        shifted = mask[:, 1:] if mask.ndim > 1 else mask
        return _classified(loss, output[:, :-1], target[:, 1:], shifted)
    if isinstance(loss, Classification):
        return _classified(loss, output if getattr(loss, "axis", -1) == -1 else output.movedim(1, -1), target, mask)
    match loss:
        case KL():
            student, teacher = (
                (x if loss.axis == -1 else x.movedim(1, -1)) / loss.temperature for x in (output, target)
            )
            log_q, p = functional.log_softmax(student, -1), functional.softmax(teacher, -1)
            losses = loss.temperature**2 * functional.kl_div(log_q, p, reduction="none").sum(-1)
        case BCEWithLogits():
            losses = functional.binary_cross_entropy_with_logits(
                output, target.to(output.dtype), pos_weight=_pos_weight(loss, output), reduction="none"
            )
        case MSE():
            losses = functional.mse_loss(output, target.to(output.dtype), reduction="none")
        case L1():
            losses = functional.l1_loss(output, target.to(output.dtype), reduction="none")
        case Huber():
            losses = functional.huber_loss(output, target.to(output.dtype), delta=loss.delta, reduction="none")
        case _:
            raise RecipeError(f"the loss '{loss.name}' has no counterpart in PyTorch to verify it with")
    weights = _aligned(mask, losses)
    return losses * weights, weights


def _classified(loss: Classification, scores: Tensor, target: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Scores [..., classes], targets [...]."""
    classes = scores.shape[-1]
    weight = None if loss.class_weights is None else scores.new_tensor(loss.class_weights)
    losses = functional.cross_entropy(
        scores.reshape(-1, classes),
        target.reshape(-1).long(),
        weight=weight,
        ignore_index=loss.ignore_index,
        label_smoothing=loss.label_smoothing,
        reduction="none",
    ).reshape(target.shape)
    counted = (target != loss.ignore_index) * _aligned(mask, losses)
    weights = counted if weight is None else counted * weight[target.clamp(0, classes - 1).long()]
    return losses * counted, weights


def _pos_weight(loss: BCEWithLogits, output: Tensor) -> Tensor | None:
    if loss.pos_weight is None:
        return None
    weight = output.new_tensor(loss.pos_weight)
    return weight.reshape(-1, *[1] * (output.ndim - 1 - loss.axis % output.ndim)) if weight.ndim else weight


def _aligned(mask: Tensor, losses: Tensor) -> Tensor:
    """The mask over the first axes of the losses."""
    return mask.reshape(mask.shape + (1,) * (losses.ndim - mask.ndim)).expand_as(losses)
