"""Compiles candidate kernels in batches into one program, runs it, and says what each candidate computed and how long
it took. The program is a process of its own, so a candidate that crashes takes nothing with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..codegen.c.emit.model import emit_program
from ..codegen.c.native import toolchain
from ..codegen.common.source import Code
from ..ir import Array, Graph, Node
from ..plan import MemoryPlan, aligned
from ..plan.program import Location, Lowered, Program, Step
from ..targets import Target
from .reference import stored

_OWN = ("measure.c", "measure.h")
_LONGEST = 120.0
"""Seconds after which a run that has not ended is given up."""


@dataclass(frozen=True)
class Trial:
    """One workload: a node, and the ways to compute it that are compared."""

    node: Node
    candidates: tuple[Lowered, ...]

    @property
    def input_offsets(self) -> list[int]:
        return _offsets([value.type.nbytes for value in self.node.inputs])[:-1]

    @property
    def output_offsets(self) -> list[int]:
        return _offsets([value.type.nbytes for value in self.node.outputs])[:-1]

    @property
    def input_bytes(self) -> int:
        return _offsets([value.type.nbytes for value in self.node.inputs])[-1]

    @property
    def output_bytes(self) -> int:
        return _offsets([value.type.nbytes for value in self.node.outputs])[-1]

    def arena_bytes(self) -> int:
        """Outputs, then the scratch memory of the candidate that wants most."""
        return self.output_bytes + max(aligned(lowered.workspace_bytes) for lowered in self.candidates)

    def pack(self, inputs: Sequence[Array]) -> bytes:
        """The inputs as the program reads them."""
        memory = bytearray(self.input_bytes)
        for value, array, offset in zip(self.node.inputs, inputs, self.input_offsets, strict=True):
            data = stored(value.type, array)
            memory[offset : offset + len(data)] = data
        return bytes(memory)


@dataclass(frozen=True)
class Run:
    """What one candidate did: milliseconds of each round, and whether it wrote beyond its memory. `output` is the file
    of what it computed; `failure` says why there is nothing of all that."""

    ms: tuple[float, ...] = ()
    output: Path | None = None
    overrun: bool = False
    failure: str | None = None


@dataclass(frozen=True)
class Limits:
    """How often candidates are run: `rounds` each, fewer once `budget_ms` have gone by. Before each run every thread
    sweeps over `evict_bytes`. 0 rounds: only what they compute."""

    rounds: int
    budget_ms: float
    evict_bytes: int


Report = Callable[[int, int], None]


def build(
    trials: Sequence[Trial], target: Target, threads: int, cache: Path | None, report: Report | None = None
) -> bytes:
    """The measuring program for some workloads. Raises ToolchainError."""
    calls = [call for trial in trials for lowered in trial.candidates for call in lowered.calls]
    objects = toolchain.compile_objects(
        {call.kernel.symbol: call.kernel.source for call in calls}, target, cache, report
    )
    own = {name: (Path(__file__).parent / name).read_text("utf-8") for name in _OWN}
    return toolchain.link_measurement(objects, tables(trials), own, target, cache)


def tables(trials: Sequence[Trial]) -> str:
    """The C text that declares the candidates' kernels and lists the workloads."""
    code = Code()
    code.line("/* Workloads to measure: each candidate is a program of one node. */")
    code.line('#include "measure.h"')
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
    return code.text()


def _program(name: str, trial: Trial, lowered: Lowered) -> Program:
    node = trial.node
    locations = {value: Location("input", at) for value, at in zip(node.inputs, trial.input_offsets, strict=True)}
    locations |= {value: Location("arena", at) for value, at in zip(node.outputs, trial.output_offsets, strict=True)}
    step = Step(node, lowered, trial.output_bytes if lowered.workspace_bytes else None)
    plan = MemoryPlan((), trial.arena_bytes(), trial.arena_bytes())
    return Program(name, Graph(name), (step,), locations, {}, plan)


def run(
    program: Path, index: int, trial: Trial, inputs: bytes, folder: Path, threads: int, limits: Limits
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
    program: Path, index: int, source: Path, folder: Path, threads: int, limits: Limits, wanted: list[int]
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


def _offsets(sizes: Sequence[int]) -> list[int]:
    """Where things of these sizes begin, one behind the other, and where the last one ends."""
    found = [0]
    for size in sizes:
        found.append(found[-1] + aligned(size))
    return found
