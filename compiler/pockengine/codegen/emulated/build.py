"""From planned programs to an executable and a library that run GPU-C kernels on a processor."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ...progress import Progress
from ...targets import Target
from ..backend import Built
from ..gpu.launches import calls_of
from ..model import Model
from ..native import toolchain
from ..native.members import members_of, tools
from ..native.tables import emit_model
from .text import units_of


def emulator() -> toolchain.DeviceRuntime:
    """The runtime's part that runs launches."""
    return toolchain.DeviceRuntime.of("pockengine.codegen.emulated")


def build(model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
    """Compile the kernels and link. Raises ToolchainError."""
    runtime = emulator()
    units = units_of(calls_of(model.programs), runtime.sources["emulator.h"])
    objects = toolchain.compile_objects(units, target, cache, lambda done, total: progress("compile", done, total))
    linked = toolchain.link(objects, emit_model(model), target, cache, partial(progress, "link"), runtime)
    members, points = members_of(target, *linked)
    return Built(members, points, tools(), len(units), objects.cache_hits)
