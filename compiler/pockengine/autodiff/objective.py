"""The objective: the recipe's loss appended to a model."""

from __future__ import annotations

from ..errors import RecipeError
from ..ir import Builder, Graph
from ..ops import Emitter
from ..ops.losses import LOSSES, LossValues
from ..recipe import Recipe


def with_loss(model: Graph, recipe: Recipe) -> tuple[Builder, LossValues]:
    """A builder of the model with the loss appended, and the loss's values."""
    spec, name = LOSSES[recipe.loss.name], recipe.loss.pick_output(model.outputs)
    builder = Builder.extend(model)
    builder.origin = "loss"
    output = model.outputs[name]
    if any(value.name == recipe.loss.target for value in model.inputs):
        raise RecipeError(
            f"the model already has an input called '{recipe.loss.target}'; give loss.target another name"
        )
    labels = builder.input(recipe.loss.target, spec.labels(output.type))
    return builder, spec.build(Emitter(builder), output, labels)
