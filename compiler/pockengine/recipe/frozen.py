"""Frozen weights in fewer bits: which weights, in which format, and how large the blocks. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RecipeError, nearest
from ..ops.quantised import BLOCKS, BlockFormat
from .fields import as_count, as_texts, describe
from .keys import canonical, key, read_keys

_WEIGHTS = " or ".join([", ".join(list(BlockFormat)[:-1]), list(BlockFormat)[-1]])


def _weights(value: object, where: str) -> str:
    if not isinstance(value, str) or value not in tuple(BlockFormat):
        raise RecipeError(f"{where} must be {_WEIGHTS}, not {describe(value)}{nearest(str(value), BlockFormat)}")
    return value


def _block(value: object, where: str) -> int:
    block = as_count(value, where)
    if block not in BLOCKS:
        raise RecipeError(f"{where} must be one of {', '.join(map(str, BLOCKS))}, not {block}")
    return block


@dataclass(frozen=True)
class Frozen:
    """
    weights  `int8`, `int4` or `fp8`
    block    numbers that share a scale, along the axis that is summed over
    params   globs over names of weights or of their modules; none: every large weight of a product or convolution"""

    weights: str = key(_weights)
    block: int = key(_block, 32)
    params: tuple[str, ...] = key(as_texts, (), always=False)

    @property
    def format(self) -> BlockFormat:
        return BlockFormat(self.weights)

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
    return Frozen(**fields)
