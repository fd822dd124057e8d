"""The objective: the recipe's losses appended to a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import RecipeError
from ..ir import Builder, DType, Graph, TensorType, Value
from ..ops import Emitter
from ..recipe import Recipe, batch_of
from ..recipe.losses.kinds import KL, Loss, OwnLoss
from ..recipe.losses.own import LossGraph
from .augment import rolled
from .forms.teacher import Untrained
from .loss_terms import RULES, Term, mask_shape, maskable
from .loss_values import LossValues, values_of, values_of_scalar, weighted_sum

SAMPLE_WEIGHT = "sample_weight"
"""Input f32 [batch] with `last_batch: partial`: what each sample counts; 0 for padding."""


def with_loss(
    model: Graph, recipe: Recipe, untrained: Untrained | None = None, share: Value | None = None
) -> tuple[Builder, LossValues]:
    """A builder of the model with the recipe's losses appended, and their values.

    untrained  what losses against `frozen` go against; None: the model as it is here
    share      of samples that are mixed: what the loss against their own targets counts in the scalar that is trained
               on; the rest is that against the next sample's"""
    builder = Builder.extend(model)
    builder.origin = "loss"
    before = untrained or Untrained(model, frozenset())
    objective = _Objective(model, before, builder, batch_of(recipe, model))
    weight = objective.extra(SAMPLE_WEIGHT, (objective.batch,)) if recipe.last_batch == "partial" else None
    values = objective.total(recipe.loss, weight)
    if weight is not None:  # last, after the targets
        builder.inputs.remove(weight)
        builder.inputs.append(weight)
    if share is not None:
        e, other = Emitter(builder), replace(objective, mixed=True).total(recipe.loss, weight)
        loss = e.add(e.mul(values.loss, share), e.mul(other.loss, e.sub(1.0, share)))
        values = replace(values, loss=loss)
    return builder, values


