"""`pock tune`: measures a model's contractions and keeps what it learns, without building an artifact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from ..codegen.backends import of as backend_of
from ..compile import Measuring, Request, check_limits, plan_programs, tune_planned
from ..errors import PockError, nearest
from ..frontends import load
from ..recipe import Recipe
from ..targets import get as get_target
from ..tune import MEASURING, Tuned, Tuning
from . import console
from .progress import progress


@dataclass(frozen=True)
class TuneRequest:
    """The options of `pock tune`."""

    model: Path
    recipe: Path
    target: str
    batch: int | None
    threads: int | None
    dims: Mapping[str, int]
    mode: str
    compute: str = "f32"
    import_losses: bool = False
    backend: str | None = None


def tune_model(request: TuneRequest, *, as_json: bool) -> None:
    """Measure what the store does not have, and print what was chosen. Raises PockError."""
    recipe = Recipe.load(request.recipe, request.import_losses)
    target = get_target(request.target).computing(request.compute)
    if request.mode not in MEASURING:
        raise PockError(f"there is no --mode '{request.mode}'{nearest(request.mode, MEASURING)}")
    backend = backend_of(target, request.backend)
    check_limits(backend, target, request.mode)
    if not backend.runs_here(target):
        raise PockError(f"{target.name} is another machine than this one: kernels for it cannot be measured here")
    batch = request.batch if request.batch is not None else recipe.batch
    with progress() as report:
        report("import", 0, 1)
        graph = load(request.model, request.dims, batch)
        wanted = Request(graph, recipe.with_batch(batch), target, request.threads, backend=backend, progress=report)
        tuning = tune_planned(plan_programs(wanted), backend, Measuring(request.mode), report)
    if as_json:
        print(json.dumps({**tuning.summary(), **tuning.statistics()}))
    else:
        _show(tuning)


def _show(tuning: Tuning) -> None:
    table = Table("layer", "kernel", "from", "ms", "model's ms", "schedule", box=None)
    for one in tuning.workloads:
        table.add_row(*_row(one))
    output = console.wide()
    output.print(table)
    output.print(outcome(tuning.statistics()["tuning"]), markup=False)


def _row(one: Tuned) -> tuple[str, ...]:
    names = one.workload.names
    layer = (names[0] if names else "") + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    times = ("" if ms is None else f"{ms:.4f}" for ms in (one.ms, one.model_ms))
    return layer, one.workload.family, one.source, *times, one.choice.describe() if one.choice else ""


def outcome(counted: Mapping[str, Any]) -> str:
    """One sentence on how a tuning went."""
    parts = [f"{counted['hits']} known", f"{counted['measured']} measured", f"{counted['verified']} checked"]
    parts.append(f"{counted['by_model']} left to the model")
    text = f"{counted['workloads']} contractions: {', '.join(parts)}, {counted['seconds']:.1f} s"
    if counted["rejected"]:
        text += f"; {len(counted['rejected'])} candidates computed something else and were dropped"
    if counted["unsteady"]:
        text += f"; {counted['unsteady']} times were unsteady: the machine was busy, so tune again when it is idle"
    return f"{text}; {counted['why_not']}" if counted["why_not"] else text
