"""A contraction on a GPU as tuning sees it: which choices it has, and the kernels that each one gives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from ...ir import DType, Node, RegionKind
from ...plan.program import Lowered
from ...targets import Target
from ..common.region import anchor_of
from ..tunable import Candidate, Choice
from .contraction import kernels


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
    report: kernels.Report | None = field(default=None, compare=False)

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

    def appraised(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """See Tunable: by registers and spills."""
        if self.report is None:
            return list(candidates)
        first, *others = candidates
        with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
            found = workers.map(self._appraised, others)
        kept = [one for one in found if one is not None]
        return [first, *sorted(kept, key=lambda one: one.cycles or 0.0)]

    def _appraised(self, candidate: Candidate) -> Candidate | None:
        assert self.report is not None and isinstance(candidate.choice, kernels.Products)
        cycles = kernels.appraised(self.node, self.target, candidate.choice, self.report)
        return None if cycles is None else replace(candidate, cycles=cycles)

    def lower(self, choice: Choice | None = None) -> Lowered:
        """See Tunable."""
        assert choice is None or isinstance(choice, kernels.Products)
        return kernels.lower(self.node, self.target, choice)

    def share_of_peak(self, choice: Choice | None = None) -> float | None:
        """Cycles are for comparisons only."""
        return None