@dataclass
class _Objective:
    """Emits losses; extra inputs are made when first asked for, and shared between losses.

    mixed  of each sample the targets of the next one"""

    model: Graph
    untrained: Untrained
    builder: Builder
    batch: int
    mixed: bool = False

    def total(self, losses: Sequence[Loss], sample_weight: Value | None) -> LossValues:
        parts = [self.values(loss, sample_weight) for loss in losses]
        return weighted_sum(Emitter(self.builder), [loss.weight for loss in losses], parts)

    def values(self, loss: Loss, sample_weight: Value | None) -> LossValues:
        e = Emitter(self.builder)
        if isinstance(loss, LossGraph):
            return self._graph(loss, sample_weight)
        name = loss.pick_output(self.model.outputs)
        output = self.model.outputs[name]
        if not output.type.dtype.is_float:
            raise RecipeError(f"loss {loss.name} reads numbers, and the output '{name}' is {output.type}")
        if not output.type.size:
            raise RecipeError(f"the output '{name}' is {output.type}: nothing is in it that a loss could read")
        output = e.cast(output, DType.F32)
        if isinstance(loss, OwnLoss):
            return self._own(loss, name, output)
        output = self._by_sample(name, output)
        rule = RULES[loss.name]
        wanted = rule.target(loss, output.type)
        if isinstance(loss, KL) and loss.is_own_teacher(self.model.outputs):
            target = self._by_sample(name, e.cast(self.untrained.output(self.builder, name), wanted.dtype))
        else:
            target = self._target(loss, wanted)
        mask = None if loss.mask is None else self._mask(loss, loss.mask, output.type)
        return values_of(e, rule.build(e, loss, output, target, mask), sample_weight)

    def _by_sample(self, name: str, output: Value) -> Value:
        """The output with the samples as its first axis: [samples, rows, …] where each has several rows."""
        if not output.type.rank or output.type.shape[0] == self.batch:
            return output
        rows, left = divmod(output.type.shape[0], self.batch)
        if left or not rows:
            raise RecipeError(
                f"the batch is {self.batch}, and the output '{name}' is {output.type}: a loss reads an output whose "
                "first axis is the batch, or a multiple of it; import the model with one sample, and say 'accumulate' "
                "for more"
            )
        return Emitter(self.builder).reshape(output, (self.batch, rows, *output.type.shape[1:]))

    def _own(self, loss: Loss, name: str, output: Value) -> LossValues:
        if output.type.size != 1:
            raise RecipeError(
                f"the output '{name}' is {output.type}, and a loss is one number: name another output, "
                f"or the loss that reads it, as in 'loss: {{name: mse, output: {name}}}'"
            )
        return values_of_scalar(Emitter(self.builder), output, self.batch)

    def _graph(self, loss: LossGraph, sample_weight: Value | None) -> LossValues:
        """A loss that the user brought: one number, or one for each sample."""
        e = Emitter(self.builder)
        loss.reads(self.model.outputs)
        graph, names = loss.graph, loss.inputs
        assert graph is not None and names is not None
        given = []
        for name, value in zip(names, graph.inputs, strict=True):
            output = self.model.outputs.get(name)
            found = output if output is not None else self._input(name, value.type)
            if found.type.shape != value.type.shape or found.type.dtype.is_float != value.type.dtype.is_float:
                raise RecipeError(f"{loss.called} reads {value.type} as '{name}', which is {found.type}")
            given.append(e.cast(found, value.type.dtype))
        (result,) = self.builder.inline(graph, given).values()
        result = e.cast(result, DType.F32)
        if result.type.rank and result.type.shape[0] == self.batch:
            return values_of(e, Term(result), sample_weight)
        if sample_weight is not None:
            raise RecipeError(
                f"last_batch: partial pads the batch, and {loss.called}, which gives one number, would count the "
                "padding: let it give one number for each sample, or use last_batch: drop"
            )
        return values_of_scalar(e, result, self.batch)

    def _target(self, loss: Loss, wanted: TensorType) -> Value:
        e = Emitter(self.builder)
        if isinstance(loss, KL) and (teacher := loss.pick_teacher(self.model.outputs)) is not None:
            value = self.model.outputs[teacher]
            if value.type.shape != wanted.shape:
                raise RecipeError(
                    f"kl compares outputs of one shape, and '{teacher}' is {value.type}, not {list(wanted.shape)}"
                )
            return e.cast(value, wanted.dtype)
        assert loss.target is not None
        value = self._input(loss.target, wanted)
        if value.type.shape != wanted.shape or (wanted.dtype is DType.I64 and value.type.dtype.is_float):
            raise RecipeError(
                f"the input '{loss.target}' is {value.type}, and loss {loss.name} needs {wanted} as its target: "
                "give the loss another target"
            )
        return e.cast(value, wanted.dtype)

    def _mask(self, loss: Loss, name: str, output: TensorType) -> Value:
        """f32 with the output's leading axes, its class axis left out."""
        shape = maskable(loss, output)
        value = self._input(name, TensorType(DType.F32, mask_shape(loss, output)))
        if not value.type.rank or value.type.shape != shape[: value.type.rank]:
            raise RecipeError(
                f"the mask '{name}' is {value.type}, and loss {loss.name} needs {list(shape[:1])} or {list(shape)}"
            )
        return Emitter(self.builder).cast(value, DType.F32)

    def _input(self, name: str, wanted: TensorType) -> Value:
        """The model's own input of this name, that of an earlier loss, or a new one."""
        known = {value.name: value for value in self.builder.inputs}
        value = known[name] if name in known else self.extra(name, wanted.shape, wanted.dtype)
        if not self.mixed:
            return value
        if value.type.shape[:1] != (self.batch,):
            raise RecipeError(f"mixup mixes {self.batch} samples, and a loss reads '{name}', {value.type}, as a whole")
        return rolled(Emitter(self.builder), value)

    def extra(self, name: str, shape: tuple[int, ...], dtype: DType = DType.F32) -> Value:
        value = self.builder.input(name, TensorType(dtype, shape))
        if value.name != name:
            raise RecipeError(f"the model has another tensor called '{name}': give the loss's input another name")
        return value
