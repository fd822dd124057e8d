"""Layers that the families leave out, each in the smallest model with a head, trained beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import pockengine.frontends
from pockengine.autodiff import train_graph
from pockengine.codegen.c import CBackend
from pockengine.passes import ALGEBRA, NOTHING, SHAPING, optimise
from pockengine.recipe import AdamW, Recipe, resolve
from pockengine.targets import get
from tests.compiler.models.agreement import compared
from tests.compiler.models.family import Family, classes, gaussian
from tests.sweeps import some

BATCH, CLASSES = 2, 3


class WithHead(nn.Module):
    """A body, the mean over everything but batch and channels, and a linear head."""

    def __init__(self, body: nn.Module, channels: int, last: bool = False) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(channels, CLASSES)
        self.last = last

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.body(x)
        y = y[0] if isinstance(y, tuple) else y
        axes = list(range(1, y.ndim - 1)) if self.last else list(range(2, y.ndim))
        return {"logits": self.head(torch.tanh(y).mean(axes))}


class Unpooling(nn.Module):
    """Max pooling that remembers where its maxima were, and its inverse."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv2d(2, 4, 3, padding=1)
        self.pool = nn.MaxPool2d(2, return_indices=True)
        self.after = nn.Conv2d(4, 4, 3, padding=1)
        self.unpool = nn.MaxUnpool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, places = self.pool(self.before(x))
        return self.unpool(torch.tanh(self.after(y)), places) * 2.0


def volumes() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(2, 4, 3, stride=(1, 2, 1), padding=1),
        nn.MaxPool3d(2, stride=1, ceil_mode=True),
        nn.Tanh(),
        nn.Conv3d(4, 4, (3, 1, 2), dilation=(2, 1, 1), padding=(2, 0, 1), groups=2, bias=False),
        nn.AvgPool3d((2, 1, 2), padding=(1, 0, 1), count_include_pad=False),
    )


def upsampling() -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1),
        nn.Tanh(),
        nn.ConvTranspose2d(4, 6, (2, 3), stride=(2, 1), dilation=(1, 2), groups=2),
    )


def signals() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(2, 6, 5, stride=2, padding=2),
        nn.Tanh(),
        nn.Conv1d(6, 6, 3, dilation=2, groups=6),
        nn.LocalResponseNorm(3),
        nn.LPPool1d(2, 2),
        nn.ConvTranspose1d(6, 4, 4, stride=2, padding=1),
    )


STEPS, WIDTH, HIDDEN = 7, 5, 6
SEQUENCE = (BATCH, STEPS, WIDTH)
LAYERS: dict[str, tuple[Callable[[], nn.Module], int, tuple[int, ...]]] = {
    "conv1d": (signals, 4, (BATCH, 2, 24)),
    "conv_transpose2d": (upsampling, 6, (BATCH, 2, 5, 4)),
    "conv3d": (volumes, 4, (BATCH, 2, 5, 6, 5)),
    "conv_transpose3d": (lambda: nn.ConvTranspose3d(2, 4, (3, 2, 3), (2, 1, 2), (1, 0, 1)), 4, (BATCH, 2, 3, 4, 3)),
    "max_unpool": (Unpooling, 4, (BATCH, 2, 6, 6)),
    "lstm": (lambda: nn.LSTM(WIDTH, HIDDEN, batch_first=True), HIDDEN, SEQUENCE),
    "lstm2": (lambda: nn.LSTM(WIDTH, HIDDEN, 2, bias=False, batch_first=True), HIDDEN, SEQUENCE),
    "lstm_bidirectional": (
        lambda: nn.LSTM(WIDTH, HIDDEN, bidirectional=True, batch_first=True),
        2 * HIDDEN,
        SEQUENCE,
    ),
    "gru": (lambda: nn.GRU(WIDTH, HIDDEN, batch_first=True), HIDDEN, SEQUENCE),
    "gru_bidirectional": (lambda: nn.GRU(WIDTH, HIDDEN, 2, bidirectional=True, batch_first=True), 2 * HIDDEN, SEQUENCE),
    "rnn": (lambda: nn.RNN(WIDTH, HIDDEN, nonlinearity="relu", batch_first=True), HIDDEN, SEQUENCE),
}


@pytest.mark.parametrize("name", some(LAYERS, 4))
def test_trains_as_pytorch_does(name: str) -> None:
    build, channels, shape = LAYERS[name]
    torch.manual_seed(0)
    module = WithHead(build(), channels, last=shape == SEQUENCE).eval()
    inputs = gaussian("x", *shape)
    family = Family(name, lambda: module, inputs, classes(CLASSES, BATCH), sparse="full")
    graph = pockengine.frontends.from_torch(module, kwargs=inputs(0))
    recipe = Recipe(optimizer=AdamW(lr=1e-3, eps=1e-3), batch=BATCH)
    assert compared(family, graph, recipe).problems == ()


def _kernels(steps: int) -> tuple[int, int]:
    """Nodes and kernels of the training step of an LSTM over so many steps."""
    torch.manual_seed(0)
    module = WithHead(nn.LSTM(WIDTH, HIDDEN, batch_first=True), HIDDEN, last=True).eval()
    graph = pockengine.frontends.from_torch(module, kwargs={"x": torch.zeros(BATCH, steps, WIDTH)})
    recipe = Recipe(optimizer=AdamW(lr=1e-3), batch=BATCH)
    graph = optimise(train_graph(graph, recipe, resolve(recipe, graph)), ALGEBRA + SHAPING, NOTHING)
    backend, target = CBackend(), get("host")
    lowered = [backend.lower(node, target, 1) for node in graph.nodes if node.op != "reshape"]
    return len(lowered), len({call.kernel.symbol for part in lowered for call in part.calls})


def test_steps_share_their_kernels() -> None:
    (nodes, kernels), (more_nodes, as_many) = _kernels(8), _kernels(40)
    assert more_nodes > 2 * nodes
    assert as_many == kernels
