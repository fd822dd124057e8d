"""What a peer's module gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Training:
    """`step` runs one training step to its end and returns the loss before the update. `trained` is how many numbers it
    updates. `facts` are figures of the build."""

    step: Callable[[], float]
    trained: int
    facts: dict[str, Any] = field(default_factory=dict)
