"""Trained weights in 16 bits: which weights, and how what they become is rounded. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RecipeError, nearest
from ..ir import DType
from .fields import as_texts, describe
from .keys import canonical, key, read_keys

RANDOM, NEAREST = "random", "nearest"
_ROUNDINGS = (RANDOM, NEAREST)


def _weights(value: object, where: str) -> str:
    if value == DType.F16.value:
        raise RecipeError(
            f"{where} cannot be f16, which has no numbers between 0 and 6e-8 and none above 65504: choose bf16"
        )
    if value != DType.BF16.value:
        raise RecipeError(f"{where} must be bf16, not {describe(value)}; leave 'trained' out for f32")
    return DType.BF16.value


def _rounding(value: object, where: str) -> str:
    if not isinstance(value, str) or value not in _ROUNDINGS:
        raise RecipeError(
            f"{where} must be {' or '.join(_ROUNDINGS)}, not {describe(value)}{nearest(str(value), _ROUNDINGS)}"
        )
    return value


@dataclass(frozen=True)
class Trained:
    """
    weights   `bf16`
    rounding  of what a step makes of a weight: `random`, up or down so that it is right on average, or `nearest`
    params    globs over names of weights or of their modules; none: every large one of two axes or more"""

    weights: str = key(_weights)
    rounding: str = key(_rounding, RANDOM)
    params: tuple[str, ...] = key(as_texts, (), always=False)

    @property
    def dtype(self) -> DType:
        return DType(self.weights)

    def to_mapping(self) -> dict[str, Any]:
        """The canonical form."""
        return canonical(self)


def trained_of(value: object) -> Trained:
    """From a mapping, `{weights: bf16, rounding: random, params: "encoder.*"}`; raises RecipeError."""
    if isinstance(value, Trained):
        return value
    if not isinstance(value, Mapping):
        raise RecipeError(f"trained must be a mapping such as {{weights: bf16}}, not {describe(value)}")
    fields = read_keys(Trained, value, "trained")
    if "weights" not in fields:
        raise RecipeError("trained has no 'weights': say bf16")
    return Trained(**fields)
