"""A forward graph as an ONNX model, and the model as a file, its weights beside it where they exceed 2 GB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...errors import UnsupportedOperatorError
from ...ir import Array, Graph, TensorType
from ...ops import composites_of, expand
from ..files import write_whole
from .operators import TABLE, claims, unsupported
from .writer import Writer

OPSET = 20
"""The newest operator set that runtimes in the field have; the first with Gelu."""
_IR_VERSION = 9
LARGEST = (1 << 31) - (1 << 24)
"""Bytes of weights that still go into the file: a protobuf message ends at 2 GiB."""


@dataclass(frozen=True)
class OnnxModel:
    """The structure, and the contents of the parameters by name."""

    proto: onnx.ModelProto
    tensors: Mapping[str, Array]

    def save(self, path: Path, largest: int = LARGEST) -> list[Path]:
        """Write the model; the files written. With more than `largest` bytes of weights, `NAME.data` beside it holds
        them (ONNX's external data). A file appears whole or not at all. Raises OSError."""
        proto, data = onnx.ModelProto(), path.with_name(f"{path.name}.data")
        proto.CopyFrom(self.proto)
        if sum(array.nbytes for array in self.tensors.values()) <= largest:
            for name, array in self.tensors.items():
                proto.graph.initializer.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
            return [write_whole(path, [proto.SerializeToString()])]
        offset = 0
        for name, array in self.tensors.items():
            proto.graph.initializer.append(_elsewhere(name, array, data.name, offset))
            offset += array.nbytes
        written = write_whole(data, (np.asarray(array, order="C").tobytes() for array in self.tensors.values()))
        return [write_whole(path, [proto.SerializeToString()]), written]


def expanded(graph: Graph) -> Graph:
    """The graph with every composite that ONNX has no operator for in others."""
    while chosen := [node for node in composites_of(graph) if not claims(node)]:
        graph = expand(graph, chosen)
    return graph


def graph_to_onnx(graph: Graph) -> OnnxModel:
    """The forward graph as ONNX; inputs, parameters and outputs keep their names. Raises UnsupportedOperatorError for a
    node that ONNX cannot say."""
    graph = expanded(graph)
    sources = [value.name for value in (*graph.inputs, *graph.params)]
    writer = Writer([*sources, *graph.outputs])
    names = {value: value.name for value in (*graph.inputs, *graph.params)}
    names.update((value, writer.const(array)) for value, array in graph.consts.items())
    for node in graph.nodes:
        reason = unsupported(node)
        if reason:
            raise UnsupportedOperatorError(f"ONNX cannot say {node.op} (node '{node.origin}'): {reason}")
        writer.origin = node.origin
        results = TABLE[node.op](writer, node, [names[value] for value in node.inputs])
        names.update(zip(node.outputs, results, strict=True))
    nodes = [*writer.nodes]
    for name, value in graph.outputs.items():
        if names[value] != name:
            nodes.append(helper.make_node("Identity", [names[value]], [name], name=writer.fresh(f"{name}/Identity")))
    inputs = [_port(value.name, value.type) for value in graph.inputs]
    outputs = [_port(name, value.type) for name, value in graph.outputs.items()]
    proto = helper.make_model(
        helper.make_graph(nodes, graph.name or "model", inputs, outputs),
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="pockengine",
        ir_version=_IR_VERSION,
    )
    used = {name for node in nodes for name in node.input}
    return OnnxModel(proto, {value.name: graph.data[value.name] for value in graph.params if value.name in used})


def _port(name: str, type: TensorType) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(type.dtype.numpy), type.shape)


def _elsewhere(name: str, array: Array, file: str, offset: int) -> onnx.TensorProto:
    """An initializer whose contents are in another file."""
    tensor = TensorProto(name=name, dims=array.shape, data_type=helper.np_dtype_to_tensor_dtype(array.dtype))
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", str(offset)), ("length", str(array.nbytes))):
        tensor.external_data.add(key=key, value=value)
    return tensor
