"""Trials for other machines: of the workloads that a store does not know, a pack of candidates with all that a device
needs to check and time them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..codegen.tunable import Candidate, CheckedTrial, PackLimits
from ..targets import Target
from . import reference
from .candidates import trial_of, wanted
from .store import TuningStore
from .workload import Workload, key_of

WORKLOADS = 24
"""In one pack."""
CANDIDATES = 4
"""Of one workload."""
BUDGET_MS = 400.0
BYTES = 256 << 20
"""Operands and results that a workload may take to be tried: more do not fit beside a small device's other work."""
_CLOCK, _UNITS = 6e9, 2
"""No processor has a higher frequency, or more vector multiply-adds a cycle in each of its cores."""
_TILE = 16
"""Times as many of them in a unit for matrices."""


@dataclass(frozen=True)
class PackedWorkload:
    """A workload in a pack, its candidates, the model's choice first, and their checks."""

    workload: Workload
    candidates: tuple[Candidate, ...]
    checked: CheckedTrial

    def to_plain(self) -> dict[str, Any]:
        """What a reader of the device's report has to know, as plain values. `least_ms` is what no device can beat."""
        calls = self.checked.trial.candidates[0].calls
        return {
            "key": key_of(self.workload.inputs),
            "family": self.workload.family,
            "layers": list(self.workload.names[:3]),
            "inputs": dict(self.workload.inputs),
            "least_ms": least_ms(sum(call.flops for call in calls), self.workload.target, self.workload.threads),
            "candidates": [
                {"choice": one.choice.to_plain(), "text": one.choice.describe(), "nbytes": way.workspace_bytes}
                for one, way in zip(self.candidates, self.checked.trial.candidates, strict=True)
            ],
        }


def least_ms(flops: float, target: Target, threads: int) -> float:
    """Milliseconds that so many operations take at least, on any device of a target. Minimal filtering multiplies less
    than the definition, by up to four times."""
    lanes = target.vector_bytes // (4 if target.compute == "f32" else 2)
    rate = threads * 2 * lanes * _UNITS * (_TILE if target.uses_tiles else 1) * _CLOCK
    return flops / 4 / rate * 1e3


def can_be_tried(workload: Workload) -> bool:
    """Whether its operands and results fit on a device, and can be compared there."""
    nbytes = sum(value.type.nbytes for value in (*workload.node.inputs, *workload.node.outputs))
    return nbytes <= BYTES and workload.backend.checkable(workload.node)


def unknown(workloads: Sequence[Workload], store: TuningStore, without: Collection[str] = ()) -> list[Workload]:
    """Those that can be tried and that the store has no candidate of, but for the keys `without`."""
    found = []
    for workload in filter(can_be_tried, workloads):
        result = store.get(workload.inputs)
        choices = () if result is None else workload.tunable.candidates(wide=True)
        known = any(result is not None and one.choice.to_plain() == result.choice for one in choices)
        if not known and key_of(workload.inputs) not in without:
            found.append(workload)
    return found


def packed(workloads: Sequence[Workload], store: TuningStore, most: int = WORKLOADS) -> list[PackedWorkload]:
    """The first workloads with their candidates. One that has the model's choice alone is checked with it."""
    found = []
    for workload in workloads[:most]:
        trial, candidates = trial_of(workload, wanted(workload, store, CANDIDATES, wide=False))
        checked = CheckedTrial(trial, reference.operands(workload.node), reference.wanted(workload.node))
        found.append(PackedWorkload(workload, tuple(candidates), checked))
    return found


def limits_of(target: Target) -> PackLimits:
    """How a target's trials are run."""
    return PackLimits(2 * target.l2_bytes, BUDGET_MS, reference.RELATIVE)
