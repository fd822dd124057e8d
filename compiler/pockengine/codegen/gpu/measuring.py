"""Measuring kernels on a GPU: the part of a backend's protocol that asks how quick they are, for every language of
GPU kernels. Candidates run through the runtime's own way of starting kernels, here or in a pack of trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...targets import Target
from ..native.measure.making import Making
from ..native.measure.packs import Packs
from ..native.measure.program import ProgramMeasurement, measurement
from ..tunable import Report, Trial


@dataclass(frozen=True)
class GpuMeasurer:
    """Runs kernels on the GPU of this machine, which must be the target; `cache` is the folder of compiled ones."""

    target: Target
    making: Making
    cache: Path | None = None

    def build(self, trials: Sequence[Trial], folder: Path, report: Report | None = None) -> ProgramMeasurement:
        """One program of all trials. Raises ToolchainError."""
        return measurement(trials, folder, self.target, 1, self.cache, report, self.making)

    def peak(self) -> None:
        """What a GPU can do at best is not measured."""


class Measured(Packs):
    """See `codegen.backend.Backend`; each language says what its `making` is."""

    def measurer(self, target: Target, threads: int, cache: Path | None = None) -> GpuMeasurer:
        """What runs kernels on this machine's GPU."""
        return GpuMeasurer(target, self.making(target, cache), cache)
