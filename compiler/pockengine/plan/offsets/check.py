"""Checks a memory plan against its demand. It shares no code with the planner, and recomputes everything."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from ...errors import PockError
from ..demand import Demand, MemoryPlan, Slot


class PlanError(PockError):
    """A memory plan that must not be used: a defect of ours. The message names the slots."""

    code = 1000


def check(demand: Demand, plan: MemoryPlan) -> None:
    """Raise PlanError unless `plan` holds every buffer, aligned, inside the arena, and no two live ones overlap."""
    slots = _slots_by_name(plan)
    _check_complete(demand, slots)
    for slot in plan.slots:
        if slot.offset % demand.alignment:
            raise PlanError(f"{_show(slot)} is misaligned: its offset is not a multiple of {demand.alignment}")
        if slot.offset < 0 or slot.offset + slot.nbytes > plan.arena_bytes:
            raise PlanError(f"{_show(slot)} lies outside the arena of {plan.arena_bytes} bytes")
    peak = _walk(demand.steps, demand.alignment, plan.slots)
    if peak != plan.lower_bound_bytes:
        raise PlanError(f"the plan states a lower bound of {plan.lower_bound_bytes} bytes; the live slots need {peak}")
    if plan.arena_bytes < peak:
        raise PlanError(
            f"the arena of {plan.arena_bytes} bytes is smaller than the {peak} bytes that are alive at once"
        )


def _walk(steps: int, alignment: int, slots: Sequence[Slot]) -> int:
    """Go through the steps with the live slots sorted by offset: each is held against its neighbours when it comes.
    Returns the most bytes that are alive at once, each slot rounded up to its alignment."""
    coming: list[list[Slot]] = [[] for _ in range(steps)]
    going: list[list[Slot]] = [[] for _ in range(steps + 1)]
    for slot in slots:
        coming[slot.first].append(slot)
        going[slot.last + 1].append(slot)
    live: list[tuple[int, str, Slot]] = []
    total = peak = 0
    for step in range(steps):
        for slot in going[step]:
            live.pop(bisect_left(live, (slot.offset, slot.value)))
            total -= (slot.nbytes + alignment - 1) // alignment * alignment
        for slot in coming[step]:
            at = bisect_left(live, (slot.offset, slot.value))
            live.insert(at, (slot.offset, slot.value, slot))
            for (_, _, below), (_, _, above) in pairwise(live[max(0, at - 1) : at + 2]):
                if below.offset + below.nbytes > above.offset:
                    raise PlanError(f"{_show(below)} and {_show(above)} overlap and are both alive in step {step}")
            total += (slot.nbytes + alignment - 1) // alignment * alignment
        peak = max(peak, total)
    return peak


def _slots_by_name(plan: MemoryPlan) -> dict[str, Slot]:
    slots: dict[str, Slot] = {}
    for slot in plan.slots:
        if slot.value in slots:
            raise PlanError(f"{slot.value!r} has two slots: {_show(slots[slot.value])} and {_show(slot)}")
        slots[slot.value] = slot
    return slots


def _check_complete(demand: Demand, slots: dict[str, Slot]) -> None:
    needed = {buffer.name: buffer for buffer in demand.buffers if buffer.nbytes > 0}
    for name, buffer in needed.items():
        if name not in slots:
            raise PlanError(f"{name!r} ({buffer.nbytes} bytes, steps {buffer.first}..{buffer.last}) has no slot")
        slot = slots[name]
        if (slot.nbytes, slot.first, slot.last) != (buffer.nbytes, buffer.first, buffer.last):
            wanted = f"{buffer.nbytes} bytes in steps {buffer.first}..{buffer.last}"
            raise PlanError(f"{_show(slot)} does not match the demand, which wants {wanted}")
    for name, slot in slots.items():
        if name not in needed:
            raise PlanError(f"{_show(slot)} is not a buffer of the demand")


def _show(slot: Slot) -> str:
    return f"slot {slot.value!r} [{slot.offset}, {slot.offset + slot.nbytes}) of steps {slot.first}..{slot.last}"
