# Copied from device_agent/pock_agent/weights by `python -m client.generate`.
"""Which bytes of a tensor a delta has, and the order in which they come: all of them, or ranges along one axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from .tensors import ITEM_BYTES, MalformedWeights, Tensor, is_count

WINDOW = 1 << 20
"""Bytes of a tensor that are in memory at once, and bytes whose planes stand together."""
MAX_RANGES = 50_000
_SPANS = 20_000
"""Of a window."""
Span = tuple[int, int]
"""From, and up to but not including."""


@dataclass(frozen=True)
class Slices:
    """Ranges of indices along axis 0 or 1, ascending and apart; with `axis` None, the whole tensor."""

    axis: int | None
    ranges: tuple[Span, ...]


WHOLE = Slices(None, ())


def unit_bytes(tensor: Tensor, axis: int) -> int:
    """Bytes of one index along an axis, within one index of those before it."""
    return prod(tensor.shape[axis + 1 :]) * ITEM_BYTES[tensor.dtype]


def selected_bytes(tensor: Tensor, slices: Slices) -> int:
    """How many bytes are selected."""
    if slices.axis is None:
        return tensor.nbytes
    indices = sum(stop - start for start, stop in slices.ranges)
    return prod(tensor.shape[: slices.axis]) * indices * unit_bytes(tensor, slices.axis)


def windows(tensor: Tensor, slices: Slices) -> Iterator[tuple[int, int, list[Span]]]:
    """The tensor from its first byte to its last in stretches of at most WINDOW: where each begins, its length, and
    what of it is selected, counted from its beginning."""
    if not tensor.nbytes:
        return
    if slices.axis == 1:
        row, unit = unit_bytes(tensor, 0), unit_bytes(tensor, 1)
        rows = max(1, min(WINDOW // row, _SPANS // max(1, len(slices.ranges))))
        spans = [(start * unit, stop * unit) for start, stop in slices.ranges]
        for first in range(0, tensor.shape[0], rows):
            count = min(rows, tensor.shape[0] - first)
            yield first * row, count * row, [(i * row + a, i * row + b) for i in range(count) for a, b in spans]
        return
    unit = unit_bytes(tensor, 0) if slices.axis == 0 else 1
    left = [(a * unit, b * unit) for a, b in (slices.ranges if slices.axis == 0 else ((0, tensor.nbytes),))][::-1]
    for begin in range(0, tensor.nbytes, WINDOW):
        end, inside = min(begin + WINDOW, tensor.nbytes), []
        while left and left[-1][0] < end:
            start, stop = left.pop()
            inside.append((start - begin, min(stop, end) - begin))
            if stop > end:
                left.append((end, stop))
        yield begin, end - begin, inside


def parse_slices(name: str, tensor: Tensor, axis: object, ranges: object) -> Slices:
    """What a delta says of a tensor. Raises MalformedWeights."""
    if axis is None and ranges == []:
        return WHOLE
    if type(axis) is not int or axis not in (0, 1) or axis >= len(tensor.shape) or not isinstance(ranges, list):
        raise MalformedWeights(f"tensor {name!r} has slices along no axis")
    if axis == 1 and unit_bytes(tensor, 0) > WINDOW:
        raise MalformedWeights(f"tensor {name!r} has slices along axis 1 of rows above {WINDOW} bytes")
    found, before = [], -1
    for item in ranges[: MAX_RANGES + 1]:
        if (
            not isinstance(item, list)
            or len(item) != 2
            or not all(map(is_count, item))
            or not before < item[0] < item[1]
        ):
            raise MalformedWeights(f"tensor {name!r} has ranges that do not ascend")
        before = item[1]
        found.append((item[0], item[1]))
    if len(ranges) > MAX_RANGES or before > tensor.shape[axis]:
        raise MalformedWeights(f"tensor {name!r} has more ranges, or further ones, than it may")
    return Slices(axis, tuple(found))
