"""Measuring kernels that a device other than the processor runs: candidates run through the runtime's own way of
starting kernels, here or in a pack of trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....targets import Target
from ...tunable import Report, Trial
from .making import Making
from .packs import Packs
from .program import ProgramMeasurement, measurement


@dataclass(frozen=True)
class AcceleratedMeasurer:
    """Runs kernels on the GPU of this machine, which must be the target; `cache` is the folder of compiled ones,
    `libraries` are those that may make products in their place."""

    target: Target
    making: Making
    cache: Path | None = None
    libraries: frozenset[str] = frozenset()

    def has(self, library: str) -> bool:
        """See Measurer."""
        return library in self.libraries

    def build(self, trials: Sequence[Trial], folder: Path, report: Report | None = None) -> ProgramMeasurement:
        """One program of all trials. Raises ToolchainError."""
        return measurement(trials, folder, self.target, 1, self.cache, report, self.making)

    def peak(self) -> None:
        """What a GPU can do at best is not measured."""


class Accelerated(Packs):
    """See `codegen.backend.Backend`; each language says what its `making` is."""

    def measurer(self, target: Target, threads: int, cache: Path | None = None) -> AcceleratedMeasurer:
        """What runs kernels on this machine's GPU."""
        return AcceleratedMeasurer(target, self.making(target, cache), cache)
