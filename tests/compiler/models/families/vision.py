"""Image models: from `transformers` configurations where it has the family, else small classes of our own."""

from __future__ import annotations

import torch
from torch import nn
from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

from ..family import Family, classes, images, settle

BATCH = 2
CLASSES = 10


def _mobilenet_v2() -> nn.Module:
    torch.manual_seed(0)
    config = MobileNetV2Config(depth_multiplier=0.35, image_size=32, num_labels=CLASSES, classifier_dropout_prob=0.0)
    return settle(MobileNetV2ForImageClassification(config), images(32))


FAMILIES = (
    Family(
        "mobilenet_v2",
        _mobilenet_v2,
        images(32),
        classes(CLASSES, BATCH),
        [{"params": "classifier.*"}, {"params": "mobilenet_v2.layer.1[2-5].*.convolution.weight", "channels": 0.5}],
    ),
)
