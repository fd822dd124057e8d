"""Planned programs as `POCK_DEBUG=4` shows them: the order of the kernels, the place of each value, the sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..debug import Level, say, shows
from ..plan.program import Kernel, Program


def show_plan(programs: Mapping[str, Program]) -> None:
    """Say the plan of each program, and each kernel once; nothing below level 4."""
    if not shows(Level.SOURCES):
        return
    kernels: dict[Kernel, dict[str, None]] = {}
    for name, program in programs.items():
        say("\n".join(f"{name}: {line}" for line in _lines(program)))
        for kernel in (call.kernel for step in program.steps for call in step.lowered.calls):
            kernels.setdefault(kernel, {})[name] = None
    for kernel, users in kernels.items():
        say(f"{', '.join(users)}: kernel {kernel.symbol}\n{kernel.source}")


def _lines(program: Program) -> Iterator[str]:
    plan = program.plan
    yield f"plan: {len(program.steps)} steps, {plan.arena_bytes} bytes of arena"
    for index, step in enumerate(program.steps):
        kernels = ", ".join(call.kernel.symbol for call in step.lowered.calls)
        places = ", ".join(
            f"%{value.name} in {program.locations[value].space} at {program.locations[value].offset}"
            for value in step.node.outputs
            if value in program.locations
        )
        yield f"step {index} {step.node.phase} '{step.node.origin}': {kernels} -> {places}"
    for slot in plan.slots:
        yield f"slot {slot.offset}+{slot.nbytes} from step {slot.first} to {slot.last}: {slot.kind} {slot.value}"
