"""Three models at a size where plans and kernels look as real ones do, with several recipes each.

Tests of every stage share them. The families beside them are many and tiny.
"""

from __future__ import annotations

from collections.abc import Mapping
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

from .family import Family, classes, images, settle, tokens

BATCH = 4


def _mobilenet_v2() -> nn.Module:
    torch.manual_seed(0)
    config = MobileNetV2Config(depth_multiplier=0.35, image_size=64, num_labels=10, classifier_dropout_prob=0.0)
    return settle(MobileNetV2ForImageClassification(config), images(64, BATCH))


def _resnet18() -> nn.Module:
    torch.manual_seed(0)
    config = ResNetConfig(
        layer_type="basic", depths=[2, 2, 2, 2], embedding_size=32, hidden_sizes=[32, 64, 128, 256], num_labels=10
    )
    return settle(ResNetForImageClassification(config), images(32, BATCH))


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
    return settle(BertForSequenceClassification(config), tokens(128, BATCH))


def _channels(head: str, sparse: str) -> list[dict[str, Any]]:
    return [{"params": head}, {"params": sparse, "channels": 0.5}]


def _updates(last: int, channels: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "full": [{"params": "*"}],
        "bias": [{"params": "*bias"}],
        "last": [{"params": "*", "last": last}],
        "channels": channels,
    }


MODELS = {
    family.name: family
    for family in (
        Family(
            "mobilenet_v2",
            _mobilenet_v2,
            images(64, BATCH),
            classes(10, BATCH),
            _channels("classifier.*", "mobilenet_v2.layer.1[2-5].*.convolution.weight"),
        ),
        Family(
            "resnet18",
            _resnet18,
            images(32, BATCH),
            classes(10, BATCH),
            _channels("classifier.*", "resnet.encoder.stages.[23].*.convolution.weight"),
        ),
        Family(
            "bert",
            _bert,
            tokens(128, BATCH),
            classes(3, BATCH),
            _channels("classifier.*", "bert.encoder.layer.1.*.dense.weight"),
        ),
    )
}
UPDATES: Mapping[str, Mapping[str, Any]] = {
    name: _updates(last, MODELS[name].sparse) for name, last in {"mobilenet_v2": 20, "resnet18": 12, "bert": 10}.items()
}
"""Model -> recipe name -> its `update` list."""


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
