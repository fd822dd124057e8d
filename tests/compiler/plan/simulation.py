"""Programs run on bytes, without compiling anything: every value at its planned place, the arena full of garbage,
workspaces scribbled over. If two live values shared bytes, or an update came before the last reader of the old
contents, the results would differ from the interpreter's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pockengine import interp
from pockengine.codegen.common.storage import loaded, stored
from pockengine.compile import Planned, space_bytes
from pockengine.ir import Array, Value
from pockengine.plan.program import Location, Program
from pockengine.plan.space import Space


class Memory:
    """The five blocks as bytes."""

    def __init__(self, sizes: Mapping[Space, int]) -> None:
        self.spaces = {space: np.full(size + 64, 0xA5, np.uint8) for space, size in sizes.items()}

    def write(self, place: Location, array: Array) -> None:
        self.put(place, np.asarray(array, order="C").reshape(-1).view(np.uint8))

    def put(self, place: Location, raw: Array) -> None:
        """Write bytes."""
        self.spaces[place.space][place.offset : place.offset + raw.size] = raw

    def read(self, place: Location, value: Value) -> Array:
        raw = self.spaces[place.space][place.offset : place.offset + value.type.nbytes]
        return loaded(value.type, raw.tobytes())


class TrainingMemory(Memory):
    """The blocks of a model that trains, with parameters, states and constants in their places."""

    def __init__(self, planned: Planned) -> None:
        super().__init__(space_bytes(planned))
        for location, array in planned.spaces.consts.values():
            self.write(location, array)
        for value in planned.model.params:
            self.write(planned.spaces.places[Space.PARAM, value.name], planned.model.data[value.name])
        for value, fill in planned.programs["train"].graph.states.items():
            first = planned.model.data[fill.name] if isinstance(fill, Value) else fill
            contents = np.broadcast_to(np.asarray(first, value.type.dtype.numpy), value.type.shape)
            self.write(planned.spaces.places[Space.STATE, value.name], contents)


def simulate(program: Program, memory: Memory) -> dict[str, Array]:
    """Run the program's steps in order; its outputs."""
    literals = program.graph.consts
    for step in program.steps:
        node, where = step.node, program.locations
        arrays = [memory.read(where[v], v) if v in where else literals[v] for v in node.inputs]
        if step.workspace is not None:
            memory.write(Location(Space.ARENA, step.workspace), np.full(step.lowered.workspace_bytes, 0x5A, np.uint8))
        for value, array in zip(node.outputs, interp.run_node(node, arrays), strict=True):
            raw = stored(value.type, np.asarray(array, value.type.dtype.numpy))
            memory.put(where[value], np.frombuffer(raw, np.uint8))
    return {name: memory.read(program.locations[value], value) for name, value in program.outputs.items()}
