"""A small transformer whose matrices are large enough to be quantised, and PyTorch's side of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from pockengine.artifact import Artifact
from pockengine.autodiff import Quantised
from pockengine.frontends import from_torch
from pockengine.ir import Array, Graph

BATCH, TIME, WIDTH, CLASSES = 3, 7, 144, 5


class Block(nn.Module):
    """Attention of two heads and a feed-forward layer, each after a norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 200), nn.Linear(200, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.first(x)
        q, k, v = (
            layer(normed).view(BATCH, TIME, 2, WIDTH // 2).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(BATCH, TIME, WIDTH)
        x = x + self.out(mixed)
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    """Scores of each sequence of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(130, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.table(token)).mean(1))


def transformer() -> Transformer:
    """The same weights at each call."""
    torch.manual_seed(0)
    return Transformer().eval()


@cache
def graph() -> Graph:
    return from_torch(transformer(), torch.from_numpy(batch(0)["token"]))


def batch(seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {"token": rng.integers(0, 130, (BATCH, TIME)), "labels": rng.integers(0, CLASSES, BATCH)}


def restored(artifact: Artifact, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """What the quantised weights stand for, by the user's names."""
    stored = artifact.manifest.summary["quantised"]
    return {name: Quantised.of(name, how).restored(tensors) for name, how in stored.items()}


def replace(module: nn.Module, weights: Mapping[str, Array]) -> None:
    """Put other contents into some parameters."""
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            parameters[name].copy_(torch.from_numpy(weight))


BATCHES = [batch(seed) for seed in range(10)]


def train(module: nn.Module, trained: Callable[[str], bool]) -> list[float]:
    """The losses of PyTorch's steps on what `trained` says of a parameter's name."""
    torch.set_num_threads(1)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(trained(name))
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
    losses = []
    for feeds in BATCHES:
        loss = functional.cross_entropy(module(torch.from_numpy(feeds["token"])), torch.from_numpy(feeds["labels"]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
