"""Numbers that devices tell. They may send anything that JSON can say: a text, a number of thousands of digits, NaN."""

from typing import Any


def told_number(value: Any, low: float, high: float) -> float | None:
    """The number as it was told, if it is one from `low` to `high`, both finite; None for everything else.

    A truth value is no number. NaN and infinities lie between no bounds; integers of any length are compared exactly.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if low <= value <= high else None
