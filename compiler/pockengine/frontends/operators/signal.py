"""Discrete Fourier transforms of known length, as products with the matrix of the transform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import ModelError
from ...ir import Array, Value
from .registry import NodeContext, Operand, converts

LONGEST = 4096
"""Elements of the longest transform: its matrix grows with their square."""


@converts("DFT")
def dft(c: NodeContext) -> Sequence[Operand]:
    """[..., n, ..., 1 or 2] -> [..., m, ..., 2]; the inverse of a one-sided transform is real, [..., m, ..., 1]."""
    x = c.value(0)
    rank, inverse, onesided = x.type.rank, bool(c.attr("inverse", 0)), bool(c.attr("onesided", 0))
    if c.has(2):
        given = int(c.static(2, "the axis").reshape(()))
    else:
        given = c.attr("axis", 1) if c.opset < 20 else -2
    axis = c.check_axis(given, rank)
    if axis == rank - 1:
        raise ModelError(f"{c.where}: the last axis holds real and imaginary parts and cannot be transformed")
    count, parts = x.type.shape[axis], x.type.shape[-1]
    length = 2 * (count - 1) if inverse and onesided else count
    if c.has(1):
        length = int(c.static(1, "the length").reshape(()))
    matrix = _matrix(c, length, parts, inverse, onesided)[:count]
    order = [*(i for i in range(rank - 1) if i != axis), axis, rank - 1]
    y = _transformed(c, c.e.transpose(x, order), matrix)
    # Dividing at the end keeps the matrix's exact ones and zeros, and with them sums that cancel exactly.
    y = c.e.mul(y, 1.0 / length) if inverse else y
    return [c.e.transpose(y, [order.index(i) for i in range(rank)])]


@converts("STFT")
def stft(c: NodeContext) -> Sequence[Operand]:
    """Signal [batch, time, 1 or 2] -> [batch, frames, frequencies, 2]"""
    x = c.value(0)
    if x.type.rank == 2:
        x = c.e.reshape(x, (*x.type.shape, 1))
    _, time, parts = x.type.shape
    step = int(c.static(1, "the frame step").reshape(()))
    length = int(c.static(3, "the frame length").reshape(())) if c.has(3) else c.shape(2)[0] if c.has(2) else time
    if not 1 <= length <= time or step < 1:
        raise ModelError(f"{c.where} cannot take frames of {length} every {step} elements from {time}")
    places = np.arange(0, time - length + 1, step)[:, None] + np.arange(length)
    frames = c.e.op("gather", x, c.e.const(places), axis=1)
    if c.has(2):
        frames = c.e.mul(frames, c.e.reshape(c.value(2), (length, 1)))
    return [_transformed(c, frames, _matrix(c, length, parts, False, bool(c.attr("onesided", 1))))]


def _transformed(c: NodeContext, x: Value, matrix: Array) -> Value:
    """x [..., n, parts] times a matrix [n or fewer, parts, m, parts]."""
    *lead, count, parts = x.type.shape
    used, _, results, shown = matrix.shape
    if used < count:
        stops = (*lead, used, parts)
        x = c.e.op("slice", x, starts=(0,) * len(stops), stops=stops, steps=(1,) * len(stops))
    flat = c.e.reshape(x, (int(np.prod(lead)), used * parts))
    weights = c.e.const(matrix.reshape(used * parts, results * shown), x.type.dtype)
    return c.e.reshape(c.e.matmul(flat, weights), (*lead, results, shown))


def _matrix(c: NodeContext, length: int, parts: int, inverse: bool, onesided: bool) -> Array:
    """[element, its part, result, its part] of a transform of `length` elements, computed in double precision."""
    if not 1 <= length <= LONGEST:
        raise c.unsupported(f"a Fourier transform of {length} elements (at most {LONGEST})")
    half = length // 2 + 1
    given, shown = np.arange(length)[:, None], np.arange(length)[None, :]
    if onesided:
        given, shown = (given[:half], shown) if inverse else (given, shown[:, :half])
    angle = 2 * np.pi * (given * shown % length) / length
    # Rounded so that what is zero is exactly zero.
    cosine, sine = np.cos(angle).round(15), np.sin(angle).round(15) * (1 if inverse else -1)
    matrix = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], 1)
    if inverse and onesided:
        # The frequencies left out are the conjugates of those between the first and the middle one.
        twice = np.where((given == 0) | (2 * given == length), 1.0, 2.0)
        matrix = (matrix * twice[:, :, None, None])[..., :1]
    return matrix[:, :parts]
