"""Batch norms that normalise with the statistics of the batch: in training, and to estimate the running ones anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ...errors import RecipeError
from ...ir import Graph, Value, verify
from ...ops import prune, statistics_of
from .dropout import without_dropout


def training_norms(model: Graph) -> Graph:
    """Batch norms use the batch's statistics; the running ones become updates.

    %y = batch_norm(…) {training: false}   ->   %y, %mean', %var' = batch_norm(…) {training: true}
    """
    changed, new = _by_the_batch(model, {"training": True})
    return verify(changed.with_(updates={**model.updates, **new}), "training norms")


def norms_graph(model: Graph) -> Graph:
    """The mean and the unbiased variance that each batch norm meets in a batch, every norm before it using the batch's
    too: outputs that are called as the running statistics. Raises RecipeError where there is none."""
    changed, new = _by_the_batch(without_dropout(model), {"training": True, "momentum": 1.0})
    found = {value.name: batch for value, batch in new.items() if value in set(model.params)}
    if not found:
        raise RecipeError("the model has no batch norm with running statistics: leave 'norm_batches' out")
    return verify(prune(changed.with_(outputs=found)), "norms")


def _by_the_batch(model: Graph, attrs: Mapping[str, bool | float]) -> tuple[Graph, dict[Value, Value]]:
    """The model with these attributes of its batch norms, and running statistic -> what it becomes."""
    nodes, new = [], dict[Value, Value]()
    for node in model.nodes:
        if statistics := statistics_of(node):
            made = [Value(f"{value.name}.new", value.type) for value in statistics]
            node = dataclasses.replace(node, outputs=(node.output, *made), attrs={**node.attrs, **attrs})
            new.update(zip(statistics, made, strict=True))
        nodes.append(node)
    return model.with_(nodes=tuple(nodes)), new
