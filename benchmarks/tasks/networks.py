"""The networks of the tasks, in PyTorch: usual architectures at a width that trains in seconds on one core.

What others define is taken from them: `transformers`, and the models that peers are compared on."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

from benchmarks.peers.architectures import bottlenecks
from benchmarks.peers.torch_models import ConvNorm, McuNet

from .images.scene import SIDE
from .sentences import LENGTH, PADDING, VOCABULARY
from .streams import AXES

_MCUNET = bottlenecks(
    16,
    (
        (3, 1, 8, 1),
        (5, 4, 16, 2), (3, 4, 16, 1), (5, 4, 16, 1),
        (5, 4, 24, 1), (3, 4, 24, 1), (5, 4, 24, 1),
        (5, 5, 40, 2), (5, 4, 40, 1), (3, 4, 40, 1),
        (5, 4, 48, 1), (3, 4, 48, 1),
        (5, 5, 64, 1),
    ),
)  # fmt: skip
_TEXT: dict[str, Any] = {"vocab_size": VOCABULARY, "max_position_embeddings": LENGTH, "pad_token_id": PADDING}


def mcunet(classes: int, channels: int = 3) -> nn.Module:
    """13 inverted bottlenecks of mixed kernels."""
    return McuNet(classes, _MCUNET, channels)


def mobilenetv2(classes: int) -> nn.Module:
    """All 17 blocks at 0.35 of the width; after the third halving they are dilated, so 4 x 4 pixels remain.

    transformers gives its batch norms the momentum that TensorFlow means by 0.997, which PyTorch takes as its contrary:
    the running statistics would be those of the last batch."""
    model: nn.Module = MobileNetV2ForImageClassification(
        MobileNetV2Config(image_size=SIDE, depth_multiplier=0.35, output_stride=8, num_labels=classes)
    )
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 0.1
    return model


def resnet18(classes: int) -> nn.Module:
    """ResNet-18 of a quarter of the width, its stem a 3 x 3 convolution: 32 pixels are few."""
    widths = [16, 32, 64, 128]
    config = ResNetConfig(
        embedding_size=widths[0], hidden_sizes=widths, depths=[2, 2, 2, 2], layer_type="basic", num_labels=classes
    )
    model = ResNetForImageClassification(config)
    model.resnet.embedder = ConvNorm(3, widths[0], 3, stride=2)
    made: nn.Module = model
    return made


def vit(classes: int, channels: int = 3) -> nn.Module:
    """ViT of four layers of width 64 over 8 x 8 patches."""
    config = ViTConfig(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=128, image_size=SIDE,
        patch_size=4, num_channels=channels, num_labels=classes,
    )  # fmt: skip
    model: nn.Module = ViTForImageClassification(config)
    return model


def distilbert(classes: int) -> nn.Module:
    """DistilBERT of four layers of width 64."""
    config = DistilBertConfig(dim=64, n_layers=4, n_heads=4, hidden_dim=128, num_labels=classes, **_TEXT)
    model: nn.Module = DistilBertForSequenceClassification(config)
    return model


def llama(classes: int) -> nn.Module:
    """LLaMA of four layers of width 64, two heads of keys for four of queries; the classes are words."""
    config = LlamaConfig(
        hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        intermediate_size=128, use_cache=False, **{**_TEXT, "max_position_embeddings": LENGTH + 1},
    )  # fmt: skip
    model: nn.Module = LlamaForCausalLM(config)
    return model


class _Twice(nn.Module):
    """Two 3 x 3 convolutions."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = ConvNorm(inputs, outputs, 3), ConvNorm(outputs, outputs, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.first(x))
        return y


class _UNet(nn.Module):
    """pixel_values [N, 3, side, side] -> logits [N, classes, side, side]."""

    def __init__(self, classes: int, widths: tuple[int, ...] = (12, 24, 32, 48)) -> None:
        super().__init__()
        ins, outs = (3, *widths[:-1]), widths
        self.down = nn.ModuleList(_Twice(a, b) for a, b in zip(ins, outs, strict=True))
        pairs = list(itertools.pairwise(widths))[::-1]
        self.up = nn.ModuleList(_Twice(narrow + wide, narrow) for narrow, wide in pairs)
        self.classifier = nn.Conv2d(widths[0], classes, 1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        kept, x = [], pixel_values
        for number, stage in enumerate(self.down):
            x = stage(nn.functional.max_pool2d(x, 2) if number else x)
            kept.append(x)
        for stage, before in zip(self.up, kept[-2::-1], strict=True):
            x = stage(torch.cat([nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"), before], 1))
        logits: Tensor = self.classifier(x)
        return logits


def unet(classes: int) -> nn.Module:
    """U-Net of four resolutions."""
    return _UNet(classes)


class _Residual(nn.Module):
    """Two convolutions over time beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(inputs, outputs, 5, stride, 2, bias=False)
        self.norm1 = nn.BatchNorm1d(outputs)
        self.conv2 = nn.Conv1d(outputs, outputs, 5, 1, 2, bias=False)
        self.norm2 = nn.BatchNorm1d(outputs)
        self.shortcut = nn.Conv1d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class _MotionNet(nn.Module):
    """signal [N, axes, length] -> logits [N, classes]."""

    def __init__(self, classes: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.stem = nn.Conv1d(AXES, widths[0], 5, 1, 2)
        pairs = itertools.pairwise(widths)
        self.blocks = nn.Sequential(*(_Residual(narrow, wide, 2) for narrow, wide in pairs))
        self.classifier = nn.Linear(widths[-1], classes)

    def forward(self, signal: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.blocks(torch.relu(self.stem(signal))).mean(2))
        return logits


def motion(classes: int, widths: tuple[int, ...] = (16, 24, 32, 48, 64)) -> nn.Module:
    """A residual network over time: a stem, and a block for each width after its own."""
    return _MotionNet(classes, widths)
