"""Surfaces as functions of a point: 0 where the one colour is, 1 where the other is, between them a mixture.

Points u, v are [N, side, side] around 0, in the figure's own size; `scale` [N, 1, 1] is how often a pattern repeats;
`chance` draws what differs from image to image."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..task import Array

Surface = Callable[[Array, Array, Array, np.random.Generator], Array]
_SOFT = 3.0
"""How steep the edges of a pattern are: hard edges would alias."""


def _steep(wave: Array) -> Array:
    result: Array = np.clip(0.5 + _SOFT * wave, 0, 1)
    return result


def _phase(like: Array, chance: np.random.Generator) -> Array:
    return (2 * np.pi * chance.random((len(like), 1, 1))).astype(np.float32)


def plain(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """One colour."""
    return np.zeros(np.broadcast_shapes(u.shape, scale.shape), np.float32)


def shaded(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """From one colour into the other along v."""
    return np.asarray(np.clip(0.5 + 0.5 * v + 0 * scale, 0, 1))


def stripes(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """Parallel bands."""
    return _steep(np.sin(scale * u + _phase(scale, chance)))


def checks(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """A chessboard."""
    return _steep(np.sin(scale * u + _phase(scale, chance)) * np.sin(scale * v + _phase(scale, chance)))


def dots(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """Round spots on a square grid."""
    return _steep(np.cos(scale * u + _phase(scale, chance)) + np.cos(scale * v + _phase(scale, chance)) - 0.7)


def grid(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """Thin lines both ways."""
    waves = np.cos(scale * u + _phase(scale, chance)), np.cos(scale * v + _phase(scale, chance))
    return _steep(np.maximum(*waves) - 0.75)


def waves(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """Bands that wind."""
    bent = 1.3 * np.sin(0.8 * scale * v + _phase(scale, chance))
    return _steep(np.sin(scale * u + bent + _phase(scale, chance)))


def rings(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """Circles around a point."""
    return _steep(np.sin(scale * np.hypot(u, v) + _phase(scale, chance)))


def bricks(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """Rows of stones, each row shifted by half a stone."""
    rows = scale * v / np.pi + _phase(scale, chance)
    across = scale * u / (2 * np.pi) + 0.5 * np.mod(np.floor(rows), 2)
    joints = np.minimum(np.abs(np.mod(rows, 1) - 0.5), 1.7 * np.abs(np.mod(across, 1) - 0.5))
    return _steep(joints - 0.13)


def speckles(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """Each pixel one or the other."""
    shape = np.broadcast_shapes(u.shape, scale.shape)
    return (chance.random(shape, np.float32) < 0.35).astype(np.float32)


def spokes(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """Rays from a point."""
    return _steep(np.sin(np.round(scale * 0.7) * np.arctan2(u, v) + _phase(scale, chance)))


def blots(u: Array, v: Array, scale: Array, chance: np.random.Generator) -> Array:
    """Spots without order: a sum of waves in random directions."""
    total = np.zeros(np.broadcast_shapes(u.shape, scale.shape), np.float32)
    for _ in range(5):
        turn = _phase(scale, chance)
        total += np.sin(scale * (np.cos(turn) * u + np.sin(turn) * v) + _phase(scale, chance))
    return _steep(total / 2)


SURFACES: dict[str, Surface] = {
    one.__name__: one
    for one in (plain, shaded, stripes, checks, dots, grid, waves, rings, bricks, speckles, spokes, blots)
}
NAMES = tuple(SURFACES)
"""A surface's number is its place here."""


def numbers(*names: str) -> tuple[int, ...]:
    """The numbers of surfaces."""
    return tuple(NAMES.index(name) for name in names)
