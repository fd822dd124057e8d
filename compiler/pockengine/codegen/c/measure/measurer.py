"""The C backend's measurer: programs of candidates, and the machine's peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....targets import Target
from ...native.measure.program import ProgramMeasurement, measurement
from ...tunable import Peak, Report, Trial
from . import peak


@dataclass(frozen=True)
class CMeasurer:
    """Runs a target's kernels on this machine, which must be the target; `cache` is the folder of compiled ones."""

    target: Target
    threads: int
    cache: Path | None = None

    def has(self, library: str) -> bool:
        """See Measurer: no candidate names one."""
        return False

    def build(self, trials: Sequence[Trial], folder: Path, report: Report | None = None) -> ProgramMeasurement:
        """One program of all trials. Raises ToolchainError."""
        return measurement(trials, folder, self.target, self.threads, self.cache, report)

    def peak(self) -> Peak:
        """What this machine can do at best. Raises ToolchainError or PockError."""
        return peak.measure_peak(self.target, self.threads, self.cache)
