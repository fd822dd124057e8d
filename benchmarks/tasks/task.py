"""What a transfer task is: samples to adapt to and to judge by, all from a seed. Knows no model and no framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Tensors = Mapping[str, Array]
"""Arrays by name."""

HELD_OUT = 1000
"""Samples that a task is judged by, as many for each seed."""

IGNORED = -100
"""A label that counts nothing, as the losses' `ignore_index`."""


class Metric(Enum):
    """How predictions are judged."""

    ACCURACY = "accuracy"
    """The share of labels that are predicted; labels that are `IGNORED` do not count."""

    CLASS_ACCURACY = "mean class accuracy"
    """The mean over classes of the share of their labels that are predicted: the background does not outweigh."""


@dataclass(frozen=True, eq=False)
class Split:
    """Samples: tensors by input name, each [N, …], and labels i64[N] or i64[N, …]."""

    inputs: Tensors
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, places: Array | slice) -> Split:
        """The samples at these places, in this order."""
        return Split({name: value[places] for name, value in self.inputs.items()}, self.labels[places])

    def batch(self, places: Array) -> dict[str, Array]:
        """What a training step reads."""
        return {**{name: value[places] for name, value in self.inputs.items()}, "labels": self.labels[places]}


@dataclass(frozen=True, eq=False)
class Data:
    """One drawing of a task: what may be trained on, and what is only judged by. No sample is in both."""

    train: Split
    held_out: Split


Draw = Callable[[int, np.random.Generator], Split]
"""(samples, chance) -> samples; equal chance, equal samples."""


@dataclass(frozen=True)
class Domain:
    """What models are pre-trained on.

    name     of the domain: images, segments, sounds, streams, sentences
    about    what the samples are, in one sentence
    draw     samples to pre-train on
    classes  of the pre-training, and outputs of the model: no task has more
    """

    name: str
    about: str
    draw: Draw
    classes: int


@dataclass(frozen=True)
class Task:
    """A transfer task.

    name      unique among all tasks
    domain    the name of the domain whose models are adapted to it
    shift     how it differs from the pre-training, in one sentence
    classes   how many labels there are; the model's other outputs are never right
    samples   how many there are to adapt to
    draw      the samples, when each is drawn on its own
    divide    the samples, when there is a fixed stock to divide among the two splits; else None
    metric    how predictions are judged
    keeps_labels  whether labels mean what they mean in the pre-training, so that its head can be kept
    """

    name: str
    domain: str
    shift: str
    classes: int
    samples: int
    draw: Draw | None = None
    divide: Callable[[int, np.random.Generator], Data] | None = None
    metric: Metric = Metric.ACCURACY
    keeps_labels: bool = False

    def data(self, seed: int) -> Data:
        """The task's samples of one seed. Each task has chance of its own, whatever the others draw."""
        chance = np.random.default_rng([seed, *self.name.encode()])
        if self.divide is not None:
            return self.divide(self.samples, chance)
        assert self.draw is not None, f"the task '{self.name}' says neither how to draw nor how to divide"
        drawn = self.draw(self.samples + HELD_OUT, chance)
        return Data(drawn.at(slice(0, self.samples)), drawn.at(slice(self.samples, None)))


def balanced(count: int, classes: int, chance: np.random.Generator) -> Array:
    """`count` labels i64 in random order, of each class as many as of any other, or one more or less. The first part of
    any length is balanced too, as far as that goes."""
    rounds = -(-count // classes)
    return np.concatenate([chance.permutation(classes) for _ in range(rounds)])[:count].astype(np.int64)
