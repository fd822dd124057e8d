"""Convolutional networks that `transformers` has not, with few blocks each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

Output = dict[str, Tensor]


def conv_norm(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, activation: nn.Module | None = None
) -> nn.Sequential:
    """Convolution that keeps the size (but for its stride), batch norm, activation."""
    parts = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)]
    return nn.Sequential(*parts, nn.BatchNorm2d(outputs), *([activation] if activation is not None else []))


class Classifier(nn.Module):
    """Features, global average pooling, a linear layer."""

    def __init__(self, features: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.features = features
        self.classifier = nn.Linear(width, classes)

    def forward(self, pixel_values: Tensor) -> Output:
        return {"logits": self.classifier(self.features(pixel_values).mean((2, 3)))}


class SqueezeExcite(nn.Module):
    """Channels weighted by what global average pooling sees of them (MobileNetV3's, with hard sigmoid)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(width, width // 4, 1)
        self.expand = nn.Conv2d(width // 4, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.expand(torch.relu(self.reduce(nn.functional.adaptive_avg_pool2d(x, 1))))
        return x * nn.functional.hardsigmoid(weight)


class InvertedBottleneck(nn.Module):
    """Expand, depthwise, (squeeze and excite,) reduce; a residual where shapes allow."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, activation: nn.Module, excite: bool = False
    ) -> None:
        super().__init__()
        width = 4 * inputs
        self.residual = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            conv_norm(inputs, width, 1, activation=activation),
            conv_norm(width, width, kernel, stride, groups=width, activation=activation),
            SqueezeExcite(width) if excite else nn.Identity(),
            conv_norm(width, outputs, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


def mobilenet_v3(classes: int) -> nn.Module:
    swish, relu = nn.Hardswish(), nn.ReLU()
    features = nn.Sequential(
        conv_norm(3, 16, stride=2, activation=swish),
        InvertedBottleneck(16, 16, 3, 2, relu, excite=True),
        InvertedBottleneck(16, 24, 5, 2, swish, excite=True),
        InvertedBottleneck(24, 24, 5, 1, swish, excite=True),
        conv_norm(24, 48, 1, activation=swish),
    )
    return Classifier(features, 48, classes)


def mcunet(classes: int) -> nn.Module:
    relu6 = nn.ReLU6()
    features = nn.Sequential(
        conv_norm(3, 16, stride=2, activation=relu6),
        InvertedBottleneck(16, 16, 7, 1, relu6),
        InvertedBottleneck(16, 24, 5, 2, relu6),
        InvertedBottleneck(24, 24, 3, 1, relu6),
        InvertedBottleneck(24, 40, 7, 2, relu6),
    )
    return Classifier(features, 40, classes)


class ResNeXtBlock(nn.Module):
    """A bottleneck whose middle convolution has groups (cardinality)."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int = 8) -> None:
        super().__init__()
        middle = outputs // 2
        self.body = nn.Sequential(
            conv_norm(inputs, middle, 1, activation=nn.ReLU()),
            conv_norm(middle, middle, 3, stride, groups=groups, activation=nn.ReLU()),
            conv_norm(middle, outputs, 1),
        )
        self.shortcut = nn.Identity() if inputs == outputs and stride == 1 else conv_norm(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnext(classes: int) -> nn.Module:
    features = nn.Sequential(
        conv_norm(3, 32, 3, 2, activation=nn.ReLU()),
        nn.MaxPool2d(3, 2, 1),
        ResNeXtBlock(32, 64, 1),
        ResNeXtBlock(64, 64, 1),
        ResNeXtBlock(64, 128, 2),
    )
    return Classifier(features, 128, classes)


class DenseLayer(nn.Module):
    """Norm first; the new channels are appended to what came in."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet(classes: int) -> nn.Module:
    transition = nn.Sequential(nn.BatchNorm2d(40), nn.ReLU(), nn.Conv2d(40, 20, 1, bias=False), nn.AvgPool2d(2, 2))
    features = nn.Sequential(
        conv_norm(3, 16, 3, 2, activation=nn.ReLU()),
        nn.MaxPool2d(3, 2, 1),
        *(DenseLayer(16 + 8 * index, 8) for index in range(3)),
        transition,
        *(DenseLayer(20 + 8 * index, 8) for index in range(3)),
        nn.BatchNorm2d(44),
        nn.ReLU(),
    )
    return Classifier(features, 44, classes)


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Channels of the groups take turns."""
    batch, channels, height, width = x.shape
    grouped = x.view(batch, groups, channels // groups, height, width)
    return grouped.transpose(1, 2).reshape(batch, channels, height, width)


class ShuffleUnit(nn.Module):
    """ShuffleNetV2's: half of the channels pass by; with stride 2 both halves are computed of all."""

    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        inputs = width if stride == 2 else width // 2
        self.stride = stride
        self.body = nn.Sequential(
            conv_norm(inputs, inputs, 1, activation=nn.ReLU()),
            conv_norm(inputs, inputs, 3, stride, groups=inputs),
            conv_norm(inputs, inputs, 1, activation=nn.ReLU()),
        )
        self.pass_by = conv_norm(inputs, inputs, 3, stride, groups=inputs) if stride == 2 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        left, right = (x, x) if self.stride == 2 else x.chunk(2, 1)
        return channel_shuffle(torch.cat([self.pass_by(left), self.body(right)], 1), 2)


def shufflenet(classes: int) -> nn.Module:
    features = nn.Sequential(
        conv_norm(3, 24, 3, 2, activation=nn.ReLU()),
        ShuffleUnit(24, 2),
        ShuffleUnit(48, 1),
        ShuffleUnit(48, 2),
        ShuffleUnit(96, 1),
    )
    return Classifier(features, 96, classes)


class Fire(nn.Module):
    """SqueezeNet's module: few channels, then 1x1 and 3x3 side by side."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.narrow = nn.Conv2d(squeeze, expand, 1)
        self.wide = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.narrow(x)), torch.relu(self.wide(x))], 1)


class SqueezeNet(nn.Module):
    """Pools with ceil mode, and a convolution for a classifier."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(32, 8, 16),
            Fire(32, 8, 24),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(48, 12, 32),
        )
        self.classifier = nn.Conv2d(64, classes, 1)

    def forward(self, pixel_values: Tensor) -> Output:
        scores = torch.relu(self.classifier(self.features(pixel_values)))
        return {"logits": nn.functional.adaptive_avg_pool2d(scores, 1).flatten(1)}
