"""How much of a long sweep a run of the tests takes: a part, the same each time, or all of it with POCK_ALL=1.

A sweep tries one thing on many models, databases or forms. Its parts fail together more often than not, so a run that
people wait for takes a part; before a release all are taken.
"""

import os
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")

ALL = os.environ.get("POCK_ALL") == "1"


def some(cases: Iterable[Case], each: int, first: int = 0) -> list[Case]:
    """Every `each`th case from the `first` on. Where cases are products, `each` should divide no factor."""
    found = list(cases)
    return found if ALL else found[first::each]
