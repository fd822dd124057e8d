"""A pack of trials as one program: it makes its operands, compares its results and reports as a model's executable.

`trials.c` has what it does and `trials.h` what its tables say. Local tuning, which can start a process for each
candidate, uses `program.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ....ir import DType, Value
from ....progress import Progress
from ....targets import Target
from ...backend import Built, PackedTrials
from ...common.lines import Lines
from ...tunable import CheckedTrial, Operand, PackLimits, Wanted
from .. import toolchain
from . import program
from .making import ON_PROCESSOR, Making

_OWN = ("measure.h", "turns.c", "turns.h", "trials.c", "trials.h")
_EXECUTABLE = "bin/model"
_RUNTIME = ("json.c",)
_ELEMENTS = {
    DType.F32: "F32", DType.F64: "F64", DType.F16: "F16", DType.BF16: "BF16", DType.I8: "I8", DType.U8: "U8",
    DType.BOOL: "U8", DType.I32: "I32", DType.I64: "I64", DType.BIT: "BIT",
}  # fmt: skip
"""Types whose elements the program can read as numbers."""


def is_checkable(outputs: Sequence[Value]) -> bool:
    """Whether the program can compare such results."""
    return all(value.type.dtype in _ELEMENTS and value.type.size < 1 << 32 for value in outputs)


def pack(
    trials: Sequence[CheckedTrial],
    target: Target,
    threads: int,
    limits: PackLimits,
    cache: Path | None,
    progress: Progress,
    making: Making = ON_PROCESSOR,
) -> PackedTrials:
    """The program of a pack. There is nothing to link with: all entry points are the program. Raises ToolchainError."""
    measured = [one.trial for one in trials]
    objects = program.compiled(measured, target, cache, lambda done, total: progress("compile", done, total), making)
    progress("link", 0, 1)
    text = tables(trials, target, threads, limits)
    made = toolchain.link_measurement(
        objects, text, target=target, own=program.own(_OWN), cache=cache, runtime=_RUNTIME, device=making.device
    )
    progress("link", 1, 1)
    points = dict.fromkeys(("executable", "library", "header"), _EXECUTABLE)
    tools = {"zig": toolchain.zig_version()}
    built = Built({_EXECUTABLE: made}, points, tools, len(objects.paths), objects.cache_hits)
    numbers = np.concatenate([one.numbers.reshape(-1) for trial in trials for one in trial.wanted])
    nbytes = max(one.input_bytes + one.arena_bytes() for one in measured)
    return PackedTrials(built, numbers, nbytes + threads * limits.evict_bytes)


def tables(trials: Sequence[CheckedTrial], target: Target, threads: int, limits: PackLimits) -> str:
    """The C text that lists the trials."""
    code = Lines()
    code.line("/* Trials: workloads, what their operands are made of, and where what they must compute lies. */")
    code.line('#include "trials.h"')
    program.emit_workloads(code, [one.trial for one in trials])
    rows, first = [], 0
    for index, one in enumerate(trials):
        _operands(code, index, one)
        first = _results(code, index, one, first)
        counts = f"{len(one.operands)}, {len(one.wanted)}"
        rows.append(f"    {{&pock_workloads[{index}], t{index}_operands, t{index}_results, {counts}}},")
    code.line("const pock_trial pock_trials[] = {")
    code.lines(rows)
    code.line("};")
    code.line(f"const uint32_t pock_trial_count = {len(rows)};")
    code.line(f"const uint64_t pock_wanted_count = {first}, pock_swept_bytes = {limits.evict_bytes};")
    code.line(f"const double pock_relative = {limits.relative!r}, pock_budget_ms = {limits.budget_ms!r};")
    code.line(f'const char *const pock_target = "{target.name}";')
    code.line(f"const uint32_t pock_most_threads = {threads};")
    return code.text()


def _operands(code: Lines, index: int, checked: CheckedTrial) -> None:
    rows = []
    given = zip(checked.trial.node.inputs, checked.trial.input_offsets, checked.operands, strict=True)
    for number, (value, offset, operand) in enumerate(given):
        name = f"t{index}_values_{number}"
        listed = ", ".join(map(str, _raw(value, operand)))
        code.line(f"static const unsigned char {name}[] = {{{listed}}};")
        nbytes = 0 if value.type.dtype is DType.BIT else operand.values.itemsize
        fields = (offset, value.type.size, name, len(operand.values), nbytes, f"{operand.seed}u")
        rows.append(f"    {{{', '.join(map(str, fields))}}}, /* {value.type} */")
    code.line(f"static const pock_operand t{index}_operands[] = {{")
    code.lines(rows or ["    {0},"])
    code.line("};")


def _raw(value: Value, operand: Operand) -> bytes:
    """The bytes of the values that elements are chosen from; bits need none."""
    return b"\0" if value.type.dtype is DType.BIT else operand.values.tobytes()


def _results(code: Lines, index: int, checked: CheckedTrial, first: int) -> int:
    """The table of a trial's results, whose numbers begin at `first`; where the next one's begin."""
    rows = []
    for value, offset, one in zip(
        checked.trial.node.outputs, checked.trial.output_offsets, checked.wanted, strict=True
    ):
        rows.append(f"    {{{_result(value, offset, one, first)}}}, /* {value.type} */")
        first += one.numbers.size
    code.line(f"static const pock_result t{index}_results[] = {{")
    code.lines(rows)
    code.line("};")
    return first


def _result(value: Value, offset: int, one: Wanted, first: int) -> str:
    alternatives, checked = one.numbers.shape
    kind = f"POCK_AS_{_ELEMENTS[value.type.dtype]}"
    return f"{offset}, {value.type.size}, {first}, {one.slack!r}, {checked}, {alternatives}, {one.seed}u, {kind}"
