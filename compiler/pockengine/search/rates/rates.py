"""What was tried to find learning rates, as plain data that a file can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EVERYTHING = "everything"
"""The group of a trial in which all rates moved together."""


@dataclass(frozen=True)
class RateTrial:
    """A learning rate that was tried.

    group  whose rates moved: EVERYTHING, or the name of a group
    lr     the rate; of everything, that of the last group
    loss   of the samples that were kept back, the mean over the orders; None where training diverged"""

    group: str
    lr: float
    loss: float | None


@dataclass(frozen=True)
class Rates:
    """The learning rates that were found.

    lr         group -> its rate
    steps      of each short training
    orders     of samples in which each rate was tried
    kept_back  samples of the data that were not trained on, but judged by
    before     their loss before any training
    loss       their loss with the rates found, the mean over the orders
    trials     in the order in which they were done
    complete   False where the time was over before all was tried"""

    lr: Mapping[str, float]
    steps: int
    orders: int
    kept_back: int
    before: float
    loss: float
    trials: tuple[RateTrial, ...]
    complete: bool = True

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Rates:
        """From what `dataclasses.asdict` gave, through JSON."""
        return cls(**{**mapping, "trials": tuple(RateTrial(**row) for row in mapping["trials"])})

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of them."""
        found = []
        if self.loss >= self.before:
            found.append("no learning rate made the loss of the samples kept back smaller than it was before training")
        if not self.complete:
            found.append("the time was over before all learning rates were tried")
        return tuple(found)
