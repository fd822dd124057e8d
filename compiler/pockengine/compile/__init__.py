"""Model and recipe in, artifact out: the only package that knows every stage."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import debug
from ..artifact import Artifact
from ..codegen import backends
from ..codegen.backend import Backend
from ..codegen.folder_cache import default_folder
from ..errors import PockError, TargetError
from ..ir import Graph
from ..plan.lowering import RUNTIME_BYTES
from ..plan.pipeline import Pipeline
from ..progress import Progress, quiet
from ..recipe import Recipe
from ..targets import Target, get
from ..tune import LocalStore, Tuning, TuningStore, check_mode, workloads_of
from ..tune import tune as tune_workloads
from .build import describe, predicted_peak_bytes, space_bytes
from .inference import Inference, plan_inference
from .kept import Kept
from .pack import pack, summary
from .planned import Cycles, Planned, step_cycles
from .reduced import Reduced, elsewhere
from .request import Request, Scope
from .shown import show_plan
from .stages import STAGES, plan_programs, plan_reduced, plan_within, reduced

__all__ = [
    "RUNTIME_BYTES",
    "STAGES",
    "Cycles",
    "Inference",
    "Kept",
    "Measuring",
    "Planned",
    "Reduced",
    "Request",
    "Scope",
    "check_limits",
    "compile",
    "elsewhere",
    "plan_inference",
    "plan_programs",
    "plan_reduced",
    "plan_within",
    "predicted_peak_bytes",
    "reduced",
    "space_bytes",
    "step_cycles",
    "summary",
    "tune_planned",
    "uncollected",
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
    pipeline: Pipeline | None = None,
    tune: str = "off",
    store: TuningStore | None = None,
    compute: str | None = None,
    backend: str | None = None,
    inspect: Callable[[Planned, Tuning], None] | None = None,
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
    memory    bytes that the whole training process may take; forward nodes are computed twice where it is needed;
              default: the recipe's
    pipeline  the passes, for measuring what each is worth; default: the backend's
    tune      "fast" or "full": measure how contractions are best computed, on the target; "off": a model chooses
    store     what tuning learned before; default: a file in the cache folder
    compute   the format in which contractions multiply: "f32" (default), "bf16" or "f16"; all else stays f32
    backend   what makes the artifact's program, of `codegen.backends.NAMES`; default: the target's
    inspect   called with the plan and the tuning before kernels are compiled

    Raises RecipeError (MemoryBudgetError where it does not fit), UnsupportedOperatorError, TargetError or
    ToolchainError, each one clear sentence."""
    progress = debug.timed(progress)
    device = _device(target, compute)
    made_by = backends.of(device, backend)
    request = Request(graph, recipe, device, threads, name, memory, pipeline, made_by, dump, progress)
    check_limits(request.backend, request.target, check_mode(tune))
    return _artifact(request, Measuring(tune, cache, store), inspect)


def _artifact(request: Request, measuring: Measuring, inspect: Callable[[Planned, Tuning], None] | None) -> Artifact:
    """All stages. Where tuning chooses other kernels, the programs are planned again from the algebra on."""
    start, backend, progress = time.monotonic(), request.backend, request.progress
    with uncollected():
        programs = reduced(request)
        planned = plan_reduced(programs, backend)
        tuning = tune_planned(planned, backend, measuring, progress)
        if tuning.picks:
            planned = plan_reduced(programs, backend.tuned(tuning.picks))
    show_plan(planned.programs)
    if inspect is not None:
        inspect(planned, tuning)
    built = planned.backend.build(describe(planned), planned.target, measuring.cache, progress)
    progress("pack", 0, 1)
    artifact = pack(planned, built, time.monotonic() - start, tuning)
    progress("pack", 1, 1)
    return artifact


def _device(target: str | Target, compute: str | None) -> Target:
    """What is built for, with the format that contractions are to multiply in."""
    device = get(target) if isinstance(target, str) else target
    return device if compute is None else device.computing(compute)


def check_limits(backend: Backend, target: Target, tune: str) -> None:
    """Raises TargetError or PockError where a backend cannot make what is asked for."""
    limits = backend.limits(target)
    if target.compute not in limits.formats:
        raise TargetError(
            f"the backend '{backend.name}' does not multiply in {target.compute}: choose {' or '.join(limits.formats)} "
            "with --compute"
        )
    if tune != "off" and not limits.tunes:
        raise PockError(
            f"the backend '{backend.name}' has nothing to tune: build untuned, or choose another with --backend"
        )


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the search for cycles: graphs hold none, and looking through all of them takes a quarter of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@dataclass(frozen=True)
class Measuring:
    """How tuning is done, and where what it compiles and learns is kept.

    mode   of `tune.MODES`
    cache  a folder of compiled kernels; None: the usual one
    store  what tuning learned before; None: a file in the cache folder"""

    mode: str = "off"
    cache: Path | None = None
    store: TuningStore | None = None


def tune_planned(planned: Planned, backend: Backend, measuring: Measuring, progress: Progress = quiet) -> Tuning:
    """Measure the contractions of planned programs, or take what is known of them."""
    if measuring.mode == "off":
        return Tuning()
    nodes = [step.node for program in planned.programs.values() for step in program.steps]
    kept = measuring.store or LocalStore(measuring.cache or default_folder())
    workloads = workloads_of(nodes, planned.target, planned.threads, backend)
    return tune_workloads(workloads, measuring.mode, kept, measuring.cache, progress)
