"""Frozen weights that lie in memory as the panels that their contraction reads: a permutation of the original."""

from __future__ import annotations

from ....ir import Node
from ....plan.program import Loops, Packing
from ....targets import Target
from ...common.index_maps import Access, Axis
from ...common.memo import Memo
from ...common.region import anchor_of
from ...native.tables import MOST_LOOPS
from .plan import ContractionPlan
from .schedule import Right, Schedule


def packing(
    node: Node, target: Target, threads: int, schedules: tuple[Schedule, ...] | None, memo: Memo
) -> tuple[int, Packing] | None:
    """The operand (index among the region's inputs) that the contraction would pack whole before it, and how; None
    where there is none, or where panels are no mere permutation."""
    plans = ContractionPlan.all(node, target, threads, schedules, memo)
    plan = plans[0]
    c, s = plan.contraction, plan.schedule
    if (
        len(plans) > 1
        or s.right not in (Right.PRIVATE, Right.SHARED, Right.PACKED)
        or plan.compressed
        or not plan.layout.permutes
        or c.right.computed
    ):
        return None
    batch, _, n, k = plan.sizes
    elements = anchor_of(node).inputs[c.right.operand].type.size
    if n % s.lanes or c.right.windows or c.right.base or elements != batch * n * k or plan.right_elements != n * k:
        return None
    made = Packing(s.columns, *(_loops(c.right, axis) for axis in (c.b, c.n, c.k)))
    return None if max(map(len, (made.b, made.n, made.k))) > MOST_LOOPS else (plan.right.sources[0].argument, made)


def _loops(access: Access, axis: Axis) -> Loops:
    return tuple((digit.extent, access.strides.get(digit.name, 0)) for digit in axis)
