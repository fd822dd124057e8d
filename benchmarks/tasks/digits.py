"""Handwritten digits (scikit-learn's, 1,797 of 8 x 8 pixels) as the camera of the drawn images would see them."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
from sklearn.datasets import load_digits

from .images.families import DOMAIN, normalised
from .images.scene import SIDE
from .task import HELD_OUT, Array, Data, Split, Task, balanced

CLASSES = 10


@cache
def _stock() -> tuple[Array, Array]:
    """Ink from 0 to 1, f32[1797, 8, 8], without the few that are there twice, and what they are."""
    digits = load_digits()
    images, first = np.unique(digits.images.astype(np.float32) / 16, axis=0, return_index=True)
    return images, digits.target[first].astype(np.int64)


def _ink(images: Array, chance: np.random.Generator) -> Array:
    """Digits turned, slanted, shifted and scaled; f32[N, side, side]."""
    count = len(images)
    turn, slant = chance.uniform(-0.2, 0.2, (2, count, 1, 1))
    size = chance.uniform(0.65, 0.95, (count, 1, 1))
    middles = (np.arange(SIDE) + 0.5) * 2 / SIDE - 1
    x = (middles[None, None, :] - chance.uniform(-0.15, 0.15, (count, 1, 1))) / size
    y = (middles[None, :, None] - chance.uniform(-0.15, 0.15, (count, 1, 1))) / size
    u, v = np.cos(turn) * x + np.sin(turn) * y, np.cos(turn) * y - np.sin(turn) * x
    column, row = (u + slant * v) * 4 + 3.5, v * 4 + 3.5
    padded = np.pad(images, ((0, 0), (1, 2), (1, 2)))
    left, top = np.clip(np.floor(column), -1, 8).astype(int), np.clip(np.floor(row), -1, 8).astype(int)
    right, down = np.clip(column - left, 0, 1), np.clip(row - top, 0, 1)
    at = np.arange(count)[:, None, None]
    upper = padded[at, top + 1, left + 1] * (1 - right) + padded[at, top + 1, left + 2] * right
    lower = padded[at, top + 2, left + 1] * (1 - right) + padded[at, top + 2, left + 2] * right
    result: Array = upper * (1 - down) + lower * down
    return result


def _seen(images: Array, chance: np.random.Generator, noise: float, holes: int) -> Array:
    """Coloured, noisy, with `holes` rectangles of another colour before them; f32[N, 3, side, side]."""
    count = len(images)
    ink = _ink(images, chance)[:, None]
    paper = chance.random((count, 3, 1, 1))
    colour = np.where(paper > 0.5, paper - chance.uniform(0.35, 0.5, paper.shape), paper + 0.4)
    pixels = paper + (colour - paper) * np.clip(1.6 * ink, 0, 1)
    middles = (np.arange(SIDE) + 0.5) / SIDE
    for _ in range(holes):
        across, down = chance.random((2, count, 1, 1, 1))
        wide, high = chance.uniform(0.04, 0.14, (2, count, 1, 1, 1))
        hidden = (np.abs(middles - across) < wide) & (np.abs(middles[:, None] - down) < high)
        pixels = np.where(hidden, chance.random((count, 3, 1, 1)), pixels)
    pixels += chance.uniform(0, noise, (count, 1, 1, 1)) * chance.standard_normal(pixels.shape)
    return normalised(np.clip(pixels, 0, 1).astype(np.float32))


def _divided(samples: int, chance: np.random.Generator, noise: float, holes: int) -> Data:
    images, known = _stock()
    stock = [list(chance.permutation(np.flatnonzero(known == digit))) for digit in range(CLASSES)]
    labels = balanced(samples + HELD_OUT, CLASSES, chance)
    drawn = Split(
        {"pixel_values": _seen(images[[stock[digit].pop() for digit in labels]], chance, noise, holes)}, labels
    )
    return Data(drawn.at(slice(0, samples)), drawn.at(slice(samples, None)))


TASKS = (
    Task(
        "digits", DOMAIN.name, "handwritten digits, coloured, turned and slanted", CLASSES, 600,
        divide=partial(_divided, noise=0.1, holes=0),
    ),
    Task(
        "spoilt-digits", DOMAIN.name, "handwritten digits, noisy, partly hidden", CLASSES, 700,
        divide=partial(_divided, noise=0.1, holes=1),
    ),
)  # fmt: skip
