"""What a planned program promises is checked: each broken place, order, slot or kernel of a real one is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise
from typing import Any

import pytest

from pockengine.codegen import backends
from pockengine.compile import Planned, Request, Scope, plan_programs
from pockengine.ir import Value
from pockengine.passes import offload
from pockengine.plan import PlanError, Slot, Space
from pockengine.plan.check_program import check_program
from pockengine.plan.program import Location, Program, copies_begin
from pockengine.recipe import Recipe
from pockengine.targets import ALIGNMENT, get
from tests.compiler.models import zoo
from tests.compiler.training.networks import CNN

EACH = 4
"""Places at which each kind of defect is made."""


@cache
def planned() -> Planned:
    return plan_programs(Request(CNN.build(8), Recipe("cross_entropy", "adamw"), get("raspberry-pi-4"), 2))


def train() -> Program:
    return planned().programs["train"]


def in_the_arena(program: Program) -> list[tuple[Value, Slot]]:
    """Values that have bytes of their own, with their slots."""
    slots = {slot.value: slot for slot in program.plan.slots}
    made = (value for step in program.steps for value in step.node.outputs)
    return [(value, slots[value.name]) for value in made if value.name in slots]


def moved(program: Program, value: Value, space: Space, offset: int) -> Program:
    return replace(program, locations={**program.locations, value: Location(space, offset)})


def onto_another(program: Program) -> Iterator[Program]:
    """A value and its slot lie where another one lies that is alive meanwhile."""
    values = in_the_arena(program)
    for value, slot in values:
        for _, other in values:
            if other is not slot and other.first < slot.last and slot.first < other.last:
                slots = tuple(replace(s, offset=other.offset) if s is slot else s for s in program.plan.slots)
                yield replace(moved(program, value, Space.ARENA, other.offset), plan=replace(program.plan, slots=slots))


def beside_its_slot(program: Program) -> Iterator[Program]:
    for value, slot in in_the_arena(program):
        yield moved(program, value, Space.ARENA, slot.offset + 64)


def misaligned(program: Program) -> Iterator[Program]:
    for value, slot in in_the_arena(program):
        yield moved(program, value, Space.ARENA, slot.offset + 4)


def outside(program: Program) -> Iterator[Program]:
    for value, _ in in_the_arena(program):
        yield moved(program, value, Space.ARENA, program.plan.arena_bytes)


def before_the_arena(program: Program) -> Iterator[Program]:
    for value, _ in in_the_arena(program):
        yield moved(program, value, Space.ARENA, -64)


def in_another_space(program: Program) -> Iterator[Program]:
    for value, _ in in_the_arena(program):
        yield moved(program, value, Space.PARAM, 0)


def without_a_place(program: Program) -> Iterator[Program]:
    for value in program.graph.params:
        yield replace(program, locations={v: place for v, place in program.locations.items() if v is not value})


def sources_together(program: Program) -> Iterator[Program]:
    first, *others = program.graph.params
    for value in others:
        yield moved(program, value, Space.PARAM, program.locations[first].offset)


def view_elsewhere(program: Program) -> Iterator[Program]:
    for node in program.graph.nodes:
        if node.op == "reshape":
            place = program.locations[node.output]
            yield moved(program, node.output, place.space, place.offset + 64)


def update_elsewhere(program: Program) -> Iterator[Program]:
    for target, new in program.graph.updates.items():
        others = [value for value in program.graph.updates if value is not target]
        yield replace(program, locations={**program.locations, new: program.locations[others[0]]})


def updates_exchanged(program: Program) -> Iterator[Program]:
    """Two parameters and their new contents change places, but who reads them does not know."""
    states = [value for value in program.graph.updates if value in program.graph.states]
    for one, other in pairwise(states):
        yield moved(program, one, program.locations[other].space, program.locations[other].offset)


def steps_exchanged(program: Program) -> Iterator[Program]:
    """A step runs before the one whose result it reads; the graph says so too."""
    steps, nodes = program.steps, list(program.graph.nodes)
    for index, (before, after) in enumerate(pairwise(steps)):
        if not set(before.node.outputs).isdisjoint(after.node.inputs):
            exchanged = {before.node: after.node, after.node: before.node}
            graph = program.graph.with_(nodes=tuple(exchanged.get(node, node) for node in nodes))
            yield replace(program, steps=(*steps[:index], after, before, *steps[index + 2 :]), graph=graph)


def step_left_out(program: Program) -> Iterator[Program]:
    for index in range(len(program.steps)):
        yield replace(program, steps=program.steps[:index] + program.steps[index + 1 :])


def step_twice(program: Program) -> Iterator[Program]:
    for index, step in enumerate(program.steps):
        yield replace(program, steps=(*program.steps[:index], step, *program.steps[index:]))


def changed_step(program: Program, index: int, **fields: Any) -> Program:
    steps = list(program.steps)
    steps[index] = replace(steps[index], **fields)
    return replace(program, steps=tuple(steps))


def scratch_missing(program: Program) -> Iterator[Program]:
    for index, step in enumerate(program.steps):
        if step.workspace is not None:
            yield changed_step(program, index, workspace=None)


def scratch_outside(program: Program) -> Iterator[Program]:
    for index, step in enumerate(program.steps):
        if step.workspace is not None:
            yield changed_step(program, index, workspace=program.plan.arena_bytes)


def scratch_over_an_operand(program: Program) -> Iterator[Program]:
    for index, step in enumerate(program.steps):
        for value in (*step.node.inputs, *step.node.outputs):
            place = program.locations[value]
            if step.workspace is not None and place.space is Space.ARENA:
                yield changed_step(program, index, workspace=place.offset)


def larger_scratch(program: Program) -> Iterator[Program]:
    for index, step in enumerate(program.steps):
        if step.workspace is not None:
            lowered = replace(step.lowered, workspace_bytes=step.lowered.workspace_bytes + 1)
            yield changed_step(program, index, lowered=lowered)


def nothing_in_place(program: Program) -> Iterator[Program]:
    """The kernels say no more that a result may lie over an operand, which it does."""
    for index, step in enumerate(program.steps):
        places = [program.locations.get(value) for value in step.node.inputs]
        if any(program.locations[value] in places for value in step.node.outputs):
            yield changed_step(program, index, lowered=replace(step.lowered, inplace=()))


def foreign_operand(program: Program) -> Iterator[Program]:
    for index, step in enumerate(program.steps):
        strangers = [value for value in program.graph.params if value not in step.node.inputs]
        for call in step.lowered.calls:
            calls = (replace(call, operands=(strangers[0], *call.operands[1:])),)
            yield changed_step(program, index, lowered=replace(step.lowered, calls=calls))


def changed_slots(program: Program, change: Callable[[Slot], Slot]) -> Iterator[Program]:
    slots = program.plan.slots
    for place, slot in enumerate(slots):
        changed = (*slots[:place], change(slot), *slots[place + 1 :])
        yield replace(program, plan=replace(program.plan, slots=changed))


def slot_elsewhere(program: Program) -> Iterator[Program]:
    return changed_slots(program, lambda slot: replace(slot, offset=slot.offset + 64))


def slot_too_small(program: Program) -> Iterator[Program]:
    return changed_slots(program, lambda slot: replace(slot, nbytes=slot.nbytes - 1))


def slot_too_long(program: Program) -> Iterator[Program]:
    return changed_slots(program, lambda slot: replace(slot, last=slot.last + 1))


def slot_too_early(program: Program) -> Iterator[Program]:
    return changed_slots(program, lambda slot: replace(slot, first=slot.first - 1))


def slot_too_late(program: Program) -> Iterator[Program]:
    return changed_slots(program, lambda slot: replace(slot, first=slot.first + 1))


def arena_too_small(program: Program) -> Iterator[Program]:
    yield replace(program, plan=replace(program.plan, arena_bytes=program.plan.arena_bytes - 64))


def output_renamed(program: Program) -> Iterator[Program]:
    for name in program.outputs:
        yield replace(program, outputs={f"{name}.other": program.outputs[name]})


DEFECTS = (
    onto_another, beside_its_slot, misaligned, outside, before_the_arena, in_another_space, without_a_place,
    sources_together, view_elsewhere, update_elsewhere, updates_exchanged, steps_exchanged, step_left_out, step_twice,
    scratch_missing, scratch_outside, scratch_over_an_operand, larger_scratch, nothing_in_place, foreign_operand,
    slot_elsewhere, slot_too_small, slot_too_long, slot_too_early, slot_too_late, arena_too_small, output_renamed,
)  # fmt: skip


def test_a_planned_program_passes() -> None:
    for program in planned().programs.values():
        check_program(program, planned().spaces.sizes, ALIGNMENT)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_each_defect_is_found(defect: Callable[[Program], Iterator[Program]]) -> None:
    """At the first places where it can be made."""
    broken = list(islice(defect(train()), EACH))
    assert broken
    for program in broken:
        with pytest.raises(PlanError):
            check_program(program, planned().spaces.sizes, ALIGNMENT)


def test_the_bytes_of_a_copy_from_the_host_are_its_own_from_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while others compute that are done before the step of the copy."""
    monkeypatch.setattr(offload, "LEAST_BYTES", 64)
    backend, recipe = backends.get("emulated"), Recipe("cross_entropy", "adamw", "head", offload="frozen")
    made = plan_programs(Request(zoo.graph("bert"), recipe, get("host"), 1, backend=backend, scope=Scope.TRAINING))
    program, sizes = made.programs["train"], made.spaces.sizes
    begins, slots = copies_begin([step.lowered for step in program.steps]), dict(in_the_arena(program))
    assert len(begins) > 2 and sizes[Space.HOST]
    check_program(program, sizes, made.spaces.alignment)
    broken = 0
    for step, begin in begins.items():
        (copied,) = program.steps[step].node.outputs
        passing = [slot for slot in slots.values() if begin <= slot.first <= slot.last < step and slot != slots[copied]]
        for other in passing:
            onto = tuple(replace(s, offset=other.offset) if s == slots[copied] else s for s in program.plan.slots)
            moving = moved(program, copied, Space.ARENA, other.offset)
            with pytest.raises(PlanError):
                check_program(replace(moving, plan=replace(program.plan, slots=onto)), sizes, made.spaces.alignment)
            broken += 1
    assert broken
