"""Frozen weights in fewer bits: which weights, in which format, and how large the blocks. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RecipeError, nearest
from ..ops.quantised import ALIGNED, BLOCKS, BlockFormat
from .fields import as_texts, describe
from .keys import canonical, key, read_keys

_WEIGHTS = " or ".join([", ".join(list(BlockFormat)[:-1]), list(BlockFormat)[-1]])


def _weights(value: object, where: str) -> str:
    if not isinstance(value, str) or value not in tuple(BlockFormat):
        raise RecipeError(f"{where} must be {_WEIGHTS}, not {describe(value)}{nearest(str(value), BlockFormat)}")
    return value


ROW = "row"
"""The block of all numbers that are summed over together."""


def _block(value: object, where: str) -> int | str:
    if value == ROW:
        return ROW
    if type(value) is not int or value not in BLOCKS:
        found = str(value) if type(value) is int else describe(value)
        raise RecipeError(f"{where} must be one of {', '.join(map(str, BLOCKS))} or {ROW}, not {found}")
    return value


def _activations(value: object, where: str) -> str:
    if value != BlockFormat.FP8:
        raise RecipeError(f"{where} must be {BlockFormat.FP8} where it is given, not {describe(value)}")
    return str(value)


@dataclass(frozen=True)
class Frozen:
    """
    weights      `int8`, `int4` or `fp8`
    block        numbers that share a scale, along the axis that is summed over; or `row`: all of them
    activations  what weights in `fp8` are multiplied with in the forward part: as it is, or `fp8`, rounded, with a
                 scale for each row
    params       globs over names of weights or of their modules; none: every large weight of a product or
                 convolution"""

    weights: str = key(_weights)
    block: int | str = key(_block, 32)
    activations: str | None = key(_activations, None, always=False)
    params: tuple[str, ...] = key(as_texts, (), always=False)

    @property
    def format(self) -> BlockFormat:
        return BlockFormat(self.weights)

    def block_of(self, columns: int) -> int:
        """Numbers that share a scale, where so many are summed over."""
        return -(-columns // ALIGNED) * ALIGNED if isinstance(self.block, str) else self.block

    def to_mapping(self) -> dict[str, Any]:
        """The canonical form."""
        return canonical(self)


def frozen_of(value: object) -> Frozen:
    """From a mapping, `{weights: int4, block: 32, params: "encoder.*"}`; raises RecipeError."""
    if isinstance(value, Frozen):
        return value
    if not isinstance(value, Mapping):
        raise RecipeError(f"frozen must be a mapping such as {{weights: int4}}, not {describe(value)}")
    fields = read_keys(Frozen, value, "frozen")
    if "weights" not in fields:
        raise RecipeError(f"frozen has no 'weights': say {_WEIGHTS}")
    if "activations" in fields:
        fields.setdefault("block", ROW)
    return _checked(Frozen(**fields))


def _checked(frozen: Frozen) -> Frozen:
    """What does not go together is refused."""
    if frozen.block == ROW and frozen.format is BlockFormat.INT4:
        raise RecipeError(f"frozen.block cannot be {ROW} for int4: four bits are too few for one scale; leave it out")
    if frozen.activations is not None and (frozen.format is not BlockFormat.FP8 or frozen.block != ROW):
        raise RecipeError(f"frozen.activations needs weights: fp8 and block: {ROW}, which is its default")
    return frozen
