"""Shapes as functions of a point: negative inside, positive outside, about the distance to the edge near it.

Points are arrays u, v of any one shape; a figure lies within a circle of radius 1 around the origin, upright."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..task import Array

Outline = Callable[[Array, Array], Array]


def _polar(u: Array, v: Array) -> tuple[Array, Array]:
    """Radius, and angle from the upward direction, clockwise."""
    return np.hypot(u, v), np.arctan2(u, -v)


def _polygon(corners: int) -> Outline:
    step = np.float32(2 * np.pi / corners)

    def outline(u: Array, v: Array) -> Array:
        radius, angle = _polar(u, v)
        edge: Array = np.cos(step / 2) / np.cos(np.mod(angle, step) - step / 2)
        return radius - edge

    return outline


def _star(points: int, depth: float = 0.45) -> Outline:
    half = np.float32(np.pi / points)

    def outline(u: Array, v: Array) -> Array:
        radius, angle = _polar(u, v)
        off: Array = np.abs(np.mod(angle + half, 2 * half) - half) / half
        return (radius - (1 - (1 - depth) * off)) * np.float32(0.7)

    return outline


def _flower(petals: int) -> Outline:
    def outline(u: Array, v: Array) -> Array:
        radius, angle = _polar(u, v)
        return np.asarray((radius - (0.72 + 0.28 * np.cos(petals * angle))) * np.float32(0.7))

    return outline


def _gear(teeth: int) -> Outline:
    def outline(u: Array, v: Array) -> Array:
        radius, angle = _polar(u, v)
        rim = np.where(np.cos(teeth * angle) > 0, 1.0, 0.7).astype(np.float32)
        return np.asarray(np.maximum(radius - rim, 0.3 - radius))

    return outline


def _box(u: Array, v: Array, width: float, height: float, at: tuple[float, float] = (0.0, 0.0)) -> Array:
    """Half as wide and as high as said, around a centre."""
    return np.maximum(np.abs(u - at[0]) - width, np.abs(v - at[1]) - height)


def _disc(u: Array, v: Array) -> Array:
    return np.hypot(u, v) - 0.9


def _square(u: Array, v: Array) -> Array:
    return _box(u, v, 0.72, 0.72)


def _cross(u: Array, v: Array) -> Array:
    return np.minimum(_box(u, v, 0.28, 0.9), _box(u, v, 0.9, 0.28))


def _ring(u: Array, v: Array) -> Array:
    return np.abs(np.hypot(u, v) - 0.7) - 0.22


def _crescent(u: Array, v: Array) -> Array:
    return np.maximum(np.hypot(u, v) - 0.95, 0.75 - np.hypot(u - 0.45, v))


def _heart(u: Array, v: Array) -> Array:
    x, y = np.abs(u) * 1.15, 0.15 - v * 1.1
    return (np.hypot(x, y - 0.6 * np.sqrt(x)) - 0.85) * np.float32(0.8)


def _bar(u: Array, v: Array) -> Array:
    return _box(u, v, 0.25, 0.95)


def _arrow(u: Array, v: Array) -> Array:
    head = np.maximum(np.abs(u) * 0.8 - (v + 0.95) * 0.65, v - 0.1)
    return np.minimum(head, _box(u, v, 0.2, 0.45, (0.0, 0.5)))


def _ellipse(u: Array, v: Array) -> Array:
    return (np.hypot(u / 0.5, v / 0.95) - 1) * np.float32(0.5)


def _half(u: Array, v: Array) -> Array:
    return np.maximum(np.hypot(u, v - 0.35) - 0.95, v - 0.35)


def _hourglass(u: Array, v: Array) -> Array:
    return np.maximum(np.abs(u) - np.abs(v) * 0.8 - 0.08, np.abs(v) - 0.85)


def _corner(u: Array, v: Array) -> Array:
    return np.minimum(_box(u, v, 0.24, 0.85, (-0.5, 0.0)), _box(u, v, 0.7, 0.24, (0.04, 0.62)))


def _tee(u: Array, v: Array) -> Array:
    return np.minimum(_box(u, v, 0.22, 0.8, (0.0, 0.1)), _box(u, v, 0.8, 0.22, (0.0, -0.65)))


def _mouth(u: Array, v: Array) -> Array:
    return np.maximum(np.hypot(u, v) - 0.92, np.minimum(u, u * 0.75 - np.abs(v)) * 0.8)


def _ess(u: Array, v: Array) -> Array:
    upper, lower = _box(u, v, 0.42, 0.23, (0.32, -0.6)), _box(u, v, 0.42, 0.23, (-0.32, 0.6))
    return np.minimum(np.minimum(upper, lower), _box(u, v, 0.2, 0.83))


def _aitch(u: Array, v: Array) -> Array:
    return np.minimum(_box(np.abs(u), v, 0.2, 0.8, (0.55, 0.0)), _box(u, v, 0.6, 0.18))


OUTLINES: dict[str, Outline] = {
    "disc": _disc,
    "square": _square,
    "triangle": _polygon(3),
    "star": _star(5),
    "cross": _cross,
    "ring": _ring,
    "crescent": _crescent,
    "heart": _heart,
    "bar": _bar,
    "arrow": _arrow,
    "ellipse": _ellipse,
    "half": _half,
    "hourglass": _hourglass,
    "corner": _corner,
    "tee": _tee,
    "mouth": _mouth,
    "ess": _ess,
    "aitch": _aitch,
    "gear": _gear(6),
    **{f"polygon{corners}": _polygon(corners) for corners in (5, 6)},
    **{f"star{points}": _star(points) for points in (3, 4, 6, 7)},
    **{f"flower{petals}": _flower(petals) for petals in (3, 4, 5, 6)},
}
NAMES = tuple(OUTLINES)
"""A shape's number is its place here."""


def numbers(*names: str) -> tuple[int, ...]:
    """The numbers of shapes."""
    return tuple(NAMES.index(name) for name in names)
