"""Evaluates a graph with the numpy references of the op records: slow, plain, and the oracle of every test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from . import ops
from .ir import Array, Attrs, Builder, Graph, Node, Value

Kernel = Callable[[Sequence[Array], Attrs], Sequence[Array] | None]
"""A quicker way to compute an op than its reference, with the same arguments; None where it does not apply."""
Kernels = Mapping[str, Kernel]

_REFERENCES: Kernels = {}


def run_node(node: Node, inputs: list[Array], kernels: Kernels = _REFERENCES) -> list[Array]:
    """The outputs of one node: its kernel or reference, its expansion evaluated, or its body evaluated."""
    if node.body is not None:
        body = node.body
        bound = dict(zip((value.name for value in body.inputs), inputs, strict=True))
        return list(evaluate(body, bound, kernels).values())
    kernel = kernels.get(node.op)
    results = kernel(inputs, node.attrs) if kernel else None
    if results is not None:
        return list(results)
    op = ops.get(node.op)
    if op.reference is not None:
        return list(op.reference(inputs, node.attrs))
    expansion = expand(node)
    bound = dict(zip((value.name for value in expansion.inputs), inputs, strict=True))
    return list(evaluate(expansion, bound, kernels).values())


def expand(node: Node) -> Graph:
    """A composite node as a graph of its own."""
    builder = Builder(node.op)
    inputs = [builder.input(f"in{i}", value.type) for i, value in enumerate(node.inputs)]
    rule = ops.get(node.op).expand
    assert rule is not None
    for i, value in enumerate(rule(ops.Emitter(builder), inputs, node.attrs)):
        builder.outputs[str(i)] = value
    return builder.finish()


def environment(graph: Graph, inputs: Mapping[str, Array], kernels: Kernels = _REFERENCES) -> dict[Value, Array]:
    """The contents of every value of the graph.

    `inputs` gives inputs by name; it may also give parameters and states, which otherwise have their initial contents.
    Floating-point inputs of another precision than declared keep it (float64 for gradient checks)."""
    values = _sources(graph, inputs)
    for node in graph.nodes:
        results = run_node(node, [values[value] for value in node.inputs], kernels)
        values.update(zip(node.outputs, results, strict=True))
    return values


def evaluate(graph: Graph, inputs: Mapping[str, Array], kernels: Kernels = _REFERENCES) -> dict[str, Array]:
    """The graph's outputs by name; what nothing reads any more is let go."""
    values = _sources(graph, inputs)
    kept = set(graph.outputs.values())
    last = {value: index for index, node in enumerate(graph.nodes) for value in node.inputs}
    for index, node in enumerate(graph.nodes):
        results = run_node(node, [values[value] for value in node.inputs], kernels)
        values.update(zip(node.outputs, results, strict=True))
        for value in {*node.inputs, *node.outputs}:
            if last.get(value, index) == index and value not in kept:
                del values[value]
    return {name: values[value] for name, value in graph.outputs.items()}


def _sources(graph: Graph, inputs: Mapping[str, Array]) -> dict[Value, Array]:
    values: dict[Value, Array] = dict(graph.consts)
    for value in graph.inputs:
        values[value] = np.asarray(inputs[value.name])
    for value in graph.params:
        values[value] = np.asarray(inputs[value.name] if value.name in inputs else graph.data[value.name])
    for value, fill in graph.states.items():
        default = values[fill] if isinstance(fill, Value) else np.full(value.type.shape, fill, value.type.dtype.numpy)
        values[value] = np.asarray(inputs.get(value.name, default))
    return values


def step(graph: Graph, inputs: Mapping[str, Array], tensors: dict[str, Array]) -> dict[str, Array]:
    """One training step: outputs by name; `tensors` (parameters and states by name) gets the updates."""
    values = environment(graph, {**tensors, **inputs})
    tensors.update({target.name: values[new] for target, new in graph.updates.items()})
    return {name: values[value] for name, value in graph.outputs.items()}
