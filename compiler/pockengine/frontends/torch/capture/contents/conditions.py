"""What has to hold of the data for a program of static shapes to be right: the contents of tensors decided something as
they did for the example inputs."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

Place = tuple[str, int]
"""File and line of a call."""

_SHOWN = 4
"""Of the places in a warning."""


class Conditions:
    """Those of one trace.

    places  to be filled: where something is decided, in order"""

    def __init__(self, places: dict[Place, None]) -> None:
        self._held: list[Tensor] = []
        self._places = places

    def add(self, place: Place, held: Tensor | None) -> None:
        """What `place` decides. held: a scalar; None where what depends on it is NaN by itself."""
        self._places[place] = None
        if held is not None:
            self._held.append(held)

    def guarded(self, result: Any) -> Any:
        """What a module returned, its floating-point tensors NaN where a condition does not hold."""
        if not self._held:
            return result
        held = torch.stack(self._held).all()

        def where(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.is_floating_point():
                return x
            return torch.where(held, x, torch.full((), float("nan"), dtype=x.dtype))

        return pytree.tree_map(where, result)


def warn(places: Collection[Place]) -> None:
    """Say which lines decide as the example inputs did, for whoever meets the NaN later."""
    if places:
        shown = "; ".join(list(map(quoted, places))[:_SHOWN])
        more = f"; and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        warnings.warn(
            f"the contents of tensors decide in {shown}{more}: always as for the example inputs, and for inputs that "
            "would decide otherwise the outputs are NaN",
            stacklevel=6,  # where the user calls `pock.from_torch`
        )


def quoted(place: Place) -> str:
    """The line of a call, with where it is."""
    path, line = place
    return f"line {line} of {Path(path).name} ('{linecache.getline(path, line).strip()}')"
