"""Small models with all that a search meets: depthwise convolutions, norms, skips; attention, embeddings."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn
from transformers import DistilBertConfig, DistilBertForSequenceClassification

import pockengine as pock
from pockengine.ir import Graph
from pockengine.recipe import Recipe
from pockengine.search import Space

BATCH = 4
MOMENTUM = {"name": "sgd", "lr": 0.1, "momentum": 0.9}


class Bottleneck(nn.Module):
    """An inverted residual block of MobileNetV2."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        inside = 4 * inputs
        self.expand = nn.Sequential(nn.Conv2d(inputs, inside, 1, bias=False), nn.BatchNorm2d(inside), nn.ReLU6())
        depthwise = nn.Conv2d(inside, inside, 3, stride, 1, groups=inside, bias=False)
        self.depthwise = nn.Sequential(depthwise, nn.BatchNorm2d(inside), nn.ReLU6())
        self.project = nn.Sequential(nn.Conv2d(inside, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.skips = inputs == outputs and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.skips else y


@cache
def bottlenecks() -> Graph:
    """Images [4, 3, 32, 32] through four blocks to 10 classes."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()),
        Bottleneck(16, 16, 1),
        Bottleneck(16, 24, 2),
        Bottleneck(24, 24, 1),
        Bottleneck(24, 24, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    ).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 2.0)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    return pock.from_torch(model, (torch.zeros(BATCH, 3, 32, 32),))


@cache
def transformer() -> Graph:
    """Tokens [4, 32] of a vocabulary of 8192 through three layers of width 64 to 3 classes."""
    torch.manual_seed(0)
    config = DistilBertConfig(
        vocab_size=8192, dim=64, hidden_dim=256, n_heads=4, n_layers=3, max_position_embeddings=32, num_labels=3
    )
    model = DistilBertForSequenceClassification(config).eval()
    return pock.from_torch(model, (torch.zeros(BATCH, 32, dtype=torch.int64),))


@cache
def perceptron() -> Graph:
    """Numbers [4, 8] through two layers to 3 classes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    return pock.from_torch(model, (torch.zeros(BATCH, 8),))


def space_of(graph: Graph, **recipe: Any) -> Space:
    """Every scheme of a model, trained by SGD with momentum unless the recipe says otherwise."""
    return Space.of(graph, Recipe("cross_entropy", **{"optimizer": MOMENTUM, **recipe}))
