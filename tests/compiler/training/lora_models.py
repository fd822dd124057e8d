"""A module with every kind of weight that an adapter may meet, and PyTorch's side of low-rank adaptation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from pockengine.ir import Array

BATCH = 4


class Mixed(nn.Module):
    """Convolutions of three kinds (one grouped), a matrix stored `[in, out]`, a layer used twice, a table, a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise = nn.Conv2d(8, 12, 1, bias=False)
        self.signal = nn.Conv1d(1, 3, 3, padding=1)
        self.wide = Conv1D(16, 12)
        self.shared = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.table = nn.Embedding(5, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        images = self.pointwise(torch.tanh(self.depthwise(torch.tanh(self.conv(x)))))
        signal = self.signal(images.mean((2, 3)).unsqueeze(1)).mean(1)
        hidden = self.norm(self.wide(signal) + self.table(token))
        return self.head(self.shared(torch.tanh(self.shared(hidden))))


def mixed() -> Mixed:
    """The same weights at each call; those that PyTorch starts at zero or one are moved."""
    torch.manual_seed(0)
    module = Mixed()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
        module.wide.weight.mul_(10.0)
    return module.eval()


def batch(seed: int) -> dict[str, Array]:
    """Inputs and labels."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((BATCH, 3, 8, 8)).astype(np.float32),
        "token": rng.integers(0, 5, BATCH),
        "labels": rng.integers(0, 4, BATCH),
    }


def adapt(module: nn.Module, tensors: Mapping[str, Array], alpha: float, dropout: nn.Module | None = None) -> None:
    """Freeze a module and let each layer for which `tensors` has an adapter add it, as PEFT's layers do:
    base(x) + lora_B(lora_A(dropout(x))) * alpha / rank, with the rank of the layer's A. The adapters become parameters
    of their layers."""
    module.requires_grad_(False)
    for name, layer in module.named_modules():
        if f"{name}.lora_A.weight" not in tensors:
            continue
        layer.lora_A, layer.lora_B = nn.Module(), nn.Module()
        for part, key in ((layer.lora_A, "lora_A"), (layer.lora_B, "lora_B")):
            part.weight = nn.Parameter(torch.from_numpy(tensors[f"{name}.{key}.weight"].copy()))
        layer.register_forward_hook(lambda layer, inputs, y: y + alpha * _branch(layer, inputs[0], dropout))


def _branch(layer: Any, x: torch.Tensor, dropout: nn.Module | None) -> torch.Tensor:
    a, b = layer.lora_A.weight, layer.lora_B.weight / len(layer.lora_A.weight)
    x = dropout(x) if dropout is not None else x
    if isinstance(layer, nn.Conv2d):
        return functional.conv2d(functional.conv2d(x, a, None, layer.stride, layer.padding, layer.dilation), b)
    if isinstance(layer, nn.Conv1d):
        return functional.conv1d(functional.conv1d(x, a, None, layer.stride, layer.padding, layer.dilation), b)
    return functional.linear(functional.linear(x, a), b)


def train(module: nn.Module, optimizer: torch.optim.Optimizer, batches: list[dict[str, Array]]) -> list[float]:
    """The losses of one step a batch."""
    torch.set_num_threads(1)
    losses = []
    for feeds in batches:
        inputs = {name: torch.from_numpy(array) for name, array in feeds.items()}
        loss = functional.cross_entropy(module(inputs["x"], inputs["token"]), inputs["labels"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
