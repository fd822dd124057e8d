"""Gradients of any graph of inputs, as a graph of their own: in the interpreter, and as machine code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.shared_object import THREADS, Memory, SharedObject
from pockengine.autodiff import backward, prepare
from pockengine.codegen.model import Model
from pockengine.compile import Inference, plan_inference
from pockengine.ir import Array, Builder, Graph, Value
from pockengine.ops import Emitter
from pockengine.plan.space import Space
from pockengine.targets import get

WEIGHTS = "weights"
"""The input that says how much each element of the output counts."""


def with_gradients(graph: Graph, output: str) -> Graph:
    """The graph's output `value`, and the gradient of the sum of `output` times `weights` for every floating-point
    input, by name. An input of whose gradient nothing is known has none."""
    builder = Builder.extend(graph)
    e, out = Emitter(builder), graph.outputs[output]
    total = e.mul(out, builder.input(WEIGHTS, out.type))
    builder.outputs = {"loss": e.reshape(e.sum(total, range(out.type.rank)), ()) if out.type.rank else total}
    wanted = [value for value in graph.inputs if value.type.dtype.is_float]
    prepared = prepare(builder.finish().with_(outputs={**builder.outputs, "value": out}), wanted)
    builder, gradients = backward(prepared, "loss", wanted)
    builder.outputs = {"value": prepared.outputs["value"]}
    builder.outputs |= {value.name: gradients[value] for value in wanted if value in gradients}
    return builder.finish()


def weights(graph: Graph, output: str) -> Array:
    """Of both signs, none zero."""
    type = graph.outputs[output].type
    return np.resize(np.array([0.5, -1.25, 0.75], type.dtype.numpy), type.shape)


def in_machine_code(
    graphs: Sequence[Graph], inputs: Sequence[Mapping[str, Array]], folder: Path
) -> Iterator[dict[str, Array] | str]:
    """The outputs of each graph of inputs, compiled together; a text where the C compiler refuses one, or where it
    writes outside its memory."""
    plans = [plan_inference(graph, get("host"), THREADS) for graph in graphs]
    models = {f"graph_{index}": _described(plan) for index, plan in enumerate(plans)}
    library = SharedObject(models, folder)
    for (symbol, model), plan, given in zip(models.items(), plans, inputs, strict=True):
        yield library.missing(model) or _run(library, symbol, plan, given)


def _described(plan: Inference) -> Model:
    sizes = {Space.ARENA: plan.program.plan.arena_bytes, **plan.spaces.sizes}
    return Model("graph", "host", THREADS, 1, (), (), (), (), {"predict": plan.program}, sizes, 0)


def _run(library: SharedObject, symbol: str, plan: Inference, inputs: Mapping[str, Array]) -> dict[str, Array] | str:
    memory = Memory({Space.ARENA: plan.program.plan.arena_bytes, **plan.spaces.sizes})
    for location, array in plan.spaces.consts.values():
        memory.write(location, array)
    for value in plan.program.graph.inputs:
        place = plan.spaces.places.get((Space.INPUT, value.name))
        if place is not None:
            memory.write(place, inputs[value.name])
    library.run(symbol, "predict", memory)
    if not memory.intact():
        return "wrote outside its memory"
    return {name: _read(memory, plan, value) for name, value in plan.program.outputs.items()}


def _read(memory: Memory, plan: Inference, value: Value) -> Array:
    literal = plan.program.graph.consts.get(value)
    return literal if literal is not None else memory.read(plan.program.locations[value], value.type)
