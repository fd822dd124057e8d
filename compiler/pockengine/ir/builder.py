"""Builds graphs node by node. Result types are given by the caller (`ops.Emitter` infers them from the op records)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .graph import Array, Attrs, Graph, Node, Value
from .types import DType, TensorType

_ConstKey = tuple[np.dtype[Any], tuple[int, ...], bytes]


class Builder:
    """Mutable while a graph is being made; `finish()` gives the immutable Graph.

    `phase` and `origin` are stamped on each new node; set them before building."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.params: list[Value] = []
        self.states: dict[Value, float | Value] = {}
        self.consts: dict[Value, Array] = {}
        self.nodes: list[Node] = []
        self.outputs: dict[str, Value] = {}
        self.updates: dict[Value, Value] = {}
        self.data: dict[str, Array] = {}
        self.untrained: dict[str, str] = {}
        self.draws: dict[str, str] = {}
        self.phase = "forward"
        self.origin = ""
        self.producers: dict[Value, Node] = {}
        self._names: set[str] = set()
        self._counter = 0
        self._const_cache: dict[_ConstKey, Value] = {}
        # Of graphs that were adopted: names and constants that nobody has asked about yet. Most walks ask about none.
        self._unread: list[Graph] = []
        self._unkeyed: list[Value] = []

    @classmethod
    def extend(cls, graph: Graph) -> Builder:
        """A builder that starts with everything `graph` has; values keep their identity."""
        builder = cls(graph.name)
        builder.adopt_sources(graph)
        for node in graph.nodes:
            builder.keep(node)
        builder.outputs = dict(graph.outputs)
        builder.updates = dict(graph.updates)
        return builder

    def adopt_sources(self, graph: Graph) -> None:
        """Take over everything but nodes and results; used by passes that rebuild only the nodes. The names of all
        values stay taken, for nodes that are kept later."""
        self.inputs += graph.inputs
        self.params += graph.params
        self.states.update(graph.states)
        self.data.update(graph.data)
        self.untrained.update(graph.untrained)
        self.draws.update(graph.draws)
        self.consts.update(graph.consts)
        self._unkeyed += graph.consts
        self._unread.append(graph)

    def fresh(self, hint: str) -> str:
        """A name not used in this graph: the hint itself, or the hint with a number."""
        while self._unread:
            self._names.update([value.name for value in self._unread.pop().values()])
        name = hint
        while not name or name in self._names:
            self._counter += 1
            name = f"{hint}.{self._counter}" if hint else f"v{self._counter}"
        self._names.add(name)
        return name

    def input(self, name: str, type: TensorType) -> Value:
        value = Value(self.fresh(name), type)
        self.inputs.append(value)
        return value

    def param(self, name: str, type: TensorType, data: Array | None = None) -> Value:
        value = Value(self.fresh(name), type)
        self.params.append(value)
        if data is not None:
            self.data[name] = data
        return value

    def state(self, name: str, type: TensorType, fill: float | Value = 0.0) -> Value:
        value = Value(self.fresh(name), type)
        self.states[value] = fill
        return value

    def const(self, array: Array | float | int, dtype: DType | None = None) -> Value:
        """A constant; equal contents give the same value."""
        for known in self._unkeyed:
            self._const_cache.setdefault(_const_key(self.consts[known]), known)
        self._unkeyed.clear()
        contents = np.asarray(array, dtype=dtype.numpy if dtype else None)
        key = _const_key(contents)
        if key not in self._const_cache:
            value = Value(self.fresh(""), TensorType(DType.of(contents.dtype), tuple(contents.shape)))
            self.consts[value] = contents
            self._const_cache[key] = value
        return self._const_cache[key]

    def node(
        self,
        op: str,
        inputs: Sequence[Value],
        types: Sequence[TensorType],
        attrs: Attrs | None = None,
        body: Graph | None = None,
        names: Sequence[str] = (),
        inferred: bool = False,
    ) -> tuple[Value, ...]:
        """Append a node and return its outputs. `inferred` says that its op's record gave the types."""
        hints = list(names) or [""] * len(types)
        outputs = tuple(Value(self.fresh(hint), type) for hint, type in zip(hints, types, strict=True))
        node = Node(op, tuple(inputs), outputs, dict(attrs or {}), body, self.phase, self.origin)
        self.keep(_inferred(node) if inferred else node)
        return outputs

    def keep(self, node: Node) -> None:
        """Append a node that exists already; its outputs keep their identity."""
        self.nodes.append(node)
        for value in node.outputs:
            self.producers[value] = node

    def inline(self, graph: Graph, inputs: Sequence[Value]) -> dict[str, Value]:
        """Append another graph's nodes, its inputs replaced by values of this one; its outputs by name. The graph has
        constants, and neither parameters nor states."""
        mapping = dict(zip(graph.inputs, inputs, strict=True))
        mapping.update((value, self.const(array)) for value, array in graph.consts.items())
        for node in graph.nodes:
            inner = [mapping[value] for value in node.inputs]
            names = [value.name for value in node.outputs]
            made = self.node(node.op, inner, [value.type for value in node.outputs], node.attrs, node.body, names)
            mapping.update(zip(node.outputs, made, strict=True))
        return {name: mapping[value] for name, value in graph.outputs.items()}

    def take_back(self, start: int) -> list[Node]:
        """Remove and return the nodes appended since there were `start`."""
        taken = self.nodes[start:]
        del self.nodes[start:]
        for node in taken:
            for value in node.outputs:
                del self.producers[value]
        return taken

    def finish(self) -> Graph:
        """The finished graph, without unused constants."""
        consts = self.consts
        used = {value for node in self.nodes for value in node.inputs if value in consts}
        used.update(self.outputs.values(), self.updates.values())
        return Graph(
            self.name,
            tuple(self.inputs),
            tuple(self.params),
            dict(self.states),
            {value: array for value, array in consts.items() if value in used},
            tuple(self.nodes),
            dict(self.outputs),
            dict(self.updates),
            dict(self.data),
            dict(self.untrained),
            dict(self.draws),
        )


def substitute(node: Node, mapping: Mapping[Value, Value]) -> Node:
    """The node with its inputs replaced; outputs keep their identity. Returns the same object when nothing changes."""
    if not mapping or mapping.keys().isdisjoint(node.inputs):
        return node
    inputs = tuple(mapping.get(value, value) for value in node.inputs)
    made = Node(node.op, inputs, node.outputs, node.attrs, node.body, node.phase, node.origin)
    alike = all(new.type == old.type for new, old in zip(inputs, node.inputs, strict=True))
    return _inferred(made) if node.inferred and alike else made


def _inferred(node: Node) -> Node:
    object.__setattr__(node, "inferred", True)
    return node


def _const_key(array: Array) -> _ConstKey:
    return (array.dtype, array.shape, array.tobytes())
