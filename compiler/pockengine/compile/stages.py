"""The stages up to planned programs, one after the other: everything that needs no compiler of a backend.

    Request -> Resolved -> Graphs -> Reduced -> Shaped -> Planned

`pock check` and the benchmarks stop here. Tuning enters again at `Reduced`: what the algebra made stays.
"""

from __future__ import annotations

from dataclasses import replace

from ..codegen.backend import Backend
from ..errors import MemoryBudgetError
from ..plan.budget import Room, allowed_bytes, peak_bytes
from ..plan.lowering import Lowering
from .graphs import build_graphs
from .offloading import enough, in_turn
from .planned import Planned, plan, step_cycles
from .reduced import Reduced, reduce
from .request import Request
from .resolved import resolve
from .shaped import fitted, shape

NONE: frozenset[str] = frozenset()

STAGES = ("resolve", "optimise", "plan", "tune", "compile", "link", "pack")
"""What `Request.progress` is called with, in order."""


def plan_programs(request: Request) -> Planned:
    """Resolve the recipe and plan the request's programs. Raises RecipeError, UnsupportedOperatorError or
    MemoryBudgetError."""
    return plan_reduced(reduced(request), request.backend)


def reduced(request: Request) -> Reduced:
    """The request's programs after the algebra. Raises RecipeError or UnsupportedOperatorError."""
    return reduce(build_graphs(resolve(request)))


def plan_reduced(reduced: Reduced, backend: Backend) -> Planned:
    """Shape and plan programs after the algebra, with kernels of `backend`: the request's, or the same with choices.
    Where the quickest step needs more than the memory allowed, as much as is needed is moved to the host's memory of
    what the recipe offloads; or fewer bytes are kept for the backward part, and forward nodes are computed twice where
    that is not enough. Raises UnsupportedOperatorError or MemoryBudgetError."""
    resolved = reduced.graphs.resolved
    request = resolved.request
    lowering = Lowering(backend, request.target, resolved.threads)
    as_needed = resolved.recipe.offload.is_as_needed(request.allowed)
    planned = plan(shape(reduced, lowering, offloaded=NONE if as_needed else None), backend)
    if request.allowed is None and not as_needed:
        return planned
    memory = allowed_bytes(request.allowed or lowering.memory.nbytes, lowering)
    if _excess(planned, memory) <= 0:
        return planned
    room = Room(memory, planned.runtime_bytes)
    found = _quickest(reduced, lowering, room, planned) if as_needed else None
    return found or _fitted(reduced, backend, lowering, room)


def plan_within(reduced: Reduced, backend: Backend, memory: int) -> Planned:
    """The same with the fewest bytes kept for the backward part, and with forward nodes computed twice until the whole
    process keeps to so many bytes. All that may is offloaded. Raises MemoryBudgetError, without having looked for the
    least that it can take."""
    resolved = reduced.graphs.resolved
    lowering = Lowering(backend, resolved.request.target, resolved.threads)
    room = Room(memory, lowering.runtime_bytes(resolved.request.model), least=False)
    return _fitted(reduced, backend, lowering, room)


def _excess(planned: Planned, memory: int) -> int:
    """Bytes that a plan takes more than there are."""
    return peak_bytes(planned.programs, planned.spaces, planned.runtime_bytes) - memory


def _quickest(reduced: Reduced, lowering: Lowering, room: Room, whole: Planned) -> Planned | None:
    """Of the plans that keep to the room with as much offloaded as is needed, or with nodes computed twice and nothing
    offloaded, that of the quicker step, and None where neither does; `whole` has neither, and does not."""
    moved = _offloaded(reduced, lowering, room, whole)
    if moved is not None and step_cycles(moved).step <= step_cycles(whole).step:
        return moved
    try:
        again = _fitted(reduced, whole.backend, lowering, replace(room, least=False), NONE)
    except MemoryBudgetError:
        return moved
    return again if moved is None else min(moved, again, key=lambda one: step_cycles(one).step)


def _offloaded(reduced: Reduced, lowering: Lowering, room: Room, whole: Planned) -> Planned | None:
    """The plan with as much in the host's memory as is needed, None where all of it is not enough. A copy takes a place
    in the arena for a while, so what is needed shows step by step."""
    waiting, moved, planned = in_turn(whole, reduced.graphs.offloaded), frozenset[str](), whole
    while (excess := _excess(planned, room.memory)) > 0:
        if not waiting:
            return None
        count = enough(waiting, excess)
        moved |= {one.name for one in waiting[:count]}
        waiting = waiting[count:]
        planned = plan(shape(reduced, lowering, offloaded=moved), whole.backend)
    return planned


def _fitted(
    reduced: Reduced, backend: Backend, lowering: Lowering, room: Room, offloaded: frozenset[str] | None = None
) -> Planned:
    return plan(fitted(shape(reduced, lowering, sparing=True, offloaded=offloaded), room), backend)
