"""From a model, a recipe and a scheme to the programs that learn: train (one whole step) and accumulate."""

from __future__ import annotations

from ..errors import RecipeError
from ..ir import Builder, Graph, Value, verify
from ..ops import prune
from ..recipe import Recipe, Scheme, without_gradient
from .augment import refuse_unmoved, with_augmentation
from .backward import backward, prepare
from .forms.dropout import with_dropout
from .forms.norms import training_norms
from .forms.teacher import Untrained
from .narrowed import read_as
from .objective import with_loss
from .updates import Gradients, Updater

LOSS = "loss"


def train_graph(model: Graph, recipe: Recipe, scheme: Scheme) -> Graph:
    """Forward, loss, backward to what the scheme trains, optimizer updates. Its only output is the scalar loss."""
    builder, gradients = _differentiated(model, recipe, scheme)
    Updater(builder, recipe, scheme).update(gradients)
    return verify(prune(builder.finish()), "train")


def accumulate_graph(model: Graph, recipe: Recipe, scheme: Scheme) -> Graph:
    """Forward, loss and backward of a micro-batch that is not the last of its step: the gradients are added to states.
    Its only output is the scalar loss."""
    builder, gradients = _differentiated(model, recipe, scheme)
    Updater(builder, recipe, scheme).accumulate(gradients)
    return verify(prune(builder.finish()), "accumulate")


def _differentiated(model: Graph, recipe: Recipe, scheme: Scheme) -> tuple[Builder, Gradients]:
    """A builder of forward, loss and backward, and the gradient of each trained parameter, last parameter first."""
    model, share = with_augmentation(model, recipe)
    untrained = Untrained.of(model, recipe, scheme)
    if recipe.batch_norm == "train":
        model = training_norms(model)
    if recipe.dropout:
        model = with_dropout(model)
    builder, values = with_loss(model, recipe, untrained, share)
    refuse_unmoved(recipe, builder.inputs)
    builder.outputs = {LOSS: values.loss}
    graph = builder.finish()
    wanted = {param: _read_as(graph, param, recipe) for param in map(model.param, scheme.trained())}
    if not wanted:
        raise RecipeError("the recipe trains no parameter: add a rule under 'update'")
    forward = prune(prepare(graph, wanted.values()))
    builder, gradients = backward(forward, LOSS, wanted.values())
    for param in reversed(wanted):
        if wanted[param] not in gradients:
            raise without_gradient(forward, param)
    return builder, {param: gradients[value] for param, value in reversed(wanted.items())}


def _read_as(graph: Graph, param: Value, recipe: Recipe) -> Value:
    """What of a parameter the gradient is built of, f32."""
    value = read_as(graph, param) if recipe.trained or not param.type.dtype.is_narrow else None
    if value is None:
        raise RecipeError(
            f"'{param.name}' is {param.type}, and only f32 parameters can be trained: "
            "leave it frozen, or convert it in the model"
        )
    return value
