"""The model as its user sees it: layers with their parameters, shapes and share of the arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...ir import Graph, Node, Value
from ...ops import Carried, get, record_of
from ..rules import ALL, FROZEN
from .scheme import Channels, Scheme


@dataclass(frozen=True)
class LayerParameter:
    """`trained` is `all`, `channels` or `frozen`; `channels` the number of trained input channels."""

    name: str
    shape: tuple[int, ...]
    trained: str
    channels: int | None


@dataclass(frozen=True)
class Layer:
    """The nodes from one module's parameters to the next module's.

    shape  of the layer's result
    flops  floating-point operations of the forward pass
    share  of the model's forward operations, from 0 to 1
    saved_bytes  what of its results the backward pass needs
    saved_share  of all that the backward pass needs, from 0 to 1"""

    name: str
    operators: tuple[str, ...]
    shape: tuple[int, ...]
    parameters: tuple[LayerParameter, ...]
    flops: int
    share: float
    saved_bytes: int
    saved_share: float

    def to_mapping(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "operators": list(self.operators),
            "shape": list(self.shape),
            "param_count": sum(math.prod(parameter.shape) for parameter in self.parameters),
            "parameters": [
                {"name": p.name, "shape": list(p.shape), "trained": p.trained, "channels": p.channels}
                for p in self.parameters
            ],
            "flops": self.flops,
            "share": self.share,
            "saved_bytes": self.saved_bytes,
            "saved_share": self.saved_share,
        }


@dataclass
class _Growing:
    operators: dict[str, None]
    shape: tuple[int, ...]
    parameters: dict[Value, None]
    flops: int = 0
    saved: int = 0


def layers_of(graph: Graph, scheme: Scheme | None = None, saved: Mapping[str, int] | None = None) -> tuple[Layer, ...]:
    """The layers of an imported graph, in order; a node without parameters belongs to the layer before it.

    saved  origin of a node -> bytes of its results that the backward pass needs; what comes from no node of the model
           (the loss) is left out"""
    left = dict(saved or {})
    growing: dict[str, _Growing] = {}
    for node, current, params in _placed(graph):
        if params is None:
            if current in growing:
                growing[current].saved += left.pop(node.origin, 0)
            continue
        layer = growing.setdefault(current, _Growing({}, (), {}))
        layer.operators[node.op] = None
        layer.parameters.update(dict.fromkeys(params))
        layer.shape = node.outputs[0].type.shape
        layer.flops += node_flops(node)
        layer.saved += left.pop(node.origin, 0)
    total = max(1, sum(layer.flops for layer in growing.values()))
    kept = sum(layer.saved for layer in growing.values())
    return tuple(
        Layer(
            name,
            tuple(layer.operators),
            layer.shape,
            tuple(_parameter(value, scheme) for value in layer.parameters),
            layer.flops,
            layer.flops / total,
            layer.saved,
            layer.saved / max(1, kept),
        )
        for name, layer in growing.items()
    )


def layer_names(graph: Graph) -> dict[str, str]:
    """Origin of a node of an imported graph -> the layer to which it belongs."""
    return {node.origin: name for node, name, _ in _placed(graph) if node.origin}


def _placed(graph: Graph) -> Iterator[tuple[Node, str, list[Value] | None]]:
    """Each node that is part of a layer, the layer's name, and the parameters that it reads; None of a node that moves
    data only. What moves a parameter belongs to no layer."""
    owners: dict[Value, Value] = {value: value for value in graph.params}
    current = "inputs"
    for node in graph.nodes:
        if record_of(node).carries is Carried.ALL:
            if node.inputs[0] in owners:
                owners[node.output] = owners[node.inputs[0]]
            else:
                yield node, current, None
            continue
        params = [owners[value] for value in node.inputs if value in owners]
        if params:
            current = _module(params[0].name)
        yield node, current, params


def node_flops(node: Node) -> int:
    """Floating-point operations of one node, from its op's record."""
    inputs, outputs = ([value.type for value in values] for values in (node.inputs, node.outputs))
    return get(node.op).cost(inputs, outputs, node.attrs)


def _module(parameter: str) -> str:
    """The module a parameter belongs to: `encoder.fc` for `encoder.fc.weight`."""
    return parameter.rpartition(".")[0] or parameter


def _parameter(value: Value, scheme: Scheme | None) -> LayerParameter:
    update = scheme.of(value.name) if scheme else FROZEN
    if isinstance(update, Channels):
        return LayerParameter(value.name, value.type.shape, "channels", len(update.indices))
    return LayerParameter(value.name, value.type.shape, ALL if update == ALL else FROZEN, None)
