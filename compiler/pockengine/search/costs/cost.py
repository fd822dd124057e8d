"""The question that a search asks of any scheme, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..space import Choice


@dataclass(frozen=True)
class Cost:
    """What a training step takes.

    peak_bytes  the most memory of the process, as `pock check` says it
    step_ms     time of a step: a model's expectation, unless measurements are known"""

    peak_bytes: int
    step_ms: float


@dataclass(frozen=True)
class Parts:
    """What the most memory of a process consists of, in bytes.

    params, states, consts, inputs  the blocks beside the arena: parameters, optimizer state, constants, inputs
    arena                           activations and gradients
    runtime                         the program itself"""

    params: float
    states: float
    consts: float
    inputs: float
    arena: float
    runtime: float

    @property
    def peak(self) -> int:
        """Their sum."""
        return round(self.params + self.states + self.consts + self.inputs + self.arena + self.runtime)


class CostModel(Protocol):
    """Says what each choice of a space costs on one target."""

    def of(self, choice: Choice) -> Cost:
        """Raises RecipeError for a choice that trains nothing."""
