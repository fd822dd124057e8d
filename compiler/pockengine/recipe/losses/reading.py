"""Reads the losses of a recipe: names, mappings, losses of the user's own, or a list of these."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...errors import RecipeError, nearest
from ..fields import as_text, describe
from ..keys import keys_of, read_keys
from .kinds import KL, L1, MSE, BCEWithLogits, CausalLM, Classification, CrossEntropy, Huber, Loss, OwnLoss
from .own import LossGraph, loss_graph_of

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (CrossEntropy, CausalLM, BCEWithLogits, MSE, L1, Huber, KL, OwnLoss)
}
"""By name in the recipe."""


def losses_of(value: object, where: str = "loss") -> tuple[Loss, ...]:
    """From a name, a mapping `{name, …}`, `{onnx, …}` or `{module, …}`, a Loss, a function of tensors, or a list of
    these; raises RecipeError."""
    if not isinstance(value, list | tuple):
        return (_loss(value, where),)
    if not value:
        raise RecipeError(f"{where} is an empty list: name a loss{nearest('', LOSSES)}")
    losses = tuple(_loss(item, f"{where}[{index}]") for index, item in enumerate(value))
    ignored: dict[str | None, int] = {}
    for loss in losses:
        if isinstance(loss, Classification) and ignored.setdefault(loss.target, loss.ignore_index) != loss.ignore_index:
            raise RecipeError(f"the losses that read '{loss.target}' must have the same ignore_index")
    return losses


def losses_mapping(losses: Sequence[Loss]) -> dict[str, Any] | list[dict[str, Any]]:
    """The canonical form: a mapping for one loss, a list for several."""
    mappings = [loss.to_mapping() for loss in losses]
    return mappings[0] if len(mappings) == 1 else mappings


def read_outputs(losses: Sequence[Loss], outputs: Collection[str]) -> tuple[str, ...]:
    """Names of the model outputs through which the losses' gradients come."""
    return tuple(dict.fromkeys(name for loss in losses for name in loss.reads(outputs)))


def own_losses(losses: Sequence[Loss], outputs: Collection[str]) -> tuple[str, ...]:
    """Names of the model outputs that are losses themselves: eval and predict do without them."""
    return read_outputs([loss for loss in losses if isinstance(loss, OwnLoss)], outputs)


def _loss(value: object, where: str) -> Loss:
    if isinstance(value, LossGraph):
        return value
    if isinstance(value, Loss):
        value = value.to_mapping()
    if callable(value):
        value = {"module": value}
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise RecipeError(f"{where} must be a name or a mapping, not {describe(value)}")
    if "onnx" in value or "module" in value:
        return loss_graph_of(value, where)
    if "name" not in value:
        raise RecipeError(f"{where} needs a name{nearest('', LOSSES)}")
    name = as_text(value["name"], f"{where}.name")
    if name not in LOSSES:
        raise RecipeError(f"there is no loss '{name}'{nearest(name, LOSSES)}")
    kind = LOSSES[name]
    if value.get("against") is not None and value.get("target") is not None:
        raise RecipeError(f"{where} has a target and an output to go against: leave one of them out")
    said = {key: item for key, item in value.items() if item is not None or key not in keys_of(kind)}
    given = read_keys(kind, said, f"{where} ('{name}')", prefix=where)
    if "against" in given:
        given["target"] = None
    return kind(**given)
