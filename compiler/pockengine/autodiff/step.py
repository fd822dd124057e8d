"""From a model, a recipe and a scheme to the program train: one whole step."""

from __future__ import annotations

import dataclasses

from ..errors import RecipeError
from ..ir import Graph, Value, verify
from ..ops import prune
from ..recipe import Recipe, Scheme
from .backward import backward, prepare
from .objective import with_loss
from .updates import Updater

LOSS = "loss"


def train_graph(model: Graph, recipe: Recipe, scheme: Scheme) -> Graph:
    """Forward, loss, backward to what the scheme trains, optimizer updates. Its only output is the scalar loss."""
    if recipe.batch_norm == "train":
        model = _training_norms(model)
    builder, values = with_loss(model, recipe)
    builder.outputs = {LOSS: values.loss}
    wanted = [model.param(name) for name in scheme.trained()]
    if not wanted:
        raise RecipeError("the recipe trains no parameter: add a rule under 'update'")
    forward = prune(prepare(builder.finish(), wanted))
    builder, gradients = backward(forward, LOSS, wanted)
    updater = Updater(builder, recipe.optimizer)
    for value in reversed(wanted):
        if value not in gradients:
            raise RecipeError(f"the loss does not depend on '{value.name}', so it cannot be trained")
        updater.update(value, gradients[value], scheme.of(value.name))
    return verify(prune(builder.finish()), "train")


def _training_norms(model: Graph) -> Graph:
    """Switch batch norms to the batch's statistics; the running ones become updates.

    %y = batch_norm(…) {training: false}   ->   %y, %mean', %var' = batch_norm(…) {training: true}
    """
    nodes, updates = [], dict(model.updates)
    for node in model.nodes:
        if node.op == "batch_norm":
            statistics = node.inputs[3:5]
            new = [Value(f"{value.name}.new", value.type) for value in statistics]
            node = dataclasses.replace(node, outputs=(node.output, *new), attrs={**node.attrs, "training": True})
            updates.update(zip(statistics, new, strict=True))
        nodes.append(node)
    return verify(model.with_(nodes=tuple(nodes), updates=updates), "training norms")
