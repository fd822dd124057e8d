"""A model's planned programs as JSON: what each step computes, and where its operands lie. `reading.py` reads it.

    {"format": 1, "name": …, "batch": …, "spaces": {"arena": 4096, …}, "alignment": 64,
     "params": [{"name": "w", "type": "f32[4,2]", "place": ["param", 0], …}], "states": …, "consts": …, "inputs": …,
     "programs": {"train": {"steps": [{"op": "matmul", "attrs": {…}, "origin": "fc",
                                       "reads": [["input", 0, "f32[8,4]"], …], "writes": [["arena", 64, "f32[8,2]"]]}],
                            "outputs": {"loss": ["arena", 0, "f32[]"]}}}}

A region's step has a `body`, whose values have numbers: inputs, constants, then the results of its nodes, in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from ...ir import Graph, Value
from ...plan.program import Location, Program, Step
from ..model import Model, Tensor

PROGRAM = "program.json"
"""The member of the artifact."""
FORMAT = 1
_OWN = ("name", "type", "location", "packing")
"""Of a tensor's fields: what is not written as it is."""


def render(model: Model) -> bytes:
    """The file of a model; equal models have equal ones."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "name": model.name,
        "target": model.target,
        "threads": model.threads,
        "batch": model.batch,
        "accumulate_steps": model.accumulate_steps,
        "last_batch": model.last_batch,
        "perplexity": model.perplexity,
        "predicted_peak_bytes": model.predicted_peak_bytes,
        "spaces": dict(model.space_bytes),
        "alignment": model.alignment,
        "lookups": [
            {
                "table": one.table,
                "indices": _place(one.indices),
                "type": str(one.type),
                "rows": _place(one.rows),
            }
            for one in model.streamed
        ],
        "programs": {name: _program(program) for name, program in model.programs.items()},
    }
    if model.generation is not None:
        given = {"token": model.generation.token, "position": model.generation.position}
        content["generation"] = {name: _tensor(tensor) for name, tensor in given.items()}
    if model.norm_batches:
        content["norm_batches"] = model.norm_batches
    tables = {"params": model.params, "states": model.states, "consts": model.consts, "inputs": model.inputs}
    content |= {name: [_tensor(tensor) for tensor in tensors] for name, tensors in tables.items()}
    return (json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n").encode()


def _tensor(tensor: Tensor) -> dict[str, Any]:
    rest = {key: value for key, value in asdict(tensor).items() if key not in _OWN}
    return {"name": tensor.name, "type": str(tensor.type), "place": _place(tensor.location), **rest}


def _place(location: Location) -> list[Any]:
    return [location.space, location.offset]


def _program(program: Program) -> dict[str, Any]:
    def places(values: Iterable[Value]) -> list[list[Any]]:
        return [[*_place(program.locations[value]), str(value.type)] for value in values]

    def step(step: Step) -> dict[str, Any]:
        node = step.node
        about = {"op": node.op, "attrs": dict(node.attrs), "origin": node.origin}
        body = {"body": _body(node.body)} if node.body is not None else {}
        return {**about, "reads": places(node.inputs), "writes": places(node.outputs), **body}

    outputs = {name: places([value])[0] for name, value in program.outputs.items()}
    return {"arena_bytes": program.plan.arena_bytes, "steps": [step(one) for one in program.steps], "outputs": outputs}


def _body(body: Graph) -> dict[str, Any]:
    number = {value: index for index, value in enumerate(body.values())}
    return {
        "inputs": [str(value.type) for value in body.inputs],
        "consts": [[str(value.type), np.asarray(array).reshape(-1).tolist()] for value, array in body.consts.items()],
        "nodes": [
            {
                "op": node.op,
                "attrs": dict(node.attrs),
                "reads": [number[value] for value in node.inputs],
                "writes": [str(value.type) for value in node.outputs],
            }
            for node in body.nodes
        ],
        "outputs": [number[value] for value in body.outputs.values()],
    }
