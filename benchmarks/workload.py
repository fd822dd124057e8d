"""The model, data and recipes that step_time compares on: MobileNetV2 as `transformers` configures it, 224 x 224."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

SIDE = 224
CLASSES = 1000
BLOCKS = 16
LEARNING_RATE = 1e-3
MOMENTUM = 0.9
INPUT = "pixel_values"

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One row of the comparison: samples per step, and which blocks are trained ("full" or "last-8-blocks")."""

    batch: int
    scheme: str

    def __str__(self) -> str:
        return f"batch {self.batch} {self.scheme}"


CASES = tuple(Case(batch, scheme) for scheme in ("full", "last-8-blocks") for batch in (1, 8))


def trained_prefixes(scheme: str) -> tuple[str, ...]:
    """Prefixes of the parameter names that `scheme` trains: with last-8-blocks, all from the ninth block on."""
    if scheme == "full":
        return ("",)
    blocks = tuple(f"mobilenet_v2.layer.{block}." for block in range(BLOCKS - 8, BLOCKS))
    return (*blocks, "mobilenet_v2.conv_1x1.", "classifier.")


def make_model(scheme: str) -> MobileNetV2ForImageClassification:
    """The model in evaluation mode (batch norm frozen), the same weights each time, gradients only where trained.

    The running statistics are those of random images, so that activations have the scale of a trained network's.
    """
    torch.manual_seed(0)
    model = MobileNetV2ForImageClassification(MobileNetV2Config(image_size=SIDE, num_labels=CLASSES))
    model.train()
    with torch.no_grad():
        model(torch.randn(8, 3, SIDE, SIDE))
    model.eval()
    prefixes = trained_prefixes(scheme)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(prefixes))
    return model


def make_batch(batch: int) -> tuple[Images, Labels]:
    """Images [batch, 3, 224, 224] and labels [batch]."""
    chance = np.random.default_rng(1)
    images = chance.standard_normal((batch, 3, SIDE, SIDE), dtype=np.float32)
    return images, chance.integers(0, CLASSES, batch)
