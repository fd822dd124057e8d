"""Reading a recipe's mappings with errors that name the key, what was found, and what would have been right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import RecipeError, nearest
from ..sizes import parse_size

_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    dict: "a mapping",
    list: "a list",
}


def check_keys(mapping: Mapping[Any, Any], known: Iterable[str], where: str) -> None:
    """Raise RecipeError naming the first key that is not in `known`, with the nearest known key."""
    known = tuple(known)
    for key in mapping:
        if key not in known:
            raise RecipeError(f"{where} has the unknown key '{key}'{nearest(str(key), known)}")


def describe(value: object) -> str:
    """What a value is, for an error message: `a text ('fast')`."""
    kind = next((text for type_, text in _KINDS.items() if type(value) is type_), None)
    return f"{kind} ({value!r})" if kind else "nothing" if value is None else repr(value)


def as_number(value: object, key: str, low: float, high: float = math.inf, *, above: bool = False) -> float:
    """A finite float in `[low, high]` (or `(low, high]` with `above`). YAML reads `1e-3` as a text; it is accepted."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise RecipeError(f"{key} must be a number, not {describe(value)}") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecipeError(f"{key} must be a number, not {describe(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if not math.isfinite(number) or number < low or number > high or (above and number == low):
        bound = f"greater than {low:g}" if above else f"at least {low:g}"
        upper = f" and at most {high:g}" if high < math.inf else ""
        raise RecipeError(f"{key} must be {bound}{upper}, not {number:g}")
    return number


def as_count(value: object, key: str) -> int:
    """A whole number of at least 1, of 32 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise RecipeError(f"{key} must be a whole number, not {describe(value)}")
    if value < 1:
        raise RecipeError(f"{key} must be at least 1, not {value}")
    if value >= 2**31:
        raise RecipeError(f"{key} must be less than {2**31}")
    return value


def as_size(value: object, key: str) -> int:
    """A size of memory in bytes: a whole number, or a text such as `64MiB`."""
    size = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str):
        size = parse_size(value)
    if size is None or not 0 < size < 1 << 63:
        raise RecipeError(f"{key} must be a size such as 64MiB or 1.5GiB, or bytes, not {describe(value)}")
    return size


def as_flag(value: object, key: str) -> bool:
    if not isinstance(value, bool):
        raise RecipeError(f"{key} must be true or false, not {describe(value)}")
    return value


def as_text(value: object, key: str) -> str:
    if not isinstance(value, str) or not value:
        raise RecipeError(f"{key} must be a text, not {describe(value)}")
    return value


def as_texts(value: object, key: str) -> tuple[str, ...]:
    """One text or a list of at least one."""
    items = value if isinstance(value, list | tuple) else [value]
    if not items:
        raise RecipeError(f"{key} is empty: name at least one")
    return tuple(as_text(item, key) for item in items)


def as_rate(value: object, key: str) -> float:
    """A number of at least 0."""
    return as_number(value, key, 0.0)


def as_positive(value: object, key: str) -> float:
    """A number greater than 0."""
    return as_number(value, key, 0.0, above=True)
