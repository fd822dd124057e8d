"""What augmentation makes of samples, in numpy, with the random numbers of the compiled step; and a model for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pockengine.autodiff.augment import FIRST_SITE, beta_quantiles
from pockengine.ir import Array, Builder, DType, Graph, TensorType, Value
from pockengine.ops import Emitter

PADDING, STD, ALPHA = 2, 0.1, 0.4


def mixed(x: Array) -> Array:
    for places, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint64(places))) * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    return x ^ (x >> np.uint64(16))


class Draws:
    """The random numbers of one run, in 64-bit integers; each drawing is the next site."""

    def __init__(self, generator: int) -> None:
        number, half = np.array(generator % 2**32, np.uint64), np.uint64(generator >> 32)
        self.seed, self.site = int(mixed(mixed(number) ^ half)), FIRST_SITE

    def __call__(self, *shape: int) -> Array:
        offset = (self.seed + self.site * 0x9E3779B9) % 2**32
        index = (np.arange(np.prod(shape), dtype=np.uint64) + np.uint64(offset)) & np.uint64(0xFFFFFFFF)
        self.site += 1
        return ((mixed(index) >> np.uint64(8)).astype(np.float64) / 2**24).reshape(shape).astype(np.float32)


def flipped(x: Array, draw: Draws, axes: Sequence[int] = (3,), p: float = 0.5) -> Array:
    for axis in axes:
        chosen = draw(len(x)) < np.float32(p)
        x = np.stack([np.flip(one, axis - 1) if c else one for one, c in zip(x, chosen, strict=True)])
    return x


def cropped(x: Array, draw: Draws, axes: Sequence[int] = (2, 3), padding: int = PADDING, fill: float = 0.0) -> Array:
    """As torchvision's RandomCrop(size, padding) does it: pad, then cut."""
    starts = {axis: np.floor(draw(len(x)) * np.float32(2 * padding + 1)).astype(int) for axis in axes}
    around = [(padding, padding) if axis in axes else (0, 0) for axis in range(1, x.ndim)]
    parts = []
    for sample, one in enumerate(x):
        wide = np.pad(one, around, constant_values=fill)
        for axis, start in starts.items():
            wide = wide.take(np.arange(x.shape[axis]) + start[sample], axis - 1)
        parts.append(wide)
    return np.stack(parts)


def noised(x: Array, draw: Draws, std: float = STD) -> Array:
    first, second = (draw(*x.shape).astype(np.float64) for _ in range(2))
    return (x + std * np.sqrt(-2 * np.log(1 - first)) * np.cos(2 * np.pi * second)).astype(np.float32)


def mixed_up(x: Array, draw: Draws, alpha: float = ALPHA) -> tuple[Array, float]:
    share = float(beta_quantiles(alpha)[int(np.floor(draw(1)[0] * np.float32(1024)))])
    return (share * x + (1 - share) * np.roll(x, -1, 0)).astype(np.float32), share


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def model(
    batch: int = 4, target: bool = False, side: bool = False, tokens: bool = False, rows: int | None = None
) -> Graph:
    """Scores [rows or batch, …] of pixels x [batch, 1, 2, 3], with another input or with tokens for it; or an image."""
    builder = Builder("model")
    e = Emitter(builder)
    x: Value = builder.input("x", TensorType(DType.I64 if tokens else DType.F32, (batch, 1, 2, 3)))
    weight = builder.param("w", TensorType(DType.F32, (6, 6 if target else 3)), numbers(6, 6 if target else 3))
    y = e.matmul(e.reshape(e.cast(x, DType.F32), (batch, 6)), weight)
    if side:
        y = e.add(y, builder.input("side", TensorType(DType.F32, (batch, 3))))
    shape = (batch, 1, 2, 3) if target else (rows or batch, y.type.size // (rows or batch))
    builder.outputs = {"logits": e.reshape(y, shape)}
    return builder.finish()
