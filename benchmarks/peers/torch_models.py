"""The models in PyTorch, which is the definition that the others repeat. All in evaluation mode: batch norms are
frozen and nothing is dropped."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
)

from benchmarks.peers.architectures import MCUNET_BLOCKS, Bottleneck
from benchmarks.workloads import Family

_OF_TRANSFORMERS: dict[str, tuple[Any, Any]] = {
    "bert": (BertForSequenceClassification, BertConfig),
    "mobilenetv2": (MobileNetV2ForImageClassification, MobileNetV2Config),
    "resnet50": (ResNetForImageClassification, ResNetConfig),
    "distilbert": (DistilBertForSequenceClassification, DistilBertConfig),
    "llama": (LlamaForCausalLM, LlamaConfig),
}


def build(family: Family) -> nn.Module:
    """The family's model with random weights."""
    if family.name == "mcunet":
        return McuNet(**family.config)
    model, config = _OF_TRANSFORMERS[family.name]
    built: nn.Module = model(config(**family.config))
    return built.eval()


def settled(family: Family) -> nn.Module:
    """The model with the same weights each time; running statistics are those of random images, so that activations
    have the scale of a trained network's."""
    torch.manual_seed(0)
    model = build(family)
    if any(isinstance(module, nn.BatchNorm2d) for module in model.modules()):
        model.train()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None  # a plain mean over the batches seen
        with torch.no_grad():
            model(torch.from_numpy(family.feed(batch=8)[family.input_name]))
    return model.eval()


def logits_of(model: nn.Module, input: Tensor) -> Tensor:
    result = model(input)
    logits: Tensor = result if isinstance(result, Tensor) else result.logits
    return logits


class ConvNorm(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True
    ) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.normalization = nn.BatchNorm2d(outputs)
        self.activation = nn.ReLU6() if relu else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.activation(self.normalization(self.convolution(x)))
        return y


class InvertedBottleneck(nn.Module):
    def __init__(self, block: Bottleneck) -> None:
        super().__init__()
        if block.expanded != block.inputs:
            self.expand = ConvNorm(block.inputs, block.expanded, 1)
        self.depthwise = ConvNorm(block.expanded, block.expanded, block.kernel, block.stride, groups=block.expanded)
        self.project = ConvNorm(block.expanded, block.outputs, 1, relu=False)
        self.residual = block.residual

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.expand(x) if hasattr(self, "expand") else x
        y = self.project(self.depthwise(y))
        return x + y if self.residual else y


class McuNet(nn.Module):
    """Blocks of the kind and width that MCUNet's search finds for 128 x 128 images on a microcontroller, or others."""

    def __init__(self, classes: int, blocks: tuple[Bottleneck, ...] = MCUNET_BLOCKS, channels: int = 3) -> None:
        super().__init__()
        self.stem = ConvNorm(channels, blocks[0].inputs, 3, stride=2)
        self.blocks = nn.Sequential(*map(InvertedBottleneck, blocks))
        self.classifier = nn.Linear(blocks[-1].outputs, classes)
        self.eval()

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.blocks(self.stem(pixel_values)).mean((2, 3)))
        return logits
