"""Small but real models from `transformers` configurations, with inputs, labels and recipes; shared by the tests.

Weights are random and scaled so that training is stable: two correct programs drift apart where it is chaotic, and deep
networks of batch norms with the statistics of random images are. Norms and biases are perturbed, so every one matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
)

import pockengine.frontends
from pockengine.ir import Array, Graph

BATCH = 4


@dataclass(frozen=True)
class ZooModel:
    """One model of the zoo.

    build     the module, in evaluation mode, always with the same weights
    inputs    seed -> keyword arguments of a batch
    classes   labels are drawn from `range(classes)`
    updates   recipe name -> its `update` list"""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], dict[str, torch.Tensor]]
    classes: int
    updates: Mapping[str, Any]

    def labels(self, seed: int) -> torch.Tensor:
        return torch.randint(0, self.classes, (BATCH,), generator=torch.Generator().manual_seed(seed + 1000))

    def feeds(self, seed: int) -> dict[str, Array]:
        """A batch as numpy arrays, labels included."""
        return {name: tensor.numpy() for name, tensor in (*self.inputs(seed).items(), ("labels", self.labels(seed)))}


def _images(size: int) -> Callable[[int], dict[str, torch.Tensor]]:
    def draw(seed: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": torch.randn(BATCH, 3, size, size, generator=torch.Generator().manual_seed(seed))}

    return draw


def _tokens(seed: int) -> dict[str, torch.Tensor]:
    """Token ids, and a mask that hides the padding (token 0) at the end of each sample."""
    ids = torch.randint(1, 128, (BATCH, 16), generator=torch.Generator().manual_seed(seed))
    lengths = 16 - torch.arange(BATCH) * 3
    mask = (torch.arange(16) < lengths[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def _settle(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(7)

    def noise(tensor: torch.Tensor) -> torch.Tensor:
        return torch.randn(tensor.shape, generator=generator)

    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * noise(parameter))
            elif parameter.ndim == 4:
                nn.init.kaiming_normal_(parameter, generator=generator)
        for norm in (part for part in module.modules() if isinstance(part, nn.BatchNorm2d)):
            norm.running_mean.copy_(0.1 * noise(norm.running_mean))
            norm.running_var.copy_(torch.exp(0.2 * noise(norm.running_var)) * 1.5)
    return module.eval()


def _mobilenet_v2() -> nn.Module:
    torch.manual_seed(0)
    config = MobileNetV2Config(depth_multiplier=0.35, image_size=64, num_labels=10, classifier_dropout_prob=0.0)
    return _settle(MobileNetV2ForImageClassification(config))


def _resnet18() -> nn.Module:
    torch.manual_seed(0)
    config = ResNetConfig(
        layer_type="basic", depths=[2, 2, 2, 2], embedding_size=32, hidden_sizes=[32, 64, 128, 256], num_labels=10
    )
    return _settle(ResNetForImageClassification(config))


def _bert() -> nn.Module:
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        vocab_size=128,
        max_position_embeddings=32,
        num_labels=3,
    )
    return _settle(BertForSequenceClassification(config))


def _updates(last: int, head: str, sparse: str) -> dict[str, Any]:
    return {
        "full": [{"params": "*"}],
        "bias": [{"params": "*bias"}],
        "last": [{"params": "*", "last": last}],
        "channels": [{"params": head}, {"params": sparse, "channels": 0.5}],
    }


MODELS = {
    model.name: model
    for model in (
        ZooModel(
            "mobilenet_v2",
            _mobilenet_v2,
            _images(64),
            10,
            _updates(20, "classifier.*", "mobilenet_v2.layer.1[2-5].*.convolution.weight"),
        ),
        ZooModel(
            "resnet18",
            _resnet18,
            _images(32),
            10,
            _updates(12, "classifier.*", "resnet.encoder.stages.[23].*.convolution.weight"),
        ),
        ZooModel("bert", _bert, _tokens, 3, _updates(10, "classifier.*", "bert.encoder.layer.1.*.dense.weight")),
    )
}


@cache
def module(name: str) -> nn.Module:
    """The module, built once: treat it as read-only."""
    return MODELS[name].build()


@cache
def graph(name: str) -> Graph:
    """The imported graph, made once."""
    return pockengine.frontends.from_torch(module(name), kwargs=MODELS[name].inputs(0))


def parameters(name: str) -> dict[str, Array]:
    """The model's state, as numpy copies."""
    return {key: tensor.numpy().copy() for key, tensor in module(name).state_dict().items()}
