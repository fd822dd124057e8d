"""Model and recipe in, artifact out: the only package that knows every stage."""

from __future__ import annotations

import time
from pathlib import Path

from ..artifact import Artifact
from ..ir import Graph
from ..passes import PIPELINE, Pipeline
from ..recipe import Recipe
from ..targets import Target, get
from .build import build, predicted_peak_bytes, space_bytes
from .memory import RUNTIME_BYTES
from .pack import pack, summary
from .stages import STAGES, Planned, Progress, plan_programs, quiet

__all__ = [
    "RUNTIME_BYTES",
    "STAGES",
    "Planned",
    "Progress",
    "compile",
    "plan_programs",
    "predicted_peak_bytes",
    "space_bytes",
    "summary",
]


def compile(
    graph: Graph,
    recipe: Recipe,
    target: str | Target = "host",
    threads: int | None = None,
    *,
    name: str | None = None,
    progress: Progress = quiet,
    cache: Path | None = None,
    dump: Path | None = None,
    memory: int | None = None,
    pipeline: Pipeline = PIPELINE,
) -> Artifact:
    """Compile a training step for one target.

    graph     the imported model, batch included in its shapes (`pock.load`, `pock.from_torch`)
    recipe    loss, optimizer, what to update
    target    a name of `pock targets`, or a Target
    threads   the most threads the binary will use; default: the target's cores
    name      what to call the artifact; default: the graph's name
    progress  called with (stage, done, total); stages are STAGES
    cache     folder of compiled kernels; default: `POCK_CACHE_DIR` or the platform's cache folder
    dump      folder that receives the graph after every pass
    memory    bytes that the whole training process may take; forward nodes are computed twice where it is needed
    pipeline  the passes; for measuring what each is worth

    Raises RecipeError (MemoryBudgetError where it does not fit), UnsupportedOperatorError, TargetError or
    ToolchainError, each one clear sentence."""
    start = time.monotonic()
    device = get(target) if isinstance(target, str) else target
    planned = plan_programs(graph, recipe, device, threads, name, progress, dump, memory=memory, pipeline=pipeline)
    built = build(planned, cache, progress)
    progress("pack", 0, 1)
    artifact = pack(planned, built, time.monotonic() - start)
    progress("pack", 1, 1)
    return artifact
