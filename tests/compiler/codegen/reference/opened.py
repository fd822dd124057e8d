"""A node, or the file of a model, as an open model of the reference backend."""

from __future__ import annotations

from pathlib import Path

from safetensors.numpy import save_file

from pockengine.codegen.model import Model, Tensor
from pockengine.codegen.reference.machine import Machine
from pockengine.codegen.reference.reading import parse
from pockengine.codegen.reference.writing import render
from pockengine.ir import Graph, Node
from pockengine.plan import MemoryPlan, Space, aligned
from pockengine.plan.program import Location, Lowered, Program, Step
from pockengine.targets import ALIGNMENT


def model_of(node: Node, lowered: Lowered, over: tuple[int, int] | None = None) -> Model:
    """A model of one program, `predict`, that computes one node; `over` is a pair of input and output in one place."""
    inputs, at = list[Tensor](), 0
    locations = {}
    for value in dict.fromkeys(node.inputs):
        locations[value] = Location(Space.INPUT, at)
        inputs.append(Tensor(value.name, value.type, locations[value]))
        at += aligned(value.type.nbytes, ALIGNMENT)
    arena = 0
    for index, value in enumerate(node.outputs):
        locations[value] = Location(Space.ARENA, arena)
        if over is not None and over[1] == index:
            locations[value] = locations[node.inputs[over[0]]]
        arena += aligned(value.type.nbytes, ALIGNMENT)
    outputs = {value.name: value for value in node.outputs}
    plan = MemoryPlan((), arena, arena)
    program = Program("predict", Graph("predict"), (Step(node, lowered, None),), locations, outputs, plan)
    spaces: dict[Space, int] = {Space.ARENA: arena, Space.PARAM: 0, Space.STATE: 0, Space.CONST: 0, Space.INPUT: at}
    return Model("one", "host", 1, 1, (), (), (), tuple(inputs), {"predict": program}, spaces, 0)


def opened(node: Node, lowered: Lowered, folder: Path, over: tuple[int, int] | None = None) -> Machine:
    """The node by way of an artifact's file, whose writer and reader are part of what is tested."""
    params = folder / "params.safetensors"
    if not params.exists():
        save_file({}, params)
    return Machine(parse(render(model_of(node, lowered, over))), params, None)
