"""How a backend's kernels become part of a program that measures them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....plan.program import Call
from ..toolchain import DeviceRuntime


def as_they_are(calls: Sequence[Call]) -> dict[str, str]:
    """Each kernel is a C source of its own."""
    return {call.kernel.symbol: call.kernel.source for call in calls}


@dataclass(frozen=True)
class Making:
    """
    sources  from the calls of all candidates to C sources by name, which define the functions of the kernels' symbols
    device   what runs the kernels; None: the processor"""

    sources: Callable[[Sequence[Call]], Mapping[str, str]] = as_they_are
    device: DeviceRuntime | None = None

    def threads(self, wanted: int) -> int:
        """Of the processor: one starts the kernels of a device."""
        return wanted if self.device is None else 1


ON_PROCESSOR = Making()
