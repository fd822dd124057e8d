"""What a few steps of training came to, on either side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir import Array


@dataclass(frozen=True)
class Trained:
    """losses: of each step, before its update. tensors: all of floating point by name, afterwards. gradients: of the
    first step, by the names of what is trained; of the trained channels alone."""

    losses: tuple[float, ...]
    tensors: Mapping[str, Array]
    gradients: Mapping[str, Array]
