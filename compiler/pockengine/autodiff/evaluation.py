"""The programs that change nothing: eval (loss and accuracy of each sample) and predict."""

from __future__ import annotations

from ..ir import Graph, verify
from ..ops import prune
from ..recipe import Recipe, batch_of
from ..recipe.losses.reading import own_losses
from .forms.teacher import Untrained
from .objective import with_loss

SAMPLE_LOSS = "sample_loss"
LOSS_WEIGHT = "loss_weight"
CORRECT = "correct"
COUNTED = "counted"


def without_losses(model: Graph, recipe: Recipe) -> Graph:
    """The model without outputs that are losses: what it is asked for when it does not train."""
    own = own_losses(recipe.loss, model.outputs)
    return model.with_(outputs={name: value for name, value in model.outputs.items() if name not in own})


def predict_graph(model: Graph, recipe: Recipe) -> Graph:
    """The model's outputs from its inputs: those that can be cut into samples, where there are any, and no losses."""
    model, batch = without_losses(model, recipe), batch_of(recipe, model)
    shapes = {name: value.type.shape for name, value in model.outputs.items()}
    cut = {name for name, shape in shapes.items() if shape and shape[0] and shape[0] % batch == 0}
    kept = {name: value for name, value in model.outputs.items() if not cut or name in cut}
    return verify(prune(model.with_(outputs=kept)), "predict")


def eval_graph(model: Graph, recipe: Recipe, untrained: Untrained | None = None) -> Graph:
    """For each sample its loss and what that counts, and the same of its accuracy where the losses define one.
    `untrained` as for `with_loss`."""
    builder, values = with_loss(model, recipe, untrained)
    found = {SAMPLE_LOSS: values.sample_loss, LOSS_WEIGHT: values.loss_weight}
    if values.correct is not None and values.counted is not None:
        found |= {CORRECT: values.correct, COUNTED: values.counted}
    builder.outputs = found
    return verify(prune(builder.finish()), "eval")
