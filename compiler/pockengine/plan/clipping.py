"""The memory that `clip: {norm: …}` takes: gradients wait until the norm of all of them is known."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import and_

from .lives import base_of
from .program import Program
from .space import aligned


def waiting_bytes(train: Program, trained: Collection[str], alignment: int) -> int:
    """Bytes of the arena that gradients take at once when their norm is known: where the longest computation ends that
    the updates of all `trained` parameters share. Before it, none of them can have run."""
    base, nodes = base_of(train.graph), [step.node for step in train.steps]
    maker = {value: step for step, node in enumerate(nodes) for value in node.outputs}
    before: list[int] = []  # for each step, as bits, those that it depends on
    for node in nodes:
        direct = {maker[base[value]] for value in node.inputs if base[value] in maker}
        before.append(reduce(lambda found, step: found | before[step] | 1 << step, direct, 0))
    updates = {maker[base[new]] for old, new in train.graph.updates.items() if old.name in trained}
    if not updates:
        return 0
    shared = reduce(and_, (before[step] for step in updates))
    known = max((step for step in range(len(nodes)) if shared >> step & 1), key=lambda step: before[step].bit_count())
    norm = {train.locations[value].offset for value in nodes[known].outputs}
    waiting = (slot for slot in train.plan.slots if before[known] >> slot.first & 1 and slot.last > known)
    return sum(aligned(slot.nbytes, alignment) for slot in waiting if slot.kind != "output" and slot.offset not in norm)
