"""Trials of a model's contractions as an artifact that devices run like any other: what a fleet is tuned with."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from ..artifact import Artifact, Content, EntryPoints, Manifest
from ..plan.lowering import RUNTIME_BYTES
from ..tensors import Tensors
from ..tune import TuningStore, workloads_of
from ..tune.packing import PackedWorkload, limits_of, packed, unknown
from .planned import Planned
from .request import Request
from .stages import plan_programs

LISTED = "trials.json"
"""The member that says which workloads and candidates the report's numbers stand for."""


@dataclass(frozen=True)
class Pack:
    """An artifact of trials; `left` counts the unknown workloads that are not in it."""

    artifact: Artifact
    workloads: int
    left: int


def compile_trials(
    request: Request, store: TuningStore, without: Collection[str] = (), cache: Path | None = None
) -> Pack | None:
    """Trials of the request's contractions that the store does not know, those that take longest first, but for the
    keys `without`. None where nothing is left to try. Raises RecipeError, UnsupportedOperatorError, ToolchainError."""
    backend, planned = request.backend, plan_programs(request)
    nodes = [step.node for program in planned.programs.values() for step in program.steps]
    missing = unknown(workloads_of(nodes, planned.target, planned.threads, backend), store, without)
    request.progress("tune", 0, max(1, len(missing)))
    chosen = packed(missing, store)
    if not chosen:
        return None
    trials = [one.checked for one in chosen]
    made = backend.pack(trials, planned.target, planned.threads, limits_of(planned.target), cache, request.progress)
    if made is None:
        return None
    members: dict[str, bytes | Content] = {
        **made.built.members,
        "params.safetensors": Tensors({"wanted": made.numbers}),
        LISTED: (json.dumps([one.to_plain() for one in chosen], sort_keys=True) + "\n").encode(),
    }
    manifest = _manifest(planned, chosen, made.built.tools, made.built.entry_points, made.nbytes + made.numbers.nbytes)
    request.progress("pack", 1, 1)
    return Pack(Artifact.create(manifest, members), len(chosen), len(missing) - len(chosen))


def _manifest(planned: Planned, chosen: list[PackedWorkload], tools: Any, points: Any, nbytes: int) -> Manifest:
    """No programs, tensors or inputs: what there is to say of trials lies in LISTED."""
    summary = {
        "trials": len(chosen),
        "candidates": sum(len(one.candidates) for one in chosen),
        "predicted_peak_bytes": nbytes + RUNTIME_BYTES,
        "compute": planned.target.compute,
    }
    return Manifest(
        name=planned.name,
        created_by={"pockengine": metadata.version("pockengine"), **tools},
        target=planned.target.to_dict(),
        recipe=planned.recipe.to_mapping(),
        threads=planned.threads,
        summary=summary,
        programs={},
        tensors=(),
        inputs=(),
        outputs=(),
        entry_points=EntryPoints(**points),
    )
