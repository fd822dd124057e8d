"""A contraction of f32 as tuning sees it: which choices it has, and the kernels that each one gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...ir import DType, Node, RegionKind
from ...plan.program import SCRATCH, Lowered
from ...targets import Target
from ..common.memo import Memo
from ..common.region import anchor_of
from ..tunable import Candidate, Choice
from . import space
from .contraction import kernel as contraction
from .contraction import strips
from .contraction.models import model_for, schedules_of
from .contraction.plan import compressed_operand, products_of
from .contraction.schedule import Schedule, Schedules
from .depthwise import kernel as depthwise
from .depthwise.plan import DepthwiseTile, by_channels
from .winograd import kernel as winograd
from .winograd.plan import Winograd, WinogradTile


@dataclass(frozen=True)
class TunableContraction:
    """A contraction region of f32 on one target, for so many threads. `memo` is that of the backend."""

    node: Node
    target: Target
    threads: int
    memo: Memo = field(default_factory=Memo, compare=False)

    @staticmethod
    def has_choice(node: Node) -> bool:
        """Whether a node is such a region."""
        if node.region_kind is not RegionKind.CONTRACTION or not node.outputs[0].type.size:
            return False
        return anchor_of(node).output.type.dtype is DType.F32

    @property
    def family(self) -> str:
        """The kernel family: `depthwise_conv2d`, `matmul`, …"""
        anchor = anchor_of(self.node)
        return f"depthwise_{anchor.op}" if self.is_depthwise else anchor.op

    @property
    def is_depthwise(self) -> bool:
        """Whether it has the templates that go along channels."""
        return by_channels(anchor_of(self.node))

    def candidates(self, wide: bool = False) -> list[Candidate]:
        """See `space.candidates`."""
        return space.candidates(self.node, self.target, self.threads, wide)

    def appraised(self, candidates: Sequence[Candidate], cache: Path | None = None) -> list[Candidate]:
        """See Tunable: compiling tells nothing that the model does not know."""
        return list(candidates)

    def winograd(self, choice: Choice | None = None) -> Winograd | None:
        """How it is computed by Winograd's minimal filtering, if that is the choice; default: if the model prefers it
        where it may be used."""
        if isinstance(choice, WinogradTile):
            return Winograd(anchor_of(self.node), self.target, self.threads, choice)
        if choice is not None:
            return None
        direct, plans = space.winograd_plans(self.node, self.target, self.threads)
        return plans[0][1] if plans and plans[0][0] < direct else None

    def lower(self, choice: Choice | None = None) -> Lowered:
        """The kernels with a choice; default: the model's."""
        if self.is_depthwise:
            assert choice is None or isinstance(choice, DepthwiseTile)
            return depthwise.lower(self.node, self.target, self.threads, choice)
        plan = self.winograd(choice)
        if plan is not None:
            return winograd.lower(self.node, plan)
        schedules = schedules_in(choice)
        if SCRATCH in self.node.attrs:
            schedules = strips.schedules_within(self.node, self.target, self.threads, schedules, self.memo)
        return contraction.lower(self.node, self.target, self.threads, schedules, self.memo)

    def share_of_peak(self, choice: Choice | None = None) -> float | None:
        """The part of the arithmetic peak that the model expects; None where there is no model."""
        if self.is_depthwise or self.winograd(choice) is not None:
            return None
        parts, compressed = products_of(self.node), compressed_operand(self.node)
        schedules = schedules_in(choice) or tuple(
            schedules_of(part, self.target, self.threads, compressed)[0][1] for part in parts
        )
        work = [math.prod(part.sizes()) for part in parts]
        shares = [
            model_for(one, self.target, self.threads).share_of_peak(part, one, compressed)
            for part, one in zip(parts, schedules, strict=True)
        ]
        time = sum(amount / share for amount, share in zip(work, shares, strict=True) if share)
        return sum(work) / time if time else None


def schedules_in(choice: Choice | None) -> tuple[Schedule, ...] | None:
    """The schedules that a choice for a direct product stands for; None: those of the model."""
    assert choice is None or isinstance(choice, Schedules)
    return choice.parts if choice is not None else None
