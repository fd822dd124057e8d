"""From planned programs to an executable and a library that start kernels on an OpenCL device."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ...progress import Progress
from ...targets import Target
from ..backend import Built
from ..gpu.launches import calls_of, kernels_of, launches_name, texel_blocks
from ..model import Model
from ..native import toolchain
from ..native.members import members_of, tools
from ..native.tables import emit_model
from .text import launches_c


def device_runtime() -> toolchain.DeviceRuntime:
    """The runtime's part that hands work to the device."""
    return toolchain.DeviceRuntime.of("pockengine.codegen.opencl")


def build(model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
    """Compile the kernels' starters and link. Raises ToolchainError."""
    calls = calls_of(model.programs)
    launches = launches_c(calls, device_runtime().sources["launch.h"], texel_blocks(model.programs))
    sources = {launches_name(launches): launches}
    objects = toolchain.compile_objects(sources, target, cache, lambda done, total: progress("compile", done, total))
    linked = toolchain.link(objects, emit_model(model), target, cache, partial(progress, "link"), device_runtime())
    members, points = members_of(target, *linked)
    return Built(members, points, tools(), len(kernels_of(calls)), objects.cache_hits)
