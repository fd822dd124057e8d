"""What tuning may choose for a contraction of f32, in the order in which it is worth trying."""

from __future__ import annotations

from ...ir import Node
from ...passes.winograd_marks import WINOGRAD
from ...targets import Target
from ..common.index_maps import Contraction
from ..common.region import anchor_of
from ..tunable import Candidate
from .contraction.formats import CompressedOperand, named
from .contraction.models import model_for, schedules_of
from .contraction.plan import compressed_operand, products_of
from .contraction.schedule import Schedule, Schedules
from .depthwise import kernel as depthwise
from .depthwise.plan import by_channels
from .winograd import plan as winograd_plan
from .winograd.plan import Winograd

_VARIED = 4
"""So many of the best schedules have their neighbours in the wide space; so many of Winograd's plans are in any."""


def candidates(node: Node, target: Target, threads: int, wide: bool = False) -> list[Candidate]:
    """The choices for a contraction region. The model's choice is first.

    A convolution may be computed in two ways: directly, and by Winograd's minimal filtering. Then the first choice is
    the best of the way that the model prefers, and the second choice the best of the other way. All others follow by
    the cycles that the model expects. `wide` adds neighbours of the best direct choices: they differ in what the model
    decides without weighing."""
    if by_channels(anchor_of(node)):
        return [Candidate(tile, None) for tile in depthwise.tiles(node, target, threads)]
    direct = _direct(node, target, threads, wide)
    cycles, plans = winograd_plans(node, target, threads)
    winograd = [Candidate(plan.tile, cycles) for cycles, plan in plans[:_VARIED]]
    if not winograd:
        return direct
    kinds = [winograd, direct] if plans[0][0] < cycles else [direct, winograd]
    rest = sorted((one for kind in kinds for one in kind[1:]), key=lambda one: one.cycles or 0.0)
    return [kind[0] for kind in kinds] + rest


def winograd_plans(node: Node, target: Target, threads: int) -> tuple[float, list[tuple[float, Winograd]]]:
    """(cycles of the best direct choice, plans of Winograd's minimal filtering with their cycles). The cheapest plan is
    first. There are none where minimal filtering may not be used."""
    anchor = anchor_of(node)
    if not anchor.attrs.get(WINOGRAD) or compressed_operand(node) is not None:
        return 0.0, []
    parts = products_of(node)
    cycles, direct = schedules_of(parts[0], target, threads, None)[0]
    usable = len(parts) == 1 and named(direct.format, target).exact
    return cycles, winograd_plan.ranked(anchor, target, threads) if usable else []


def _direct(node: Node, target: Target, threads: int, wide: bool) -> list[Candidate]:
    """The choices of a product by its definition."""
    parts, compressed = products_of(node), compressed_operand(node)
    spaces = [schedules_of(part, target, threads, compressed) for part in parts]
    if wide:
        for part, space in zip(parts, spaces, strict=True):
            _widen(space, part, target, threads, compressed)
    found: dict[tuple[Schedule, ...], float] = {}
    for index in range(max(map(len, spaces))):  # products of one kernel choose alike: each its index-th best
        chosen = [space[min(index, len(space) - 1)] for space in spaces]
        found.setdefault(tuple(schedule for _, schedule in chosen), sum(cycles for cycles, _ in chosen))
    first, *rest = found
    return [Candidate(Schedules(one), found[one]) for one in (first, *sorted(rest, key=found.__getitem__))]


def _widen(
    space: list[tuple[float, Schedule]],
    part: Contraction,
    target: Target,
    threads: int,
    compressed: CompressedOperand | None,
) -> None:
    """Add the neighbours of the best schedules of a product to its space."""
    known = {schedule for _, schedule in space}
    for _, base in space[:_VARIED]:
        near = [
            (cycles, one)
            for cycles, one in model_for(base, target, threads).neighbours(part, base, compressed)
            if one not in known
        ]
        space += near
        known |= {one for _, one in near}
