"""`from_torch` in a process that has exported before: nothing that PyTorch keeps (fake tensors' caches, parametrised
modules, half an export) changes what is imported. And names that the exporter uses twice."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

import pockengine as pock
from pockengine.interp import evaluate
from pockengine.ir import render
from tests.sweeps import some


class Net(nn.Module):
    """Views of one tensor as buffers, attention seen through views, two widths of numbers."""

    turned: Tensor
    part: Tensor
    narrow: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        base = torch.randn(8, 16)
        self.register_buffer("turned", base.t()[::2])
        self.register_buffer("part", base.t()[:8], persistent=False)
        self.register_buffer("narrow", torch.randn(8).to(torch.bfloat16))

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.norm(self.conv(x))).permute(0, 2, 3, 1).flatten(1, 2)
        q, k, v = (f(h).view(x.shape[0], -1, 2, 4).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).contiguous().view(h.shape)
        return (h + mixed + self.narrow.float() + self.part[:, :8].sum(0) + self.turned.mean(0)).mean(1)


class Undecided(nn.Module):
    """Half of it is exported, then it asks what no exporter knows."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: Tensor) -> Tensor:
        y = self.net(x)
        return y if y.sum() > 0 else -y


X = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
KEPT: list[Any] = []
"""What the exports made stays alive."""


def strict(net: nn.Module) -> Any:
    return torch.export.export(net, (X,), strict=True)


def decomposed(net: nn.Module) -> Any:
    return torch.export.export(net.train(), (X,), strict=False).run_decompositions()


def to_onnx(net: nn.Module) -> Any:
    return torch.onnx.export(net, (X,), dynamo=True, verbose=False)


def traced(net: nn.Module) -> Any:
    return torch.jit.trace(net, (X,))


def compiled(net: nn.Module) -> Any:
    run = torch.compile(net, backend="aot_eager")
    run(X).sum().backward()
    return run


def half_way(net: nn.Module) -> Any:
    with contextlib.suppress(Exception):
        torch.export.export(Undecided(), (X,), strict=False)


def faked(net: nn.Module) -> Any:
    with FakeTensorMode() as mode:
        return mode, Net()(torch.randn(X.shape))


def channels_last(net: nn.Module) -> Any:
    """Strides of the parameters that the same names had before."""
    return torch.export.export(net.to(memory_format=torch.channels_last), (X,), strict=False)  # type: ignore[call-overload]


BEFORE: list[Callable[[nn.Module], Any]] = [
    strict, decomposed, to_onnx, traced, compiled, half_way, faked, channels_last
]  # fmt: skip


@cache
def alone() -> str:
    """The first import's graph."""
    return render(pock.from_torch(Net(), (X,)))


@pytest.mark.parametrize("before", some(BEFORE, 2))
def test_the_same_module_is_the_same_graph(before: Callable[[nn.Module], Any]) -> None:
    first, net = alone(), Net().eval()
    with contextlib.redirect_stdout(io.StringIO()):
        KEPT.append(before(net))
    assert render(pock.from_torch(net, (X,))) == first


class Named(nn.Module):
    """Weights that are called as the exporter calls what nodes make."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mean, self.view = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(1, keepdim=True)).view(2, -1, 4) * self.mean + self.view


def test_a_weight_called_as_a_function_is() -> None:
    module, x = Named(), torch.randn(2, 3, 8)
    graph = pock.from_torch(module, (x,))
    (found,) = evaluate(graph, {"x": x.numpy()}).values()
    np.testing.assert_allclose(found, module(x).detach().numpy(), atol=1e-5)
    assert {value.name for value in graph.params} == dict(module.named_parameters()).keys()
