"""scikit-learn's bundled digits as the demo's data: three splits, and the shift that the device sees."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from sklearn.datasets import load_digits

SIDE = 32
TRAIN_SAMPLES = 1000
DEVICE_SAMPLES = 437

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """Images [n, 1, 32, 32] in -1..1 (ink is 1) and labels [n] in 0..9."""

    images: Images
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, start: int, stop: int | None) -> "Samples":
        """The samples `start..stop`."""
        return Samples(self.images[start:stop], self.labels[start:stop])

    def save(self, path: Path, input_name: str) -> None:
        """Write a dataset for the training binary: the model's input by its name, and `labels`."""
        save_file({input_name: np.asarray(self.images, order="C"), "labels": self.labels}, str(path))


@dataclass(frozen=True)
class Splits:
    """`train` is for pre-training; `device` is what the device may learn from, `held_out` what it is judged on."""

    train: Samples
    device: Samples
    held_out: Samples


def load_splits() -> Splits:
    """The 1797 digits, enlarged from 8 x 8 to 32 x 32, in a fixed random order: 1000, 437 and 360 samples."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    small = torch.tensor(digits.images[order] / 8.0 - 1.0, dtype=torch.float32)[:, None]
    images = F.interpolate(small, size=(SIDE, SIDE), mode="bilinear", align_corners=False).numpy()
    whole = Samples(images, digits.target[order].astype(np.int64))
    device = TRAIN_SAMPLES + DEVICE_SAMPLES
    return Splits(whole.part(0, TRAIN_SAMPLES), whole.part(TRAIN_SAMPLES, device), whole.part(device, None))


def shifted(samples: Samples) -> Samples:
    """What the device's camera sees: the same digits turned by 90 degrees, dark on light instead of light on dark."""
    return Samples(np.asarray(-np.rot90(samples.images, axes=(2, 3)), order="C"), samples.labels)
