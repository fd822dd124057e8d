"""Structural invariants of a graph: SSA, topological order, unique names, updates of matching type."""

from __future__ import annotations

from weakref import WeakSet

from .graph import PHASES, Graph, Value

_sound_bodies: WeakSet[Graph] = WeakSet()
"""Bodies that were verified: graphs never change, and passes hand most bodies on."""


class VerifyError(AssertionError):
    """A pass broke the IR: a defect of the compiler, never of the user's model."""


def verify(graph: Graph, where: str = "") -> Graph:
    """Return the graph unchanged, or raise VerifyError naming the first violation."""
    problem = _first_problem(graph)
    if problem:
        raise VerifyError(f"{where or graph.name}: {problem}")
    for node in graph.nodes:
        if node.body is not None and node.body not in _sound_bodies:
            _sound_bodies.add(verify(node.body, f"{where or graph.name}/{node.outputs[0].name}"))
    return graph


def _first_problem(graph: Graph) -> str | None:
    defined: set[Value] = set()
    names: set[str] = set()
    for value in graph.sources():
        if value.name in names:
            return f"two values are named {value.name}"
        names.add(value.name)
        defined.add(value)
    for node in graph.nodes:
        if node.phase not in PHASES:
            return f"{node.op} has the unknown phase {node.phase}"
        if not defined.issuperset(node.inputs):
            early = next(value for value in node.inputs if value not in defined)
            return f"{node.op} {node.outputs[0].name} reads {early.name} before it is defined"
        for value in node.outputs:
            if value.name in names:
                return f"two values are named {value.name}"
            names.add(value.name)
        defined.update(node.outputs)
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
        if isinstance(fill, Value) and (fill not in params or fill.type != state.type):
            return f"the state {state.name} starts with {fill.name}, which is no parameter of its type"
    return None
