"""Structural invariants of a graph: SSA, topological order, unique names, constants and updates of matching type.

What a node computes is not asked here: `passes.verify` compares types with the op records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from weakref import WeakSet

from .graph import PHASES, Graph, Value

_sound: WeakSet[Graph] = WeakSet()
"""Graphs and bodies that were verified: they never change, and passes hand most bodies on."""


class VerifyError(AssertionError):
    """A pass broke the IR: a defect of the compiler, never of the user's model."""


def verify(graph: Graph, where: str = "") -> Graph:
    """Return the graph unchanged, or raise VerifyError naming the first violation."""
    if graph in _sound:
        return graph
    problem = _first_problem(graph)
    if problem:
        raise VerifyError(f"{where or graph.name}: {problem}")
    for node in graph.nodes:
        if node.body is not None:
            verify(node.body, f"{where or graph.name}/{node.outputs[0].name}")
    _sound.add(graph)
    return graph


def _first_problem(graph: Graph) -> str | None:
    values = list(graph.sources())
    defined = set(values)
    for node in graph.nodes:
        if not defined.issuperset(node.inputs):
            early = next(value for value in node.inputs if value not in defined)
            return f"{node.op} {node.outputs[0].name} reads {early.name} before it is defined"
        if node.phase not in PHASES:
            return f"a node has the unknown phase {node.phase}"
        defined.update(node.outputs)
        values += node.outputs
    names = [value.name for value in values]
    if len(set(names)) != len(names):
        (name, _), *_ = Counter(names).most_common(1)
        return f"two values are named {name}"
    return _wrong_constant(graph) or _wrong_result(graph, defined)


def _wrong_constant(graph: Graph) -> str | None:
    for value, array in graph.consts.items():
        if (array.dtype, array.shape) != (value.type.dtype.numpy, value.type.shape):
            return f"the constant {value.name} of type {value.type} holds {array.dtype}{list(array.shape)}"
    return None


def _wrong_result(graph: Graph, defined: Set[Value]) -> str | None:
    for result in graph.results():
        if result not in defined:
            return f"the result {result.name} is not defined"
    params = set(graph.params)
    for target, new in graph.updates.items():
        if target.type != new.type:
            return f"the update of {target.name} has type {new.type}, not {target.type}"
        if target not in graph.states and target not in params:
            return f"{target.name} is updated but is neither parameter nor state"
    for state, fill in graph.states.items():
        if isinstance(fill, Value) and (fill not in params or state.type != fill.type.widened()):
            return f"the state {state.name} starts with {fill.name}, which is no parameter of its type"
    return None
