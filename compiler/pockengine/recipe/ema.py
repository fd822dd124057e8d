"""The exponential moving average of the weights in a recipe."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import RecipeError
from .fields import as_number, check_keys


def ema_of(value: object, where: str = "ema") -> float | None:
    """The decay, from a number or `{decay: 0.999}`; None for no average. Raises RecipeError."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        check_keys(value, ("decay",), where)
        if "decay" not in value:
            raise RecipeError(f"{where} needs a decay, such as 0.999")
        value = value["decay"]
    decay = as_number(value, where, 0.0, above=True)
    if decay >= 1.0:
        raise RecipeError(f"{where} must be less than 1, such as 0.999, not {decay:g}")
    return decay
