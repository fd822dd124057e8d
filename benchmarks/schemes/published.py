"""Published schemes for the architectures of the tasks (PockEngine, MICRO 2023; TTE, arXiv 2206.15472).

Where a network here has another depth, the same shares of its blocks are taken, and the head always with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Rules = list[Any]


def _mcunet() -> Rules:
    """Biases of the last 7 of 16 blocks, the first convolutions of four blocks at 100, 100, 50, 100 %: here of 13."""
    weights = [{"params": f"blocks.{number}.expand.convolution.weight"} for number in (7, 8, 10)]
    biases = [{"params": f"blocks.{number}.*.bias"} for number in range(7, 13)]
    return ["head", *weights, {"params": "blocks.9.expand.convolution.weight", "channels": 0.5}, *biases]


def _mobilenetv2() -> Rules:
    """Biases and the first 1x1 convolution of the last 7 of 17 blocks; `transformers` counts 16 after the stem's."""
    layers = range(9, 16)
    weights = [{"params": f"mobilenet_v2.layer.{number}.expand_1x1.convolution.weight"} for number in layers]
    biases = [{"params": f"mobilenet_v2.layer.{number}.*.bias"} for number in layers]
    return ["head", *weights, *biases]


def _resnet18() -> Rules:
    """Of the last half of the blocks the first convolution and the biases, as for ResNet-50's last 8 of 16."""
    return [
        "head",
        {"params": "resnet.encoder.stages.[23].layers.*.layer.0.convolution.weight"},
        {"params": "resnet.encoder.stages.[23].*.bias"},
    ]


def _distilbert() -> Rules:
    """Biases of the last half of the layers; attention and first linear layer of the last third, here of one."""
    return [
        "head",
        {"params": "pre_classifier.*"},
        {"params": "distilbert.transformer.layer.3.attention.*"},
        {"params": "distilbert.transformer.layer.3.ffn.lin1.*"},
        {"params": "distilbert.transformer.layer.[23].*.bias"},
    ]


def _vit() -> Rules:
    """BERT's: biases of the last half of the layers; attention and first linear layer of the last third, here one."""
    return [
        "head",
        {"params": "vit.*.3.attention.*"},
        {"params": "vit.*.3.*fc1*"},
        {"params": "vit.*.[23].*bias"},
    ]


def _llama() -> Rules:
    """Attention and first linear layers of the last 5 of 32 layers, here of one; there are no biases."""
    return ["head", {"params": "model.layers.3.self_attn.*"}, {"params": "model.layers.3.mlp.gate_proj.*"},
            {"params": "model.layers.3.mlp.up_proj.*"}]  # fmt: skip


PUBLISHED: Mapping[str, Rules] = {
    "mcunet": _mcunet(),
    "mobilenetv2": _mobilenetv2(),
    "resnet18": _resnet18(),
    "vit": _vit(),
    "distilbert": _distilbert(),
    "llama": _llama(),
}
"""The `update` of a recipe by architecture; none is published for the others."""
