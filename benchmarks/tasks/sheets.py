"""Contact sheets: what the samples of a task look like, as pictures that a person looks at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from .task import Array, Domain, Split, Task

COLUMNS, ROWS = 20, 6
_ZOOM = 2
_SHADES = np.array([[0.1, 0.1, 0.1], [0.9, 0.3, 0.2], [0.2, 0.7, 0.3], [0.2, 0.4, 0.9], [0.9, 0.8, 0.2],
                    [0.7, 0.3, 0.8], [0.3, 0.8, 0.8], [0.9, 0.9, 0.9]])  # fmt: skip
"""Colours of the classes of pixels."""


def write_sheets(folder: Path, domains: dict[str, Domain], tasks: dict[str, Task]) -> list[Path]:
    """One picture for each domain and each task, samples in the order of their labels; what has no picture (sentences)
    as a text file. The files, as they were written."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = COLUMNS * ROWS
    drawn = {f"pretraining-{name}": one.draw(wanted, np.random.default_rng(0)) for name, one in domains.items()}
    drawn |= {name: one.data(0).train.at(slice(0, wanted)) for name, one in tasks.items()}
    return [_written(folder / name, split) for name, split in drawn.items()]


def _written(path: Path, split: Split) -> Path:
    order = np.argsort(split.labels, kind="stable") if split.labels.ndim == 1 else np.arange(len(split))
    split = split.at(order)
    (name,) = split.inputs
    if name == "input_ids":
        lines = (
            f"{label}: {' '.join(map(str, row))}" for row, label in zip(split.inputs[name], split.labels, strict=True)
        )
        path = path.with_suffix(".txt")
        path.write_text("\n".join(lines) + "\n")
        return path
    cells = _streams(split.inputs[name]) if name == "signal" else _images(split)
    path = path.with_suffix(".png")
    sheet = Image.fromarray((255 * _board(cells)).astype(np.uint8))
    sheet.resize((sheet.width * _ZOOM, sheet.height * _ZOOM), Image.Resampling.NEAREST).save(path)
    return path


def _board(cells: Array) -> Array:
    """[N, height, width, 3] -> one image, row by row."""
    _, height, width, _ = cells.shape
    full = np.zeros((COLUMNS * -(-len(cells) // COLUMNS), height + 2, width + 2, 3))
    full[: len(cells), 1:-1, 1:-1] = cells
    rows = full.reshape(-1, COLUMNS, height + 2, width + 2, 3)
    board: Array = rows.transpose(0, 2, 1, 3, 4).reshape(-1, COLUMNS * (width + 2), 3)
    return board


def _images(split: Split) -> Array:
    """Images as they are, spectrograms with the low filters below; of segments the answer beneath each."""
    pixels = split.inputs["pixel_values"]
    cells = np.clip(pixels / 4 + 0.5, 0, 1).transpose(0, 2, 3, 1)
    if pixels.shape[1] == 1:
        cells = cells[:, ::-1].repeat(3, 3)
    if split.labels.ndim > 1:
        cells = np.concatenate([cells, _SHADES[split.labels]], 1)
    return np.asarray(cells)


def _streams(signal: Array) -> Array:
    """A band an axis, one above the other; bright where the value is high."""
    shades = np.clip(signal / 6 + 0.5, 0, 1)[..., None]
    return np.asarray(shades.repeat(8, 1).repeat(3, 3))
