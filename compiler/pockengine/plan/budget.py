"""Making planned programs fit the memory the user allows: what to compute twice, or what the least possible is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import MemoryBudgetError
from ..ir import Node
from ..passes import optimise
from ..targets import HOST_MEMORY
from .lowering import Lowering
from .pipeline import Planning, PlanPasses
from .place import place
from .program import Program
from .recompute_search import Found, Search
from .second_runs import Recomputing
from .shared_spaces import Spaces
from .space import Space

ATTEMPTS = 4
"""Searches for one program: a plan may lie a little above the bytes that are alive at once."""

RESERVE = 512 << 10
"""What a process may measure above its predicted peak: how large the program gets is told from the model alone,
whatever it trains and computes twice."""


@dataclass(frozen=True)
class Recomputed:
    """What keeping to the memory takes in a training step.

    nodes  second runs of forward nodes
    flops  their floating-point operations
    share  the estimated time of these and of products in strips, as a part of the step's without them"""

    nodes: int = 0
    flops: int = 0
    share: float = 0.0


NONE = Recomputed()


@dataclass(frozen=True)
class Room:
    """What programs may take.

    memory   bytes for the whole process, RESERVE included
    runtime  bytes of these that the program itself takes beside its blocks
    least    whether the least that programs can take is looked for where they find no place: that takes longest"""

    memory: int
    runtime: int
    least: bool = True


@dataclass(frozen=True)
class _Fitted:
    """A program, and its nodes with those that run twice: (node, whether it is the second run)."""

    program: Program
    recomputed: Recomputed
    order: Sequence[tuple[Node, bool]] = ()


def peak_bytes(programs: Mapping[str, Program], spaces: Spaces, runtime: int) -> int:
    """The most memory the process may measure: its blocks, the `runtime` bytes of the program itself, RESERVE."""
    arena = max(program.plan.arena_bytes for program in programs.values())
    return runtime + RESERVE + spaces.own_bytes + arena


def allowed_bytes(memory: int, lowering: Lowering) -> int:
    """What a step may take of the memory in which it runs: what the user allows, and no more than there is."""
    return min(memory, lowering.memory.nbytes)


def fit(
    programs: Mapping[str, Program],
    spaces: Spaces,
    room: Room,
    lowering: Lowering,
    passes: PlanPasses,
    dump: Path | None = None,
) -> tuple[dict[str, Program], Recomputed]:
    """The programs within the memory of the whole process, RESERVE included, at the least extra time: with second
    runs that `passes` put in. `dump` is a folder for the graphs. Raises MemoryBudgetError where that cannot be done."""
    fitted, recomputed = dict(programs), NONE
    arena = room.memory - room.runtime - RESERVE - spaces.own_bytes
    for kind, program in programs.items():
        if program.plan.arena_bytes <= arena:
            continue
        recomputing = Recomputing(program.graph, lowering)
        found = _within(recomputing, arena, program, spaces, passes)
        if found.program.plan.arena_bytes > arena:
            if not room.least:
                shown = _shown(room.memory, lowering)
                raise MemoryBudgetError(f"no place was found for '{kind}' in the {shown}", room.memory)
            found = _least(kind, recomputing, arena, spaces, passes)
        fitted[kind] = found.program
        if dump is not None:
            planning = Planning(lower=lowering, order=found.order)
            optimise(program.graph, passes, planning, dump / kind / "recomputing", kind)
        if kind == "train":
            recomputed = found.recomputed
    least = max(program.plan.arena_bytes for program in fitted.values())
    if least > arena:
        raise _impossible(_shown(room.memory, lowering), room.runtime, spaces, fitted, recomputed)
    return fitted, recomputed


def _within(recomputing: Recomputing, arena: int, program: Program, spaces: Spaces, passes: PlanPasses) -> _Fitted:
    """The cheapest program found whose arena keeps to the limit, which `program` does not, or the smallest."""
    best, search, limit = _Fitted(program, NONE), Search(recomputing), arena
    for _ in range(ATTEMPTS):
        found = search.within(limit)
        made = _made(program.name, recomputing, found, spaces, passes)
        best = min(best, made, key=lambda one: one.program.plan.arena_bytes)
        if made.program.plan.arena_bytes <= arena or found.step.peak > limit:
            break
        limit -= made.program.plan.arena_bytes - arena
    return best


def _least(kind: str, recomputing: Recomputing, arena: int, spaces: Spaces, passes: PlanPasses) -> _Fitted:
    """The smallest program found, whatever `arena` is; where that leaves room, one that makes use of it."""
    search = Search(recomputing)
    lowest = search.lowest()
    smallest = _made(kind, recomputing, lowest, spaces, passes)
    if smallest.program.plan.arena_bytes < arena:
        cheaper = _made(kind, recomputing, search.relaxed(lowest, arena), spaces, passes)
        if cheaper.program.plan.arena_bytes <= arena:
            return cheaper
    return smallest


def _made(kind: str, recomputing: Recomputing, found: Found, spaces: Spaces, passes: PlanPasses) -> _Fitted:
    """The program that computes twice what was chosen."""
    order, lower = recomputing.nodes(found.step), recomputing.lowering
    graph = optimise(recomputing.graph, passes, Planning(lower=lower, order=order), program=kind)
    program = place(kind, graph, lower, spaces)
    again = [node for node, second in order if second]
    flops = sum(call.flops for node in again for call in lower(node).calls)
    return _Fitted(program, Recomputed(len(again), flops, found.step.cost / recomputing.total), order)


def _impossible(
    allowed: str, runtime: int, spaces: Spaces, programs: Mapping[str, Program], recomputed: Recomputed
) -> MemoryBudgetError:
    sizes, least = spaces.sizes, peak_bytes(programs, spaces, runtime)
    kind, program = max(programs.items(), key=lambda item: item[1].plan.arena_bytes)
    parts = {
        "activations and gradients": program.plan.arena_bytes,
        "parameters": sizes[Space.PARAM],
        "optimizer state": sizes[Space.STATE],
        "constants": sizes[Space.CONST],
        "inputs": sizes[Space.INPUT],
        "the program itself": runtime + RESERVE,
    }
    shown = ", ".join(f"{mebibytes(size)} {what}" for what, size in parts.items() if size)
    share = f", {recomputed.nodes} nodes computed twice" if recomputed.nodes else ""
    text = (
        f"training needs at least {mebibytes(least)} ({least} bytes), more than the {allowed}: "
        f"{shown}{share}; the arena is largest at {_largest(program)} of '{kind}': use a smaller batch, which "
        "with `accumulate` trains the same, train less, or take an optimizer with less state"
    )
    return MemoryBudgetError(text, least)


def _shown(memory: int, lowering: Lowering) -> str:
    """The limit, and whose it is: the user's, or that of the memory in which the step runs."""
    name, target = lowering.memory.name, lowering.target
    if memory >= lowering.memory.nbytes:
        return f"{mebibytes(memory)} that the target '{target.name}' has in its memory '{name}'"
    return f"{mebibytes(memory)} allowed" + (f" in the memory '{name}'" if name != HOST_MEMORY else "")


def _largest(program: Program) -> str:
    """The node that runs when most bytes are alive, with its result."""
    live = program.plan.live(len(program.steps))
    node = program.steps[live.index(max(live))].node
    return f"'{node.origin or node.outputs[0].name}' ({node.outputs[0].type})"


def mebibytes(size: int) -> str:
    """`63.2 MiB`, rounded up; what is small in KiB."""
    return f"{-(-10 * size >> 20) / 10:.1f} MiB" if size >= 1 << 20 else f"{-(-size >> 10)} KiB"
