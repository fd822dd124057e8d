"""The C backend's measurer: programs of candidates, and the machine's peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....ir import Array
from ....targets import Target
from ...native.measure import program
from ...tunable import Peak, Report, Run, RunLimits, Trial
from . import peak


@dataclass(frozen=True)
class CMeasurement:
    """One program that runs the candidates of some trials."""

    file: Path
    trials: tuple[Trial, ...]
    folder: Path
    threads: int

    def run(self, index: int, inputs: Sequence[Array], limits: RunLimits) -> list[Run]:
        """Every candidate of trial `index` on these inputs."""
        trial = self.trials[index]
        return program.run(self.file, index, trial, trial.pack(inputs), self.folder, self.threads, limits)


@dataclass(frozen=True)
class CMeasurer:
    """Runs a target's kernels on this machine, which must be the target; `cache` is the folder of compiled ones."""

    target: Target
    threads: int
    cache: Path | None = None

    def build(self, trials: Sequence[Trial], folder: Path, report: Report | None = None) -> CMeasurement:
        """One program of all trials. Raises ToolchainError."""
        file = folder / "measure"
        file.unlink(missing_ok=True)
        file.write_bytes(program.build(trials, self.target, self.cache, report))
        file.chmod(0o755)
        return CMeasurement(file, tuple(trials), folder / "run", self.threads)

    def peak(self) -> Peak:
        """What this machine can do at best. Raises ToolchainError or PockError."""
        return peak.measure_peak(self.target, self.threads, self.cache)
