"""What holds of a graph after every pass: structure, types, what regions promise, and the forms that were made.

Nodes never change, and a pass hands most of them on: each is looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from weakref import WeakSet

from .. import ir
from ..ir import Graph, Node, Value, VerifyError
from ..ops import get, is_kind, is_view
from .promises import broken_promise
from .record import Context, Form

_sound: WeakSet[Graph] = WeakSet()
"""Graphs that were verified."""


def verify(graph: Graph, where: str = "", before: Collection[Node] = ()) -> Graph:
    """Return the graph unchanged, or raise VerifyError naming the first violation. `before`, a set, has nodes of a
    graph that was verified."""
    if graph in _sound:
        return graph
    ir.verify(graph, where)
    for node in graph.nodes:
        if node not in before:
            _verify_node(node, where or graph.name, before)
    _sound.add(graph)
    return graph


def _verify_node(node: Node, where: str, known: Collection[Node]) -> None:
    if node.body is None:
        problem = _ill_typed(node)
    else:
        for inner in node.body.nodes:
            if inner not in known and inner.body is None:
                _verify_node(inner, f"{where}/{node.outputs[0].name}", known)
        problem = broken_promise(node)
    if problem:
        raise VerifyError(f"{where}: {node.op} {node.outputs[0].name}: {problem}")


def _ill_typed(node: Node) -> str | None:
    """How the types of a node's outputs differ from what its op's record infers."""
    if node.inferred:
        return None
    stored = tuple(value.type for value in node.outputs)
    try:
        inferred = tuple(get(node.op).infer([value.type for value in node.inputs], node.attrs))
    except Exception as error:  # whatever a rule trips over: it may take its operands for granted
        return f"its operands and attributes have no type: {type(error).__name__}: {error}"
    if stored == inferred:
        return None
    first, second = (", ".join(map(str, types)) for types in (stored, inferred))
    return f"it is ({first}), and inferred as ({second})"


def verify_forms(graph: Graph, forms: Collection[Form], context: Context, where: str) -> None:
    """Raise VerifyError for the first node that is not of one of the forms."""
    for form in forms:
        find = _FORMS.get(form)
        node = find(graph, context) if find else None
        if node is not None:
            raise VerifyError(f"{where}: {node.op} {node.outputs[0].name} is not of the form '{form.value}'")


def _composite(graph: Graph, context: Context) -> Node | None:
    return next((node for node in graph.nodes if is_kind(node, "composite") and not context.claims(node)), None)


def _channels_first(graph: Graph, context: Context) -> Node | None:
    return next((node for node in graph.nodes if node.attrs.get("layout", "NHWC") != "NHWC"), None)


def _bare(graph: Graph, context: Context) -> Node | None:
    kinds = ("elementwise", "reduction", "contraction")
    return next((node for node in graph.nodes if is_kind(node, *kinds)), None)


def _late_reader(graph: Graph, context: Context) -> Node | None:
    """A node that reads a parameter or state after another has overwritten it."""
    viewed: dict[Value, Value] = {}
    maker: dict[Value, int] = {}
    readers: dict[Value, list[int]] = {target: [] for target in graph.updates}
    for place, node in enumerate(graph.nodes):
        for value in node.inputs:
            if (source := viewed.get(value, value)) in readers:
                readers[source].append(place)
        if is_view(node):
            viewed[node.output] = viewed.get(node.inputs[0], node.inputs[0])
        maker |= dict.fromkeys(node.outputs, place)
    for target, new in graph.updates.items():
        written = maker.get(viewed.get(new, new), len(graph.nodes))
        if readers[target] and readers[target][-1] > written:
            return graph.nodes[readers[target][-1]]
    return None


_FORMS: Mapping[Form, Callable[[Graph, Context], Node | None]] = {
    Form.PRIMITIVES: _composite,
    Form.CHANNELS_LAST: _channels_first,
    Form.REGIONS: _bare,
    Form.WRITABLE: _late_reader,
}
"""The first node that is not of a form; the other forms are not seen of a graph alone."""
