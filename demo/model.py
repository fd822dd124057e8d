"""A real model to adapt: MobileNetV2 from its `transformers` configuration, pre-trained on digits, exported."""

import hashlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

from demo.digits import SIDE, Samples
from demo.progress import Progress

INPUT = "pixel_values"
EPOCHS = 24
BATCH = 50
PEAK_RATE = 4e-3
EXPORT_BATCH = 16


@dataclass(frozen=True)
class PretrainedModel:
    """The ONNX file and its accuracy on the held-out digits as the model knew them, before any shift."""

    path: Path
    accuracy: float


def pretrained(train: Samples, held_out: Samples, cache: Path, progress: Progress) -> PretrainedModel:
    """The pre-trained, exported model, from `cache` when the same source, data and libraries made it before."""
    path = cache / f"mobilenet_v2-{_content_key(train)}.onnx"
    weights = path.with_suffix(".pt")
    model = make_model()
    if weights.exists():
        model.load_state_dict(torch.load(weights, weights_only=True))
        progress(1, 1)
    else:
        pretrain(model, train, progress)
        cache.mkdir(parents=True, exist_ok=True)
        _write(weights, lambda target: torch.save(model.state_dict(), target))
    if not path.exists():
        _write(path, lambda target: export(model, target))
    return PretrainedModel(path, accuracy(model, held_out))


def make_model() -> MobileNetV2ForImageClassification:
    """MobileNetV2 at width 0.35 for one channel of 32 x 32 pixels and ten classes: about 409,000 parameters."""
    torch.manual_seed(0)
    config = MobileNetV2Config(
        num_channels=1, image_size=SIDE, depth_multiplier=0.35, num_labels=10, classifier_dropout_prob=0.2
    )
    model = MobileNetV2ForImageClassification(config)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            # The configuration's 0.997 keeps hardly more than the last batch, too little for batches of 50.
            module.momentum = 0.1
    return model


def pretrain(model: MobileNetV2ForImageClassification, train: Samples, progress: Progress) -> None:
    """AdamW with a one-cycle rate on slightly turned, moved and dimmed digits; leaves the model in evaluation mode."""
    torch.manual_seed(0)
    images, labels = torch.from_numpy(train.images), torch.from_numpy(train.labels)
    steps = EPOCHS * (len(train) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, weight_decay=1e-2)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=PEAK_RATE, total_steps=steps)
    model.train()
    for done, batch in enumerate(_batches(len(train), steps), start=1):
        optimizer.zero_grad()
        F.cross_entropy(model(_augmented(images[batch])).logits, labels[batch]).backward()
        optimizer.step()
        rates.step()
        progress(done, steps)
    model.eval()


def _batches(samples: int, steps: int) -> Iterator[torch.Tensor]:
    for step in range(steps):
        start = step * BATCH % samples
        if start == 0:
            order = torch.randperm(samples)
        yield order[start : start + BATCH]


def _augmented(images: torch.Tensor) -> torch.Tensor:
    """Each image turned by up to 20 degrees, scaled and moved by up to 10 %, with another contrast and brightness."""
    count = len(images)
    angle, scale = (torch.rand(count) - 0.5) * 0.7, 0.9 + 0.2 * torch.rand(count)
    cosine, sine = angle.cos() / scale, angle.sin() / scale
    move = (torch.rand(2, count) - 0.5) * 0.2
    maps = torch.stack([torch.stack([cosine, -sine, move[0]], 1), torch.stack([sine, cosine, move[1]], 1)], 1)
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    turned = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    return turned * (0.4 + 0.8 * torch.rand(count, 1, 1, 1)) + (torch.rand(count, 1, 1, 1) - 0.5)


def accuracy(model: MobileNetV2ForImageClassification, samples: Samples) -> float:
    """The share of `samples` that the model, put in evaluation mode, classifies correctly."""
    model.eval()
    with torch.no_grad():
        guesses = model(torch.from_numpy(samples.images)).logits.argmax(1).numpy()
    return float(np.mean(guesses == samples.labels))


def export(model: MobileNetV2ForImageClassification, path: Path) -> None:
    """Write the model, in evaluation mode, as one ONNX file with input `pixel_values` and output `logits`."""
    model.eval()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of operators of packages that we do not use
    example = torch.zeros(EXPORT_BATCH, 1, SIDE, SIDE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (example,),
            str(path),
            dynamo=True,
            input_names=[INPUT],
            output_names=["logits"],
            optimize=False,  # folding is the compiler's pass: here it would merge batch norms that are to be trained
            external_data=False,
            verbose=False,
        )


def _content_key(train: Samples) -> str:
    """Changes with everything that the file depends on: this module, the data, the libraries."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    digest.update(train.images.tobytes() + train.labels.tobytes())
    digest.update(f"{torch.__version__} {transformers.__version__}".encode())
    return digest.hexdigest()[:16]


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f"{path.name}.part")
    write(temporary)
    os.replace(temporary, path)
