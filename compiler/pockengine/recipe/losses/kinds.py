"""The losses that a recipe can name: of which outputs, against which targets, and how much each counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from ...errors import RecipeError, nearest

MOST = 1e30
"""Larger factors leave the range of f32 once they meet a loss."""


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

    def reads(self, outputs: Collection[str]) -> tuple[str, ...]:
        """Names of the outputs through which its gradient comes."""
        return (self.pick_output(outputs),)

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


def _known(name: str, outputs: Collection[str]) -> str:
    if name not in outputs:
        raise RecipeError(f"the model has no output '{name}'{nearest(name, outputs)}")
    return name
