"""A contraction on a GPU as tuning sees it: which choices it has, and the kernels that each one gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from ...ir import DType, Node, RegionKind
from ...plan.program import Kernel, Lowered
from ...targets import Target
from ..common.region import anchor_of
from ..tunable import Candidate, Choice
from .contraction import kernels


class Report(Protocol):
    """What the compiler says of a kernel; `cache` is the folder of compiled ones."""

    def __call__(self, kernel: Kernel, cache: Path | None = None) -> kernels.Reported: ...


def has_choice(node: Node) -> bool:
    """Whether a node is a contraction region of f32."""
    if node.region_kind is not RegionKind.CONTRACTION or not node.outputs[0].type.size:
        return False
    return anchor_of(node).output.type.dtype is DType.F32


@dataclass(frozen=True)
class TunableProducts:
    """A contraction region of f32 on one target. `report`: what the compiler says of a kernel, where it does."""

    node: Node
    target: Target
    report: Report | None = field(default=None, compare=False)

    @property
    def family(self) -> str:
        """The operator."""
        return anchor_of(self.node).op

    def candidates(self, wide: bool = False) -> list[Candidate]:
        """See Tunable."""
        return [
            Candidate(choice, cycles, choice.library)
            for choice, cycles in kernels.choices(self.node, self.target, wide)
        ]

    def appraised(self, candidates: Sequence[Candidate], cache: Path | None = None) -> list[Candidate]:
        """See Tunable: by registers and spills."""
        report = self.report
        if report is None:
            return list(candidates)
        with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
            found = workers.map(lambda one: self._appraised(one, partial(report, cache=cache)), candidates)
        kept = [one for one in found if one is not None]
        return sorted(kept, key=lambda one: one.cycles or 0.0)

    def _appraised(self, candidate: Candidate, report: Callable[[Kernel], kernels.Reported]) -> Candidate | None:
        assert isinstance(candidate.choice, kernels.Products)
        cycles = kernels.appraised(self.node, self.target, candidate.choice, report)
        return None if cycles is None else replace(candidate, cycles=cycles)

    def lower(self, choice: Choice | None = None) -> Lowered:
        """See Tunable."""
        assert choice is None or isinstance(choice, kernels.Products)
        return kernels.lower(self.node, self.target, choice)

    def share_of_peak(self, choice: Choice | None = None) -> float | None:
        """Cycles are for comparisons only."""
        return None
