"""The stages up to planned programs, one after the other: everything that needs no compiler of a backend.

    Request -> Resolved -> Graphs -> Reduced -> Shaped -> Planned

`pock check` and the benchmarks stop here. Tuning enters again at `Reduced`: what the algebra made stays.
"""

from __future__ import annotations

from ..codegen.backend import Backend
from ..plan.budget import Room, allowed_bytes, peak_bytes
from ..plan.lowering import Lowering
from .graphs import build_graphs
from .planned import Planned, plan
from .reduced import Reduced, reduce
from .request import Request
from .resolved import resolve
from .shaped import fitted, shape

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
    Where the quickest step needs more than the memory allowed, fewer bytes are kept for the backward part, and forward
    nodes are computed twice where that is not enough. Raises UnsupportedOperatorError or MemoryBudgetError."""
    resolved = reduced.graphs.resolved
    request = resolved.request
    lowering = Lowering(backend, request.target, resolved.threads)
    planned = plan(shape(reduced, lowering), backend)
    if request.allowed is None:
        return planned
    memory = allowed_bytes(request.allowed, lowering)
    if peak_bytes(planned.programs, planned.spaces, planned.runtime_bytes) <= memory:
        return planned
    return _fitted(reduced, backend, lowering, Room(memory, planned.runtime_bytes))


def plan_within(reduced: Reduced, backend: Backend, memory: int) -> Planned:
    """The same with the fewest bytes kept for the backward part, and with forward nodes computed twice until the whole
    process keeps to so many bytes. Raises MemoryBudgetError, without having looked for the least that it can take."""
    resolved = reduced.graphs.resolved
    lowering = Lowering(backend, resolved.request.target, resolved.threads)
    room = Room(memory, lowering.runtime_bytes(resolved.request.model), least=False)
    return _fitted(reduced, backend, lowering, room)


def _fitted(reduced: Reduced, backend: Backend, lowering: Lowering, room: Room) -> Planned:
    return plan(fitted(shape(reduced, lowering, sparing=True), room), backend)
