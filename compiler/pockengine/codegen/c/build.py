"""From planned programs to machine code: an executable and a library of compiled kernels and the model's tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ...progress import Progress
from ...targets import Target
from ..backend import Built
from ..model import Model
from ..native import toolchain
from ..native.members import members_of, tools
from ..native.tables import emit_model, kernel_sources


def build(model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
    """Compile the kernels (through the object cache) and link. Raises ToolchainError naming a kernel that fails."""
    sources = kernel_sources(model.programs.values())
    objects = toolchain.compile_objects(sources, target, cache, lambda done, total: progress("compile", done, total))
    text = emit_model(model)
    linking = partial(progress, "link")
    members, points = members_of(target, *toolchain.link(objects, text, target, cache, linking))
    return Built(members, points, tools(), len(sources), objects.cache_hits)
