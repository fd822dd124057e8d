"""What a backend has worked out, so that it does so once. A backend owns one, which lives as long as it does."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T")

MOST = 8192
"""Results that are kept: twenty times what all programs of a MobileNetV2 need, and about 50 MB of kernels."""


class _Nothing(Enum):
    YET = "no result yet"


class Memo:
    """Results by everything that they depend on. The first element of a key says what it is a result of. Where there
    are more than `most`, the one is given up that was not asked for the longest."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: tuple[Hashable, ...], make: Callable[[], T]) -> T:
        """The result for a key, made where there is none."""
        found: T | _Nothing = self._known.get(key, _Nothing.YET)
        if found is not _Nothing.YET:
            self._known.move_to_end(key)
            return found
        made = make()  # which may ask for others
        self._known[key] = made
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return made
