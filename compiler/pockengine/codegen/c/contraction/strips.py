"""Contractions in less workspace: only a strip of a packed operand exists at a time.

Every result is made of the same operations in the same order, so its bits are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ir import Node
from ....plan.program import PACKED, SCRATCH
from ....targets import Target
from ...common.memo import Memo
from .models import model_for
from .plan import ContractionPlan, compressed_operand, products_of
from .schedule import Schedule

Part = Sequence[tuple[int, float, Schedule]]
"""Ways to compute one product: bytes of scratch memory, cycles, how; the one to do without others first."""


def options(
    node: Node, target: Target, threads: int, chosen: Sequence[Schedule] | None, memo: Memo
) -> list[tuple[int, float]]:
    """(bytes of scratch memory, time in parts of the usual one) of the ways to compute a contraction region in less
    than the usual memory, the quickest first: each takes fewer bytes than those before."""
    parts = _parts(node, target, threads, chosen, memo)
    usual, cycles = max(part[0][0] for part in parts), sum(part[0][1] for part in parts)
    found: list[tuple[int, float]] = []
    for nbytes in sorted({one[0] for part in parts for one in part if one[0] < usual}, reverse=True):
        picked = [_within(part, nbytes) for part in parts]
        needs, time = max(one[0] for one in picked), sum(one[1] for one in picked) / cycles
        if needs <= nbytes:
            found = [one for one in found if one[1] < time] + [(needs, time)]
    return found


def schedules_within(
    node: Node, target: Target, threads: int, chosen: Sequence[Schedule] | None, memo: Memo
) -> tuple[Schedule, ...]:
    """The quickest schedules of a region's products that keep to the bytes its attribute SCRATCH allows."""
    limit = node.attrs[SCRATCH]
    assert isinstance(limit, int)
    return tuple(_within(part, limit)[2] for part in _parts(node, target, threads, chosen, memo))


def _within(part: Part, limit: int) -> tuple[int, float, Schedule]:
    """The quickest way that keeps to the limit; where there is none, the one that takes the least."""
    return min(part, key=lambda one: (max(one[0], limit), one[1]))


def _parts(node: Node, target: Target, threads: int, chosen: Sequence[Schedule] | None, memo: Memo) -> list[Part]:
    if PACKED in node.attrs:  # so that the choice is the one made before the weight was packed
        node = replace(node, attrs={key: value for key, value in node.attrs.items() if key != PACKED})
    products, compressed = products_of(node), compressed_operand(node)
    usual = [plan.schedule for plan in ContractionPlan.all(node, target, threads, chosen, memo)]
    ways = [
        model_for(one, target, threads).in_strips(product, one, compressed)
        for product, one in zip(products, usual, strict=True)
    ]
    found: list[Part] = []
    for index, way in enumerate(ways):
        part = []
        for cycles, one in way:
            plans = ContractionPlan.all(node, target, threads, (*usual[:index], one, *usual[index + 1 :]))
            part.append((plans[index].workspace_bytes(), cycles, one))
        found.append(part)
    return found
