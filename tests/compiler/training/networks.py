"""Small networks given twice, in the IR and as a function of PyTorch tensors, and their training in PyTorch.

All are smooth: two correct programs stay together over any number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pockengine.ir import Array, Builder, DType, Graph, TensorType, Value
from pockengine.ops import Emitter
from pockengine.recipe import Channels, Recipe, Scheme, resolve

BATCH = 8
CLASSES = 4
VOCABULARY = 11


@dataclass(frozen=True)
class Network:
    """`build` makes the graph for a batch; `forward` gives the logits from the parameters and the input."""

    name: str
    input: tuple[int, ...]
    classes: int
    build: Callable[[int], Graph]
    forward: Callable[[Mapping[str, Tensor], Tensor], Tensor]
    tokens: int = 0

    def batch(self, step: int, samples: int = BATCH) -> dict[str, Array]:
        """Inputs and labels of one step."""
        rng = np.random.default_rng(1000 + step)
        shape = (samples, *self.input)
        x = rng.integers(0, self.tokens, shape) if self.tokens else rng.standard_normal(shape).astype(np.float32)
        return {"x": x, "labels": rng.integers(0, self.classes, samples)}


def _param(builder: Builder, name: str, *shape: int) -> Value:
    rng = np.random.default_rng(sum(name.encode()))
    data = (0.5 * rng.standard_normal(shape)).astype(np.float32)
    return builder.param(name, TensorType(DType.F32, shape), data)


def _linear(e: Emitter, x: Value, name: str, out: int) -> Value:
    weight, bias = _param(e.builder, f"{name}.weight", out, x.type.shape[-1]), _param(e.builder, f"{name}.bias", out)
    return e.add(e.matmul(x, e.transpose(weight, (1, 0))), bias)


def _mlp(batch: int) -> Graph:
    builder = Builder("mlp")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (batch, 6)))
    builder.outputs = {"logits": _linear(e, e.op("tanh", _linear(e, x, "fc1", 12)), "fc2", CLASSES)}
    return builder.finish()


def _mlp_forward(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    return F.linear(torch.tanh(F.linear(x, p["fc1.weight"], p["fc1.bias"])), p["fc2.weight"], p["fc2.bias"])


def _cnn(batch: int) -> Graph:
    builder = Builder("cnn")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (batch, 4, 6, 6)))
    attrs = {"stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, "layout": "NCHW"}
    h = e.op("tanh", e.op("conv2d", x, _param(builder, "conv1.weight", 6, 4, 3, 3), **attrs))
    h = e.op("tanh", e.op("conv2d", h, _param(builder, "conv2.weight", 8, 6, 3, 3), **attrs))
    pooled = e.reshape(e.mean(h, (2, 3)), (batch, 8))
    builder.outputs = {"logits": _linear(e, pooled, "fc", CLASSES)}
    return builder.finish()


def _cnn_forward(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    h = torch.tanh(F.conv2d(x, p["conv1.weight"], padding=1))
    h = torch.tanh(F.conv2d(h, p["conv2.weight"], padding=1))
    return F.linear(h.mean((2, 3)), p["fc.weight"], p["fc.bias"])


def _tied(batch: int) -> Graph:
    """The table of token vectors is also the matrix of the last layer."""
    builder = Builder("tied")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.I64, (batch, 5)))
    table = _param(builder, "embed.weight", VOCABULARY, 6)
    h = e.reshape(e.mean(e.op("gather", table, x, axis=0), (1,)), (batch, 6))
    h = e.op("tanh", _linear(e, h, "mix", 6))
    builder.outputs = {"logits": e.matmul(h, e.transpose(table, (1, 0)))}
    return builder.finish()


def _tied_forward(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    h = torch.tanh(F.linear(F.embedding(x, p["embed.weight"]).mean(1), p["mix.weight"], p["mix.bias"]))
    return h @ p["embed.weight"].T


MLP = Network("mlp", (6,), CLASSES, _mlp, _mlp_forward)
CNN = Network("cnn", (4, 6, 6), CLASSES, _cnn, _cnn_forward)
TIED = Network("tied", (5,), VOCABULARY, _tied, _tied_forward, VOCABULARY)


@dataclass
class Torch:
    """The PyTorch side: what the scheme trains are leaves, a channel-sparse weight by its slice alone."""

    network: Network
    scheme: Scheme
    leaves: dict[str, nn.Parameter] = field(default_factory=dict)

    @classmethod
    def of(cls, network: Network, recipe: Recipe) -> Torch:
        torch.set_num_threads(1)  # PyTorch's spinning threads are many times slower where tests run side by side
        graph = network.build(BATCH)
        side = cls(network, resolve(recipe, graph))
        side.start = {name: torch.from_numpy(array.copy()) for name, array in graph.data.items()}
        for name in side.scheme.trained():
            side.leaves[name] = nn.Parameter(side.slice(name, side.start[name]).clone())
        return side

    start: dict[str, Tensor] = field(default_factory=dict)

    def slice(self, name: str, full: Tensor) -> Tensor:
        what = self.scheme.of(name)
        return full.index_select(what.axis, torch.tensor(what.indices)) if isinstance(what, Channels) else full

    def parameters(self, leaves: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """All parameters, the leaves (or what is given for them) put in their place."""
        found = dict(self.start)
        for name, leaf in (leaves or self.leaves).items():
            what = self.scheme.of(name)
            if isinstance(what, Channels):
                leaf = self.start[name].index_copy(what.axis, torch.tensor(what.indices), leaf)
            found[name] = leaf
        return found

    def loss(self, batch: Mapping[str, Array]) -> Tensor:
        logits = self.network.forward(self.parameters(), torch.from_numpy(batch["x"]))
        return F.cross_entropy(logits, torch.from_numpy(batch["labels"]))

    def steps(
        self,
        optimizer: torch.optim.Optimizer,
        count: int,
        samples: int = BATCH,
        scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
        clip: Callable[[list[nn.Parameter]], object] | None = None,
    ) -> Iterator[float]:
        """Train; the loss of each step."""
        for step in range(count):
            loss = self.loss(self.network.batch(step, samples))
            optimizer.zero_grad()
            loss.backward()
            if clip:
                clip(list(self.leaves.values()))
            optimizer.step()
            if scheduler:
                scheduler.step()
            yield loss.item()


def assert_same_training(
    found: Mapping[str, Array], losses: list[float], side: Torch, expected_losses: list[float]
) -> None:
    """Losses, what became of every trained tensor, and that nothing else moved."""
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    for name, tensor in side.parameters().items():
        start, expected = side.start[name].numpy(), tensor.detach().numpy()
        change = np.abs(expected - start).max()
        assert (change > 0) == (name in side.leaves), name
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-3 * change, err_msg=name)
        if isinstance(what := side.scheme.of(name), Channels):
            frozen = np.setdiff1d(np.arange(start.shape[what.axis]), what.indices)
            np.testing.assert_array_equal(found[name].take(frozen, what.axis), start.take(frozen, what.axis), name)
