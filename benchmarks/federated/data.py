"""The digits as files: one of each device, and one that is held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from sklearn.datasets import load_digits

from benchmarks.federated.scene import HELD_OUT, Plan, split


def device_name(number: int) -> str:
    """What a device is called."""
    return f"agent-{number:02d}"


def write_data(folder: Path, plan: Plan) -> None:
    """Write `agent-NN.safetensors` and `held-out.safetensors`."""
    digits = load_digits()
    images = (digits.images / 8.0 - 1.0).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    order = np.random.default_rng(plan.seed).permutation(len(labels))
    images, labels = images[order], labels[order]
    save_file({"image": images[:HELD_OUT], "labels": labels[:HELD_OUT]}, str(folder / "held-out.safetensors"))
    images, labels = images[HELD_OUT:], labels[HELD_OUT:]
    for number, mine in enumerate(split(labels, plan)):
        path = folder / f"{device_name(number)}.safetensors"
        save_file({"image": images[mine], "labels": labels[mine]}, str(path))


def read_data(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, 1, 8, 8] and labels [N]."""
    tensors = load_file(str(path))
    return tensors["image"], tensors["labels"]
