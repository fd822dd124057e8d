"""Candidates of tuning as one program: what each computed, and how long it took.

Kernels are compiled in batches and linked. The program is a process of its own, so a candidate that crashes takes
nothing with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....ir import Array, Graph
from ....plan import MemoryPlan, Space
from ....plan.program import Location, Lowered, Program, Step
from ....targets import Target
from ...common.lines import Lines
from ...tunable import Report, Run, RunLimits, Trial
from .. import toolchain
from ..tables import emit_program
from .making import ON_PROCESSOR, Making

OWN = ("measure.c", "measure.h", "turns.c", "turns.h")
_LONGEST = 120.0
"""Seconds after which a run that has not ended is given up."""


@dataclass(frozen=True)
class ProgramMeasurement:
    """One program that runs the candidates of some trials."""

    file: Path
    trials: tuple[Trial, ...]
    folder: Path
    threads: int

    def run(self, index: int, inputs: Sequence[Array], limits: RunLimits) -> list[Run]:
        """Every candidate of trial `index` on these inputs."""
        trial = self.trials[index]
        return run(self.file, index, trial, trial.pack(inputs), self.folder, self.threads, limits)


def measurement(
    trials: Sequence[Trial],
    folder: Path,
    target: Target,
    threads: int,
    cache: Path | None,
    report: Report | None,
    making: Making = ON_PROCESSOR,
) -> ProgramMeasurement:
    """The program of some trials, in a folder. Raises ToolchainError."""
    file = folder / "measure"
    file.unlink(missing_ok=True)
    file.write_bytes(build(trials, target, cache, report, making))
    file.chmod(0o755)
    return ProgramMeasurement(file, tuple(trials), folder / "run", threads)


def build(
    trials: Sequence[Trial],
    target: Target,
    cache: Path | None,
    report: Report | None = None,
    making: Making = ON_PROCESSOR,
) -> bytes:
    """The measuring program for some workloads. Raises ToolchainError."""
    objects = compiled(trials, target, cache, report, making)
    code = Lines()
    code.line("/* Workloads to measure: each candidate is a program of one node. */")
    code.line('#include "measure.h"')
    emit_workloads(code, trials)
    return toolchain.link_measurement(objects, code.text(), own(OWN), target, cache, device=making.device)


def compiled(
    trials: Sequence[Trial],
    target: Target,
    cache: Path | None,
    report: Report | None = None,
    making: Making = ON_PROCESSOR,
) -> toolchain.Objects:
    """The candidates' kernels. Raises ToolchainError."""
    calls = [call for trial in trials for lowered in trial.candidates for call in lowered.calls]
    return toolchain.compile_objects(making.sources(calls), target, cache, report)


def own(names: Sequence[str]) -> dict[str, str]:
    """Sources and headers of this folder, by name."""
    return {name: (Path(__file__).parent / name).read_text("utf-8") for name in names}


def emit_workloads(code: Lines, trials: Sequence[Trial]) -> None:
    """Declare the candidates' kernels and list the workloads."""
    symbols = {call.kernel.symbol for trial in trials for lowered in trial.candidates for call in lowered.calls}
    for symbol in sorted(symbols):
        code.line(f"void {symbol}(void *const *arg, int task, int tasks);")
    rows = []
    for index, trial in enumerate(trials):
        names = [f"w{index}_{number}" for number in range(len(trial.candidates))]
        for name, lowered in zip(names, trial.candidates, strict=True):
            emit_program(code, name, _program(name, trial, lowered))
        listed = ", ".join(f"&{name}_program" for name in names)
        code.line(f"static const pock_program *const w{index}[] = {{{listed}}};")
        sizes = (len(names), trial.input_bytes, trial.output_bytes, trial.arena_bytes())
        rows.append(f"    {{w{index}, {', '.join(map(str, sizes))}}},")
    code.line("const pock_workload pock_workloads[] = {")
    code.lines(rows)
    code.line("};")
    code.line(f"const uint32_t pock_workload_count = {len(rows)};")


def _program(name: str, trial: Trial, lowered: Lowered) -> Program:
    node = trial.node
    locations = {value: Location(Space.INPUT, at) for value, at in zip(node.inputs, trial.input_offsets, strict=True)}
    locations |= {
        value: Location(Space.ARENA, at) for value, at in zip(node.outputs, trial.output_offsets, strict=True)
    }
    step = Step(node, lowered, trial.output_bytes if lowered.workspace_bytes else None)
    plan = MemoryPlan((), trial.arena_bytes(), trial.arena_bytes())
    outputs = {f"out{number}": value for number, value in enumerate(node.outputs)}
    return Program(name, Graph(name), (step,), locations, outputs, plan)


def run(
    program: Path, index: int, trial: Trial, inputs: bytes, folder: Path, threads: int, limits: RunLimits
) -> list[Run]:
    """Every candidate of workload `index` on these inputs; files of outputs appear in `folder`. When the process ends
    badly, each candidate is run alone, so that one that crashes does not hide the others."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "inputs"
    source.write_bytes(inputs)
    wanted = list(range(len(trial.candidates)))
    together = _attempt(program, index, source, folder, threads, limits, wanted)
    if isinstance(together, list):
        return together
    if len(wanted) == 1:
        return [Run(failure=together)]
    alone = [_attempt(program, index, source, folder, threads, limits, [one]) for one in wanted]
    return [Run(failure=found) if isinstance(found, str) else found[0] for found in alone]


def _attempt(
    program: Path, index: int, source: Path, folder: Path, threads: int, limits: RunLimits, wanted: list[int]
) -> list[Run] | str:
    """The runs of some candidates, or why there are none."""
    figures = (threads, limits.rounds, limits.budget_ms, limits.evict_bytes, *wanted)
    command = [str(program), str(index), str(source), str(folder), *map(str, figures)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        return f"it did not end within {_LONGEST:.0f} seconds"
    if done.returncode != 0:
        return done.stderr.strip() or f"it ended with status {done.returncode}"
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return [Run(tuple(one["ms"]), folder / str(one["candidate"]), one["overrun"]) for one in said]
