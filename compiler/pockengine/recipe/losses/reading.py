"""Reads the losses of a recipe: names, mappings, losses of the user's own, or a list of these."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...errors import RecipeError, nearest
from ..fields import as_number, as_text, check_keys, describe
from .kinds import KL, L1, MOST, MSE, BCEWithLogits, CausalLM, Classification, CrossEntropy, Huber, Loss, OwnLoss
from .own import LossGraph, loss_graph_of

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (CrossEntropy, CausalLM, BCEWithLogits, MSE, L1, Huber, KL, OwnLoss)
}
"""By name in the recipe."""


def losses_of(value: object) -> tuple[Loss, ...]:
    """From a name, a mapping `{name, …}`, `{onnx, …}` or `{module, …}`, a Loss, a function of tensors, or a list of
    these; raises RecipeError."""
    if not isinstance(value, list | tuple):
        return (_loss(value, "loss"),)
    if not value:
        raise RecipeError(f"loss is an empty list: name a loss{nearest('', LOSSES)}")
    losses = tuple(_loss(item, f"loss[{index}]") for index, item in enumerate(value))
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
    check_keys(value, ("name", *_keys(kind)), f"{where} ('{name}')")
    if value.get("against") is not None and value.get("target") is not None:
        raise RecipeError(f"{where} has a target and an output to go against: leave one of them out")
    given = {key: _READERS[key](value[key], f"{where}.{key}") for key in _keys(kind) if value.get(key) is not None}
    if "against" in given:
        given["target"] = None
    return kind(**given)


def _keys(kind: type[Loss]) -> list[str]:
    """What may be said about a loss; the model's own has no target and no positions to mask."""
    keys = [field.name for field in dataclasses.fields(kind)]
    return [key for key in keys if key not in ("target", "mask")] if kind is OwnLoss else keys


def _positive(value: object, key: str) -> float:
    return as_number(value, key, 0.0, MOST, above=True)


def _whole(value: object, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**31:
        raise RecipeError(f"{key} must be a whole number of 32 bits, not {describe(value)}")
    return value


def _axis(value: object, key: str) -> int:
    if isinstance(value, bool) or value not in (-1, 1):
        raise RecipeError(
            f"{key} must be 1 (classes right after the batch) or -1 (classes last), not {describe(value)}"
        )
    return int(value)


def _weights(value: object, key: str) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise RecipeError(f"{key} must be a list of numbers, one for each class, not {describe(value)}")
    return tuple(as_number(item, f"{key}[{index}]", 0.0, MOST) for index, item in enumerate(value))


def _pos_weight(value: object, key: str) -> float | tuple[float, ...]:
    return _weights(value, key) if isinstance(value, list | tuple) else as_number(value, key, 0.0, MOST)


_READERS: dict[str, Callable[[object, str], Any]] = {
    "output": as_text,
    "target": as_text,
    "weight": _positive,
    "mask": as_text,
    "label_smoothing": lambda value, key: as_number(value, key, 0.0, 1.0),
    "class_weights": _weights,
    "ignore_index": _whole,
    "axis": _axis,
    "pos_weight": _pos_weight,
    "delta": _positive,
    "against": as_text,
    "temperature": lambda value, key: as_number(value, key, 1e-3, 1e6),
}
