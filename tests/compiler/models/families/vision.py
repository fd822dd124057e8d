"""Image models: from `transformers` configurations where it has the family, else small classes of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    DeiTConfig,
    DeiTForImageClassification,
    EfficientNetConfig,
    EfficientNetForImageClassification,
    MobileNetV1Config,
    MobileNetV1ForImageClassification,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    MobileViTConfig,
    MobileViTForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
    SwinConfig,
    SwinForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

from ..family import Family, classes, images, mse, regression, settle
from . import convolutional, dense_prediction

BATCH = 2
CLASSES = 10
SIDE = 32
TRANSFORMER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "image_size": SIDE,
    "patch_size": 8,
}


def _settled(make: Callable[[], nn.Module], side: int) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        torch.manual_seed(0)
        return settle(make(), images(side))

    return build


def _classifier(
    name: str, make: Callable[[], nn.Module], sparse: str, side: int = SIDE, lora: str | None = None
) -> Family:
    """Trained sparsely: the classifier, and half of the channels of the weights that `sparse` matches."""
    update = [{"params": "classifier.*"}, {"params": sparse, "channels": 0.5}]
    return Family(name, _settled(make, side), images(side), classes(CLASSES, BATCH), update, lora)


def _regressor(name: str, make: Callable[[], nn.Module], sparse: Any, *output: int) -> Family:
    """Compared with a target of the output's shape."""
    targets = regression(BATCH, *output)
    return Family(name, _settled(make, SIDE), images(SIDE), targets, sparse, loss="mse", criterion=mse)


def _detections(seed: int) -> dict[str, torch.Tensor]:
    """Images, and for each of the 80 cells a box with an object of one of three classes or none."""
    generator = torch.Generator().manual_seed(seed + 2000)
    corners = torch.rand(BATCH, 80, 2, 2, generator=generator).sort(2).values * SIDE + torch.tensor([[0.0], [2.0]])
    objects = (torch.rand(BATCH, 80, 1, generator=generator) < 0.4).float()
    kinds = nn.functional.one_hot(torch.randint(0, 3, (BATCH, 80), generator=generator), 3) * objects
    return {**images(SIDE)(seed), "target": torch.cat([corners.flatten(2), objects, kinds], -1)}


def _detector() -> nn.Module:
    torch.manual_seed(0)
    return settle(dense_prediction.YOLO(3), _detections)


def _segmenter(name: str, up: type[nn.Module]) -> Family:
    """A class for each pixel."""
    update = [{"params": "classifier.*"}, {"params": "up*"}, {"params": "back*.0.weight", "channels": 0.5}]
    targets = classes(4, BATCH, SIDE, SIDE)
    return Family(name, _settled(lambda: dense_prediction.UNet(up, 4), SIDE), images(SIDE), targets, update)


def _mobilenet_v1() -> nn.Module:
    return MobileNetV1ForImageClassification(MobileNetV1Config(depth_multiplier=0.25, num_labels=CLASSES))


def _mobilenet_v2() -> nn.Module:
    return MobileNetV2ForImageClassification(MobileNetV2Config(depth_multiplier=0.35, num_labels=CLASSES))


def _efficientnet() -> nn.Module:
    config = EfficientNetConfig(
        width_coefficient=0.25,
        depth_coefficient=1.0,
        image_size=SIDE,
        kernel_sizes=[3, 3, 5],
        in_channels=[32, 32, 64],
        out_channels=[32, 64, 96],
        strides=[1, 2, 2],
        num_block_repeats=[1, 1, 2],
        expand_ratios=[1, 4, 4],
        hidden_dim=320,
        num_labels=CLASSES,
    )
    return EfficientNetForImageClassification(config)


def _resnet() -> nn.Module:
    config = ResNetConfig(embedding_size=16, hidden_sizes=[32, 64], depths=[2, 2], num_labels=CLASSES)
    return ResNetForImageClassification(config)


def _convnext() -> nn.Module:
    config = ConvNextConfig(
        patch_size=2, num_stages=2, hidden_sizes=[16, 32], depths=[2, 2], layer_scale_init_value=0.5, num_labels=CLASSES
    )
    return ConvNextForImageClassification(config)


def _vit() -> nn.Module:
    return ViTForImageClassification(ViTConfig(**TRANSFORMER, num_labels=CLASSES))


def _deit() -> nn.Module:
    return DeiTForImageClassification(DeiTConfig(**TRANSFORMER, num_labels=CLASSES))


def _swin() -> nn.Module:
    config = SwinConfig(
        image_size=SIDE, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=CLASSES
    )
    return SwinForImageClassification(config)


def _mobilevit() -> nn.Module:
    config = MobileViTConfig(
        image_size=64,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 12, 16, 24, 32, 64],
        num_attention_heads=2,
        expand_ratio=2.0,
        output_stride=16,
        num_labels=CLASSES,
    )
    return MobileViTForImageClassification(config)


FAMILIES = (
    _classifier("mobilenet_v1", _mobilenet_v1, "mobilenet_v1.layer.2[0-5].convolution.weight"),
    _classifier("mobilenet_v2", _mobilenet_v2, "mobilenet_v2.layer.1[2-5].*.convolution.weight"),
    _classifier("mobilenet_v3", lambda: convolutional.mobilenet_v3(CLASSES), "features.[34].*.0.weight"),
    _classifier("efficientnet", _efficientnet, "efficientnet.encoder.blocks.3.*_conv.weight"),
    _classifier("mcunet", lambda: convolutional.mcunet(CLASSES), "features.[34].*.0.weight"),
    _classifier("resnet", _resnet, "resnet.encoder.stages.1.*.convolution.weight"),
    _classifier("resnext", lambda: convolutional.resnext(CLASSES), "features.[34].body.*.0.weight"),
    _classifier("densenet", lambda: convolutional.densenet(CLASSES), "features.[678].body.[25].weight"),
    _classifier("shufflenet", lambda: convolutional.shufflenet(CLASSES), "features.[34].body.*.0.weight"),
    _classifier("squeezenet", lambda: convolutional.SqueezeNet(CLASSES), "features.6.*.weight"),
    _classifier("convnext", _convnext, "convnext.encoder.stages.1.*conv*.weight", lora="*.pwconv?"),
    _classifier("vit", _vit, "vit.*.1.*.fc?.weight", lora="*attention*"),
    _classifier("deit", _deit, "deit.*.1.*.fc?.weight", lora="*attention*"),
    _classifier("swin", _swin, "swin.encoder.layers.1.*.fc?.weight", lora="*attention*"),
    _classifier("mobilevit", _mobilevit, "mobilevit.encoder.layer.4.*.dense.weight", side=64, lora="*attention*"),
    _segmenter("unet_transposed", dense_prediction.TransposedUp),
    _segmenter("unet_resize", dense_prediction.BilinearUp),
    Family(
        "yolo",
        _detector,
        _detections,
        lambda seed: {},
        [{"params": "heads.*"}, {"params": "neck.0.weight", "channels": 0.5}],
        loss={"name": "output", "output": "loss"},
        criterion=lambda outputs, _: outputs["loss"],
    ),
    _regressor(
        "image_autoencoder",
        lambda: dense_prediction.Autoencoder(SIDE),
        [{"params": "decoder.*"}, {"params": "expand.weight", "channels": 0.5}],
        *(3, SIDE, SIDE),
    ),
)
