"""What a backend has worked out, so that it does so once: a backend owns one, so it lives as long as the backend."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """Results by everything that they depend on. The first element of a key says what it is a result of."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def get(self, key: tuple[Hashable, ...], make: Callable[[], T]) -> T:
        """The result for a key, made where there is none yet."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found
