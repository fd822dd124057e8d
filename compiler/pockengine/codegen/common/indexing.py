"""Index arithmetic that templates share: strides, broadcasting, loops that collapse, digits of a flat index."""

from __future__ import annotations

import math
from collections.abc import Sequence

Ints = tuple[int, ...]


def row_major(shape: Sequence[int]) -> Ints:
    """Elements between neighbours along each axis."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def broadcast_strides(shape: Sequence[int], space: Sequence[int]) -> Ints:
    """Strides with which an array of `shape` is read in the loop space `space`: 0 along broadcast axes."""
    lead = len(space) - len(shape)
    own = row_major(shape)
    return tuple(0 if axis < lead or shape[axis - lead] == 1 else own[axis - lead] for axis in range(len(space)))


def collapse(extents: Sequence[int], strides: Sequence[Ints]) -> tuple[Ints, tuple[Ints, ...]]:
    """Drop loops of one iteration and merge neighbours that every operand walks as one.

    `strides` has one tuple per operand. Always returns at least one loop."""
    kept: list[int] = []
    columns: list[list[int]] = []
    for axis, extent in enumerate(extents):
        column = [s[axis] for s in strides]
        if extent == 1:
            continue
        if kept and all(outer == inner * extent for outer, inner in zip(columns[-1], column, strict=True)):
            kept[-1] *= extent
            columns[-1] = column
        else:
            kept.append(extent)
            columns.append(column)
    if not kept:
        return (1,), tuple((0,) for _ in strides)
    return tuple(kept), tuple(tuple(column[i] for column in columns) for i in range(len(strides)))


def digits(flat: str, extents: Sequence[int]) -> list[str]:
    """Expressions of the digits of the flat index `flat` in the mixed radix `extents` (empty loops count as one:
    their bodies never run, but must not divide by zero)."""
    result = []
    extents = [max(1, extent) for extent in extents]
    for axis in range(len(extents)):
        below = math.prod(extents[axis + 1 :])
        text = flat if below == 1 else f"{flat} / {below}"
        result.append(text if axis == 0 else f"{text} % {extents[axis]}")
    return result


def dot(indices: Sequence[str], strides: Sequence[int], base: int = 0) -> str:
    """Expression of `base + sum(index * stride)`; `0` when everything vanishes."""
    terms = [
        index if stride == 1 else f"{index} * {stride}" if index.isidentifier() else f"({index}) * {stride}"
        for index, stride in zip(indices, strides, strict=True)
        if stride != 0
    ]
    if base:
        terms.append(str(base))
    return " + ".join(terms) if terms else "0"


def flat_offset(flat: str, extents: Sequence[int], strides: Sequence[int]) -> str:
    """Expression of an operand's offset at the flat index `flat` of a loop nest."""
    merged, (own,) = collapse(extents, [tuple(strides)])
    return dot(digits(flat, merged), own)
