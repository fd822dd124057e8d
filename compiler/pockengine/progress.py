"""How long work tells how far it is: a callback that every layer may take, so it lies below all of them."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total)."""


def quiet(stage: str, done: int, total: int) -> None:
    """The callback that shows nothing."""
