"""The losses of a recipe: which functions, of which outputs, against which targets, and how much each counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import RecipeError, nearest
from .fields import as_number, as_text, check_keys, describe


@dataclass(frozen=True)
class Loss:
    """What every loss has.

    output  the model output that the loss reads; None: the only one, or the one called `logits`
    target  the input with the right answers: an extra one, or one of the model's own
    weight  what the loss is multiplied by in the sum of losses
    mask    an input that says what each sample or position counts, usually 0 or 1"""

    name: ClassVar[str]

    output: str | None = None
    target: str | None = "labels"
    weight: float = 1.0
    mask: str | None = None

    def pick_output(self, outputs: Collection[str]) -> str:
        """The name of the output the loss reads; RecipeError when it is not one of `outputs` or cannot be guessed."""
        if self.output is not None:
            return _known(self.output, outputs)
        if len(outputs) == 1:
            return next(iter(outputs))
        if "logits" in outputs:
            return "logits"
        raise RecipeError(
            f"the model has {len(outputs)} outputs ({', '.join(outputs)}): say which one the loss reads, "
            f"as in 'loss: {{name: {self.name}, output: {next(iter(outputs), '…')}}}'"
        )

    def to_mapping(self) -> dict[str, Any]:
        """Name, target, and what differs from the default."""
        mapping: dict[str, Any] = {"name": self.name}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None and (field.name == "target" or value != field.default):
                mapping[field.name] = list(value) if isinstance(value, tuple) else value
        return mapping


@dataclass(frozen=True)
class Classification(Loss):
    """What the losses against class numbers have.

    label_smoothing  share of each answer that is spread evenly over all classes
    class_weights    a weight for each class
    ignore_index     the label that does not count"""

    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] | None = None
    ignore_index: int = -100


@dataclass(frozen=True)
class CrossEntropy(Classification):
    """Cross-entropy: scores [batch, ..., classes] (with `axis` 1: [batch, classes, ...]), labels [batch, ...]."""

    name: ClassVar[str] = "cross_entropy"

    axis: int = -1


@dataclass(frozen=True)
class CausalLM(Classification):
    """Cross-entropy of position t against label t + 1: scores [batch, time, vocabulary], labels [batch, time]."""

    name: ClassVar[str] = "causal_lm"


@dataclass(frozen=True)
class BCEWithLogits(Loss):
    """Binary cross-entropy of scores; `pos_weight` multiplies the positive part, one number or one for each class
    along `axis`."""

    name: ClassVar[str] = "bce_with_logits"

    pos_weight: float | tuple[float, ...] | None = None
    axis: int = -1


@dataclass(frozen=True)
class MSE(Loss):
    """Mean of squared differences."""

    name: ClassVar[str] = "mse"


@dataclass(frozen=True)
class L1(Loss):
    """Mean of absolute differences."""

    name: ClassVar[str] = "l1"


@dataclass(frozen=True)
class Huber(Loss):
    """Squared for differences up to `delta`, linear beyond."""

    name: ClassVar[str] = "huber"

    delta: float = 1.0


@dataclass(frozen=True)
class KL(Loss):
    """Distillation: T^2 * KL(teacher || student) of softened scores, mean over samples and positions.

    target       the input with the teacher's scores
    against      instead of a target: the model's output with the teacher's scores, which gets no gradient
    temperature  T, what both scores are divided by
    axis         of the classes: -1 or 1"""

    name: ClassVar[str] = "kl"

    target: str | None = "teacher_logits"
    against: str | None = None
    temperature: float = 1.0
    axis: int = -1

    def pick_teacher(self, outputs: Collection[str]) -> str | None:
        """The output with the teacher's scores; None when they are an input."""
        return None if self.against is None else _known(self.against, outputs)


@dataclass(frozen=True)
class OwnLoss(Loss):
    """The model's own scalar output."""

    name: ClassVar[str] = "output"

    target: str | None = None

    def pick_output(self, outputs: Collection[str]) -> str:
        return _known(self.output or "loss", outputs)


LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (CrossEntropy, CausalLM, BCEWithLogits, MSE, L1, Huber, KL, OwnLoss)
}
"""By name in the recipe."""


def losses_of(value: object) -> tuple[Loss, ...]:
    """From a name, a mapping `{name, …}`, a Loss, or a list of these; raises RecipeError."""
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
    return tuple(dict.fromkeys(loss.pick_output(outputs) for loss in losses))


def own_losses(losses: Sequence[Loss], outputs: Collection[str]) -> tuple[str, ...]:
    """Names of the model outputs that are losses themselves: eval and predict do without them."""
    return read_outputs([loss for loss in losses if isinstance(loss, OwnLoss)], outputs)


def _loss(value: object, where: str) -> Loss:
    if isinstance(value, Loss):
        value = value.to_mapping()
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise RecipeError(f"{where} must be a name or a mapping, not {describe(value)}")
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


_MOST = 1e30
"""Larger factors leave the range of f32 once they meet a loss."""


def _known(name: str, outputs: Collection[str]) -> str:
    if name not in outputs:
        raise RecipeError(f"the model has no output '{name}'{nearest(name, outputs)}")
    return name


def _positive(value: object, key: str) -> float:
    return as_number(value, key, 0.0, _MOST, above=True)


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
    return tuple(as_number(item, f"{key}[{index}]", 0.0, _MOST) for index, item in enumerate(value))


def _pos_weight(value: object, key: str) -> float | tuple[float, ...]:
    return _weights(value, key) if isinstance(value, list | tuple) else as_number(value, key, 0.0, _MOST)


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
