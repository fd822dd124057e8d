"""The models that are adapted: an architecture, what it is pre-trained on, and how it is trained.

Everything is compiled once a model and a scheme: all tasks of a domain have the inputs and outputs of its models, and
the learning rate is a state (`rates`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn

import pockengine as pock
from pockengine.ir import Graph

from . import digits, networks, sentences, sounds, streams
from .images import families
from .rates import SCHEDULE
from .task import IGNORED, Domain, Split, Task, Tensors

BATCH = 16

DOMAINS: dict[str, Domain] = {
    one.name: one for one in (families.DOMAIN, families.SEGMENTS, sounds.DOMAIN, streams.DOMAIN, sentences.DOMAIN)
}
TASKS: dict[str, Task] = {
    one.name: one for one in (*families.TASKS, *digits.TASKS, *sounds.TASKS, *streams.TASKS, *sentences.TASKS)
}

_SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
_ADAM = {"name": "adam", "lr": 0.01, "betas": [0.9, 0.95]}
"""The second moment's memory is short, because its correction at the first steps is lost where the rate is a state."""


@dataclass(frozen=True, eq=False)
class Model:
    """A small network of one domain.

    name       of the architecture; with the domain it is unique
    network    makes it, with random weights, for a number of classes
    optimizer  of the recipe, with the highest rate that is tried
    epochs     of pre-training, over `samples` samples, from the rate with this number on
    head       the parameters that are drawn anew for labels that mean something new; none where classes are words
    loss       of the recipe
    frozen     in what format frozen weights are kept; None: as floats
    least      accuracy that pre-training must come to: schemes for a network that learned less compare by chance"""

    name: str
    domain: str
    network: Callable[[int], nn.Module]
    optimizer: Mapping[str, Any] = field(default_factory=lambda: _SGD)
    epochs: int = 8
    samples: int = 20000
    rate: int = 0
    head: tuple[str, ...] = ("classifier.weight", "classifier.bias")
    loss: Any = "cross_entropy"
    frozen: str | None = None
    least: float = 0.6

    @property
    def key(self) -> str:
        """What it is called in tables and results."""
        return f"{self.name}/{self.domain}" + (f"/{self.frozen}" if self.frozen else "")

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All that it can be adapted to."""
        return tuple(task for task in TASKS.values() if task.domain == self.domain)

    def samples_of(self, split: Split, pretraining: bool = False) -> Split:
        """The split as the model reads it."""
        return answered(split, pretraining) if self.name == "llama" else split

    def graph(self, weights: Tensors | None = None, batch: int = BATCH) -> Graph:
        """The network with these weights, of which those that stay frozen are compiled in; without them with random
        ones, always the same."""
        graph = _graph(self, batch)
        return graph if weights is None else replace(graph, data={**graph.data, **weights})

    def recipe(self, update: Any = "full", **changes: Any) -> pock.Recipe:
        """How it is trained, with a learning rate that is a state."""
        optimizer = {**self.optimizer, "schedule": SCHEDULE}
        frozen = {"weights": self.frozen, "params": "*"} if self.frozen and update != "full" else None
        return pock.Recipe(self.loss, optimizer, update, BATCH, **{"frozen": frozen, **changes})


@cache
def _graph(model: Model, batch: int) -> Graph:
    torch.manual_seed(0)
    domain = DOMAINS[model.domain]
    example = model.samples_of(domain.draw(batch, np.random.default_rng(0)))
    args = tuple(torch.from_numpy(np.asarray(value, order="C")) for value in example.inputs.values())
    return pock.from_torch(model.network(domain.classes).eval(), args)


def answered(split: Split, all_words: bool) -> Split:
    """For models that say the next word: the sentence, then room for the answer; labels i64[N, length + 1] are the
    answer alone, or all words of the sentence too."""
    words = split.inputs["input_ids"]
    ids = np.pad(words, ((0, 0), (0, 1)), constant_values=sentences.PADDING)
    labels = np.where(ids == sentences.PADDING, IGNORED, ids) if all_words else np.full_like(ids, IGNORED)
    labels[:, -1] = sentences.ANSWER + split.labels
    return Split({"input_ids": ids}, labels)


_TRANSFORMER: dict[str, Any] = {"optimizer": _ADAM, "rate": 2, "epochs": 10}

MODELS: dict[str, Model] = {
    one.key: one
    for one in (
        Model("mcunet", "images", networks.mcunet),
        Model("mobilenetv2", "images", networks.mobilenetv2, optimizer={**_SGD, "lr": 0.01}, rate=2),
        Model("resnet18", "images", networks.resnet18, head=("classifier.1.weight", "classifier.1.bias")),
        Model("vit", "images", networks.vit, **_TRANSFORMER),
        Model("unet", "segments", networks.unet, loss={"name": "cross_entropy", "axis": 1}),
        Model("mcunet", "sounds", partial(networks.mcunet, channels=1), epochs=6),
        Model("vit", "sounds", partial(networks.vit, channels=1), **_TRANSFORMER),
        Model("motion", "streams", networks.motion),
        Model("distilbert", "sentences", networks.distilbert, **{**_TRANSFORMER, "epochs": 5}),
        Model("llama", "sentences", networks.llama, **{**_TRANSFORMER, "head": (), "loss": "causal_lm"}),
        Model("distilbert", "sentences", networks.distilbert, **{**_TRANSFORMER, "epochs": 5, "frozen": "int4"}),
        Model(
            "llama", "sentences", networks.llama, **{**_TRANSFORMER, "head": (), "loss": "causal_lm", "frozen": "int4"}
        ),
    )
}
