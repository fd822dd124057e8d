"""From planned programs to machine code: an executable and a library of compiled kernels and the model's tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ...progress import Progress
from ...targets import Target
from ..backend import Built
from ..model import Model
from .emit.model import emit_model, kernel_sources
from .native import toolchain

EXECUTABLE, HEADER = "bin/model", "bin/model.h"


def build(model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
    """Compile the kernels (through the object cache) and link. Raises ToolchainError naming a kernel that fails."""
    sources = kernel_sources(model.programs.values())
    objects = toolchain.compile_objects(sources, target, cache, lambda done, total: progress("compile", done, total))
    text = emit_model(model)
    linking = partial(progress, "link")
    executable, linked = toolchain.link(objects, text, target, cache, linking)
    library = f"bin/{toolchain.library_name(target)}"
    members = {EXECUTABLE: executable, library: linked, HEADER: toolchain.library_header().encode()}
    points = {"executable": EXECUTABLE, "library": library, "header": HEADER}
    return Built(members, points, {"zig": toolchain.zig_version()}, len(sources), objects.cache_hits)
