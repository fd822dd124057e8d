"""The losses that a recipe can name: of which outputs, against which targets, and how much each counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...errors import RecipeError, nearest
from ..fields import as_number, as_text, describe
from ..keys import canonical, key

FROZEN = "frozen"
"""What `kl` goes against where the model as it was before training is the teacher."""
MOST = 1e30
"""Larger factors leave the range of f32 once they meet a loss."""


def as_weight(value: object, where: str) -> float:
    """What a loss is multiplied by."""
    return as_number(value, where, 0.0, MOST, above=True)


def _share(value: object, where: str) -> float:
    return as_number(value, where, 0.0, 1.0)


def _temperature(value: object, where: str) -> float:
    return as_number(value, where, 1e-3, 1e6)


def _whole(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**31:
        raise RecipeError(f"{where} must be a whole number of 32 bits, not {describe(value)}")
    return value


def _axis(value: object, where: str) -> int:
    if isinstance(value, bool) or value not in (-1, 1):
        raise RecipeError(
            f"{where} must be 1 (classes right after the batch) or -1 (classes last), not {describe(value)}"
        )
    return 1 if value == 1 else -1


def _weights(value: object, where: str) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise RecipeError(f"{where} must be a list of numbers, one for each class, not {describe(value)}")
    return tuple(as_number(item, f"{where}[{index}]", 0.0, MOST) for index, item in enumerate(value))


def _pos_weight(value: object, where: str) -> float | tuple[float, ...]:
    return _weights(value, where) if isinstance(value, list | tuple) else as_number(value, where, 0.0, MOST)


@dataclass(frozen=True)
class Loss:
    """What every loss has.

    output  the model output that the loss reads; None: the only one, or the one called `logits`
    target  the input with the right answers: an extra one, or one of the model's own
    weight  what the loss is multiplied by in the sum of losses
    mask    an input that says what each sample or position counts, usually 0 or 1"""

    name: ClassVar[str]

    output: str | None = key(as_text, None)
    target: str | None = key(as_text, "labels")
    weight: float = key(as_weight, 1.0, always=False)
    mask: str | None = key(as_text, None)

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
        return {"name": self.name, **canonical(self)}


@dataclass(frozen=True)
class Classification(Loss):
    """What the losses against class numbers have.

    label_smoothing  share of each answer that is spread evenly over all classes
    class_weights    a weight for each class
    ignore_index     the label that does not count"""

    label_smoothing: float = key(_share, 0.0, always=False)
    class_weights: tuple[float, ...] | None = key(_weights, None)
    ignore_index: int = key(_whole, -100, always=False)


@dataclass(frozen=True)
class CrossEntropy(Classification):
    """Cross-entropy: scores [batch, ..., classes] (with `axis` 1: [batch, classes, ...]), labels [batch, ...]."""

    name: ClassVar[str] = "cross_entropy"

    axis: int = key(_axis, -1, always=False)


@dataclass(frozen=True)
class CausalLM(Classification):
    """Cross-entropy of position t against label t + 1: scores [batch, time, vocabulary], labels [batch, time]."""

    name: ClassVar[str] = "causal_lm"


@dataclass(frozen=True)
class BCEWithLogits(Loss):
    """Binary cross-entropy of scores; `pos_weight` multiplies the positive part, one number or one for each class
    along `axis`."""

    name: ClassVar[str] = "bce_with_logits"

    pos_weight: float | tuple[float, ...] | None = key(_pos_weight, None)
    axis: int = key(_axis, -1, always=False)


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

    delta: float = key(as_weight, 1.0, always=False)


@dataclass(frozen=True)
class KL(Loss):
    """Distillation: T^2 * KL(teacher || student) of softened scores, mean over samples and positions.

    target       the input with the teacher's scores
    against      instead of a target: the model's output with the teacher's scores, which gets no gradient; or `frozen`,
                 where no output is called so: what the output was before training
    temperature  T, what both scores are divided by
    axis         of the classes: -1 or 1"""

    name: ClassVar[str] = "kl"

    target: str | None = key(as_text, "teacher_logits")
    against: str | None = key(as_text, None)
    temperature: float = key(_temperature, 1.0, always=False)
    axis: int = key(_axis, -1, always=False)

    def pick_teacher(self, outputs: Collection[str]) -> str | None:
        """The output with the teacher's scores; None when they are an input, or of the model before training."""
        return None if self.against is None or self.is_own_teacher(outputs) else _known(self.against, outputs)

    def is_own_teacher(self, outputs: Collection[str]) -> bool:
        """Whether the teacher is the model as it was before training."""
        return self.against == FROZEN and FROZEN not in outputs


@dataclass(frozen=True)
class OwnLoss(Loss):
    """The model's own scalar output: it has no target, and no positions to mask."""

    name: ClassVar[str] = "output"

    target: str | None = field(default=None)
    mask: str | None = field(default=None)

    def pick_output(self, outputs: Collection[str]) -> str:
        return _known(self.output or "loss", outputs)


def _known(name: str, outputs: Collection[str]) -> str:
    if name not in outputs:
        raise RecipeError(f"the model has no output '{name}'{nearest(name, outputs)}")
    return name
