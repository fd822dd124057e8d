"""Every error the compiler raises on purpose: one plain sentence, and the numbered failure code the service reports."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PockError(Exception):
    """Base class; `str(error)` is one sentence that says what is wrong and what to do. `code` follows
    docs/reference/api.md."""

    code = 1000

    def __str__(self) -> str:
        """The sentence on one line and of a length that can be read, whatever the names in it hold."""
        text = " ".join(super().__str__().split())
        return text if len(text) <= 1000 else f"{text[:600]} … {text[-300:]}"


class ModelError(PockError):
    """The model file cannot be read: truncated, not ONNX, inconsistent."""

    code = 3001


class UnsupportedOperatorError(PockError):
    """An operator, or the gradient of one, that the compiler lacks. Where it is about one node, `operator`, `node`,
    `shapes` (of its inputs, as text) and `advice` (what to do) say so apart from the sentence."""

    code = 3002

    def __init__(self, message: str, operator: str = "", node: str = "", shapes: str = "", advice: str = "") -> None:
        super().__init__(message)
        self.operator = operator
        self.node = node
        self.shapes = shapes
        self.advice = advice


class RecipeError(PockError):
    """The recipe is malformed or does not fit the model."""

    code = 3003


class MemoryBudgetError(RecipeError):
    """Training as the recipe says does not fit into the memory that is allowed; `least_bytes` is the least it takes."""

    def __init__(self, message: str, least_bytes: int) -> None:
        super().__init__(message)
        self.least_bytes = least_bytes


class DivergedError(PockError):
    """The loss of a training is no number any more."""


class DynamicShapeError(PockError):
    """A dimension has no value at compile time."""

    code = 3004


class TargetError(PockError):
    """No such target, or a target file that is malformed."""

    code = 10003


class DataError(PockError):
    """A batch or dataset does not fit the model's inputs."""

    code = 10004


class ArtifactError(PockError):
    """An artifact that is malformed or fails verification; each malformation has its own subclass in `artifact`."""

    code = 2004


class WrongMachineError(ArtifactError):
    """The artifact was built for another kind of machine."""


class ToolchainError(PockError):
    """The C compiler failed on emitted code: a defect of ours, reported with the kernel's name."""

    code = 1000


def nearest(name: str, choices: Iterable[str]) -> str:
    """A hint such as ` (did you mean 'sgd'?)`, or the list of choices when nothing is close. Starts with a space."""
    choices = sorted(choices)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    if close:
        return f" (did you mean '{close[0]}'?)"
    shown = ", ".join(choices[:12]) + (", …" if len(choices) > 12 else "")
    return f" (known: {shown})" if choices else ""
