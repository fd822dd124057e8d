"""Frozen weights in fewer bits: which weights, how many bits, and how large the blocks. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RecipeError, nearest
from ..ops.quantised import BLOCKS
from .fields import as_count, as_texts, check_keys, describe

_KEYS = ("weights", "block", "params")
BITS = {"int8": 8, "int4": 4}


@dataclass(frozen=True)
class Frozen:
    """
    weights  `int8` or `int4`
    block    numbers that share a scale, along the axis that is summed over
    params   globs over names of weights or of their modules; none: every large weight of a product or convolution"""

    weights: str
    block: int = 32
    params: tuple[str, ...] = ()

    @property
    def bits(self) -> int:
        return BITS[self.weights]

    def to_mapping(self) -> dict[str, Any]:
        mapping: dict[str, Any] = {"weights": self.weights, "block": self.block}
        return {**mapping, "params": list(self.params)} if self.params else mapping


def frozen_of(value: object) -> Frozen:
    """From a mapping, `{weights: int4, block: 32, params: "encoder.*"}`; raises RecipeError."""
    if isinstance(value, Frozen):
        return value
    if not isinstance(value, Mapping):
        raise RecipeError(f"frozen must be a mapping such as {{weights: int4}}, not {describe(value)}")
    check_keys(value, _KEYS, "frozen")
    if "weights" not in value:
        raise RecipeError("frozen has no 'weights': say int8 or int4")
    weights = value["weights"]
    if weights not in BITS:
        raise RecipeError(f"frozen.weights must be int8 or int4, not {describe(weights)}{nearest(str(weights), BITS)}")
    block = as_count(value.get("block", 32), "frozen.block")
    if block not in BLOCKS:
        raise RecipeError(f"frozen.block must be one of {', '.join(map(str, BLOCKS))}, not {block}")
    return Frozen(weights, block, as_texts(value["params"], "frozen.params") if "params" in value else ())
