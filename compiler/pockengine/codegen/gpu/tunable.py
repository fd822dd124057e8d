"""A contraction on a GPU as tuning sees it: which choices it has, and the kernels that each one gives."""

from __future__ import annotations

from dataclasses import dataclass

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
    """A contraction region of f32 on one target."""

    node: Node
    target: Target

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

    def lower(self, choice: Choice | None = None) -> Lowered:
        """See Tunable."""
        assert choice is None or isinstance(choice, kernels.Products)
        return kernels.lower(self.node, self.target, choice)

    def share_of_peak(self, choice: Choice | None = None) -> float | None:
        """Cycles are for comparisons only."""
        return None
