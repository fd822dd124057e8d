"""Small models written twice, in the IR and in PyTorch, with the same parameters: what training is tested on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from pockengine.ir import Array, DType, Graph, TensorType
from tests.compiler.passes.networks import Net

BATCH, TIME, CLASSES = 4, 5, 6
Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class SmallModel:
    """build: the graph, parameters included. forward: (parameters, inputs) -> outputs, by PyTorch. inputs: random."""

    build: Callable[[], Graph]
    forward: Callable[[Tensors, Tensors], dict[str, torch.Tensor]]
    inputs: Callable[[np.random.Generator], dict[str, Array]]


def _floats(*shape: int) -> Callable[[np.random.Generator], dict[str, Array]]:
    return lambda rng: {"x": rng.standard_normal(shape).astype(np.float32)}


def _perceptron() -> Graph:
    """x [batch, 7] -> logits and features [batch, classes]: two heads on one hidden layer."""
    net = Net("perceptron", seed=3)
    x = net.builder.input("x", TensorType(DType.F32, (BATCH, 7)))
    hidden = net.e.op("tanh", net.linear(x, "fc1", 8))
    net.builder.outputs = {"logits": net.linear(hidden, "fc2", CLASSES), "features": net.linear(hidden, "fc3", CLASSES)}
    return net.builder.finish()


def _perceptron_forward(p: Tensors, inputs: Tensors) -> dict[str, torch.Tensor]:
    hidden = torch.tanh(F.linear(inputs["x"], p["fc1.weight"], p["fc1.bias"]))
    return {
        name: F.linear(hidden, p[f"{layer}.weight"], p[f"{layer}.bias"])
        for name, layer in (("logits", "fc2"), ("features", "fc3"))
    }


def _tokens() -> Graph:
    """input_ids and attention_mask [batch, time] -> logits [batch, time, classes]; the mask is read by losses alone."""
    net = Net("tokens", seed=4)
    ids = net.builder.input("input_ids", TensorType(DType.I64, (BATCH, TIME)))
    net.builder.input("attention_mask", TensorType(DType.I64, (BATCH, TIME)))
    table = net.param("embed.weight", CLASSES, 8)
    return net.finish(net.linear(net.e.op("tanh", net.e.op("gather", table, ids, axis=0)), "fc", CLASSES))


def _tokens_forward(p: Tensors, inputs: Tensors) -> dict[str, torch.Tensor]:
    return {"logits": F.linear(torch.tanh(p["embed.weight"][inputs["input_ids"]]), p["fc.weight"], p["fc.bias"])}


def _tokens_inputs(rng: np.random.Generator) -> dict[str, Array]:
    lengths = rng.integers(2, TIME + 1, (BATCH, 1))
    return {
        "input_ids": rng.integers(0, CLASSES, (BATCH, TIME)),
        "attention_mask": (np.arange(TIME) < lengths).astype(np.int64),
    }


def _images() -> Graph:
    """x [batch, 3, 4, 5] -> logits [batch, classes, 4, 5]."""
    net = Net("images", seed=5)
    x = net.builder.input("x", TensorType(DType.F32, (BATCH, 3, 4, 5)))
    return net.finish(net.conv(net.relu6(net.conv(x, "c1", 8, 3)), "c2", CLASSES, 1))


def _images_forward(p: Tensors, inputs: Tensors) -> dict[str, torch.Tensor]:
    hidden = F.relu6(F.conv2d(inputs["x"], p["c1.weight"], padding=1))
    return {"logits": F.conv2d(hidden, p["c2.weight"])}


def _own_loss() -> Graph:
    """x [batch, 7], truth [batch, classes] -> loss (a scalar) and logits."""
    net = Net("own_loss", seed=6)
    x = net.builder.input("x", TensorType(DType.F32, (BATCH, 7)))
    truth = net.builder.input("truth", TensorType(DType.F32, (BATCH, CLASSES)))
    logits = net.linear(x, "fc", CLASSES)
    off = net.e.sub(logits, truth)
    net.builder.outputs = {"loss": net.e.mean(net.e.mul(off, off), (0, 1), keepdims=False), "logits": logits}
    return net.builder.finish()


def _own_loss_forward(p: Tensors, inputs: Tensors) -> dict[str, torch.Tensor]:
    logits = F.linear(inputs["x"], p["fc.weight"], p["fc.bias"])
    return {"loss": F.mse_loss(logits, inputs["truth"]), "logits": logits}


def _own_loss_inputs(rng: np.random.Generator) -> dict[str, Array]:
    return {**_floats(BATCH, 7)(rng), "truth": rng.standard_normal((BATCH, CLASSES)).astype(np.float32)}


MODELS = {
    "perceptron": SmallModel(_perceptron, _perceptron_forward, _floats(BATCH, 7)),
    "tokens": SmallModel(_tokens, _tokens_forward, _tokens_inputs),
    "images": SmallModel(_images, _images_forward, _floats(BATCH, 3, 4, 5)),
    "own_loss": SmallModel(_own_loss, _own_loss_forward, _own_loss_inputs),
}
