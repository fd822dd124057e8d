"""Two small models, their spaces and tasks, and what PyTorch's autograd says of their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import pockengine as pock
from pockengine.ir import Array
from pockengine.recipe import Recipe
from pockengine.search import Space

CLASSES = 4


class Images(nn.Module):
    """Convolutions: plain, depthwise, grouped, point-wise, with norms."""

    input = "x"

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.grouped = nn.Conv2d(8, 12, 3, padding=1, groups=2)
        self.point = nn.Conv2d(12, 16, 1)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.stem(x)))
        x = F.relu(self.point(F.relu(self.grouped(F.relu(self.depthwise(x))))))
        return self.head(x.mean((2, 3)))

    def samples(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Stripes of four directions under noise."""
        labels = rng.integers(0, CLASSES, count)
        y, x = np.mgrid[0:8, 0:8]
        phase = rng.uniform(0, 6, (count, 1, 1))
        direction = np.stack([x, y, x + y, x - y])[labels]
        images = np.sin(direction + phase)[:, None] + 0.8 * rng.standard_normal((count, 3, 8, 8))
        return images.astype(np.float32), labels


class Words(nn.Module):
    """One block of a transformer over token ids."""

    input = "ids"

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.query, self.key, self.value, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 8**0.5
        x = self.norm(x + self.out(scores.softmax(-1) @ self.value(x)))
        x = x + self.down(F.gelu(self.up(x)))
        return self.head(x.mean(1))

    def samples(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Which quarter of the words is the most frequent."""
        labels = rng.integers(0, CLASSES, count)
        ids = rng.integers(0, 11, (count, 6))
        often = rng.random((count, 6)) < 0.6
        return np.where(often, 2 * labels[:, None] + rng.integers(0, 2, (count, 6)), ids), labels


MODELS = {"images": Images, "words": Words}


@dataclass(frozen=True)
class Task:
    """A model in PyTorch and as a space, and labelled samples."""

    module: Any
    space: Space
    train: dict[str, Array]
    evaluation: dict[str, Array]

    @property
    def input(self) -> str:
        return next(name for name in self.train if name != "labels")

    def loss(self, samples: np.ndarray | slice) -> torch.Tensor:
        """PyTorch's mean loss of training samples."""
        x, labels = torch.tensor(self.train[self.input][samples]), torch.tensor(self.train["labels"][samples])
        return F.cross_entropy(self.module(x), labels)

    def gradients(self, samples: np.ndarray | slice) -> dict[str, Array]:
        """PyTorch's gradient of the mean loss, of every unit, f64."""
        names = dict(self.module.named_parameters())
        found = torch.autograd.grad(self.loss(samples), list(names.values()))
        return {name: one.numpy().astype(np.float64) for name, one in zip(names, found, strict=True)}


@cache
def task(name: str, batch: int) -> Task:
    """A task with the model imported for a batch; plain gradient descent unless a test changes the recipe."""
    torch.manual_seed(7)
    module: Any = MODELS[name]().eval()
    rng = np.random.default_rng(3)
    sets = []
    for count in (48, 64):
        x, labels = module.samples(rng, count)
        sets.append({module.input: x, "labels": labels})
    graph = pock.from_torch(module, (torch.tensor(sets[0][module.input][:batch]),))
    space = Space.of(graph, Recipe("cross_entropy", {"name": "sgd", "lr": 0.05}))
    return Task(module, space, sets[0], sets[1])
