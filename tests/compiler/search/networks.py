"""Small networks for searches, and data that they can learn."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import torch
from torch import nn

import pockengine as pock
from pockengine.ir import Array, Graph

BATCH, CLASSES = 8, 4


@cache
def module() -> nn.Sequential:
    """A few convolutions, pre-trained on bars that are bright: of dark ones it knows little, and a new head alone
    learns them slowly."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, groups=16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, CLASSES),
    )
    data = samples(512, dark=False, seed=1)
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["labels"])
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


@cache
def graph() -> Graph:
    """Imported for batches of BATCH; its input is `x`."""
    return pock.from_torch(module(), kwargs={"input": torch.zeros(BATCH, 1, 10, 10)})


def samples(count: int, dark: bool = True, seed: int = 2) -> dict[str, Array]:
    """Bars at four angles, moved at random, in noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    rows, columns = np.mgrid[0:10, 0:10] - 4.5
    angles = (labels * np.pi / CLASSES)[:, None, None]
    moved = rng.uniform(-2.5, 2.5, count)[:, None, None]
    across = rows[None] * np.cos(angles) + columns[None] * np.sin(angles) - moved
    images = np.where(np.abs(across) < 1, 1.0, 0.0) + rng.normal(0, 0.2, (count, 10, 10))
    return {"x": (1 - images if dark else images).astype(np.float32)[:, None], "labels": labels}


def named(data: Mapping[str, Array], found: Graph) -> dict[str, Array]:
    """The data under the name of a graph's input."""
    return {(found.inputs[0].name if name == "x" else name): array for name, array in data.items()}
