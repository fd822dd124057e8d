"""A small real network on scikit-learn's digits at their own 8 x 8 pixels, exported the way a user would."""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from sklearn.datasets import load_digits
from torch import nn

BATCH = 16
RECIPE = {
    "loss": "cross_entropy",
    "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
    "batch": BATCH,
    "update": [{"params": "head.*"}, {"params": "*.bias"}, {"params": "point.weight", "channels": 0.5}],
}


@dataclass(frozen=True)
class Files:
    """What a user uploads: the model, and safetensors to train and to evaluate on."""

    model: Path
    train: Path
    held_out: Path


class SmallNet(nn.Module):
    """Convolution, batch norm, depthwise and pointwise convolution, pooling, linear: every kernel family once."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.depth = nn.Conv2d(16, 16, 3, padding=1, stride=2, groups=16)
        self.point = nn.Conv2d(16, 32, 1)
        self.head = nn.Linear(32 * 16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.stem(image)))
        hidden = torch.relu(self.point(torch.relu(self.depth(hidden))))
        return self.head(hidden.flatten(1))


def make_files(folder: Path) -> Files:
    """Write the untrained model and the digits, split 1400 to 397, into `folder`."""
    torch.manual_seed(0)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    files = Files(folder / "small.onnx", folder / "train.safetensors", folder / "held-out.safetensors")
    torch.onnx.export(
        SmallNet().eval(),
        (torch.zeros(BATCH, 1, 8, 8),),
        str(files.model),
        dynamo=True,
        optimize=False,
        external_data=False,
        verbose=False,
        input_names=["image"],
        output_names=["logits"],
    )
    digits = load_digits()
    images = (digits.images / 8.0 - 1.0).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    save_file({"image": images[:1400], "labels": labels[:1400]}, str(files.train))
    save_file({"image": images[1400:], "labels": labels[1400:]}, str(files.held_out))
    return files
