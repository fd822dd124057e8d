"""Which operators a model file uses and which of them can be imported, without importing it; for `pock check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

import onnx
import onnx.shape_inference

from ...errors import PockError
from ..operators import find
from ..operators.data_sized import INSTEAD
from ..operators.registry import dtype_of
from . import control_flow, names, sequences
from .file import OnnxFile, read_onnx
from .functions import function_nodes
from .importer import inlined, needed_for, needed_nodes, opsets

SUPPORTED, FOLDED, FORWARD, UNSUPPORTED = "supported", "folded", "forward only", "unsupported"


@dataclass(frozen=True)
class OperatorUse:
    """One operator of the model: how often it occurs and whether it can be imported. `folded` ones act on constants
    only and leave no trace; those that are `forward only` have no gradient and may stand in the frozen part."""

    operator: str
    count: int
    status: str


@dataclass(frozen=True)
class UnsupportedNode:
    """One node that is in the way.

    shapes      types of its inputs, as far as they can be told
    needed_for  the outputs that need it
    position    where it lies relative to what is trained
    advice      what to do"""

    operator: str
    node: str
    shapes: str
    needed_for: str
    position: str
    advice: str


@dataclass(frozen=True)
class Survey:
    """All operators of a model that its outputs need, and the nodes in the way.

    operator_of      node -> its operator
    missing_weights  an external file of weights is not there"""

    operators: tuple[OperatorUse, ...]
    unsupported: tuple[UnsupportedNode, ...]
    operator_of: Mapping[str, str] = field(default_factory=dict)
    missing_weights: bool = False


def survey(
    path: str | Path, trained: Iterable[str] = (), dims: Mapping[str, int] | None = None, batch: int | None = None
) -> Survey:
    """Look at an ONNX file, whose external weights may be missing.

    trained      globs of parameters that will be trained
    dims, batch  as for `load`; here they only make shapes known

    Raises ModelError."""
    file = read_onnx(Path(path), need_weights=False)
    proto = inlined(file.proto)
    found = _survey(names.restore(OnnxFile(proto, file.tensors)), tuple(trained))
    if found.unsupported:
        shapes = _shapes(proto, dims or {}, batch)
        inputs = {node.name or node.output[0]: node.input for node in proto.graph.node}
        told = (
            replace(one, shapes=", ".join(shapes.get(name, "?") for name in inputs[one.node] if name))
            for one in found.unsupported
        )
        found = replace(found, unsupported=tuple(told))
    return replace(found, missing_weights=bool(file.missing))


def _shapes(proto: onnx.ModelProto, dims: Mapping[str, int], batch: int | None) -> dict[str, str]:
    """Name -> type of every tensor whose shape ONNX can infer: `f32[8,3,224,224]`."""
    bound = onnx.ModelProto()
    bound.CopyFrom(proto)
    for value in bound.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            size = dims.get(dim.dim_param, batch if axis == 0 else None)
            if not dim.HasField("dim_value") and size is not None:
                dim.dim_value = size
    try:
        inferred = onnx.shape_inference.infer_shapes(bound, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError):
        inferred = bound.graph
    types = {tensor.name: (tensor.data_type, list(tensor.dims)) for tensor in inferred.initializer}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        tensor = value.type.tensor_type
        if tensor.elem_type and tensor.HasField("shape"):
            sizes = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
            types[value.name] = (tensor.elem_type, sizes)
    return {name: f"{_element(kind)}[{','.join(map(str, sizes))}]" for name, (kind, sizes) in types.items()}


def _element(kind: int) -> str:
    try:
        return dtype_of(kind, "").value
    except PockError:
        return str(onnx.TensorProto.DataType.Name(kind)).lower()


def _survey(file: OnnxFile, trained: tuple[str, ...]) -> Survey:
    graph, versions = file.proto.graph, opsets(file.proto)
    params = names.parameters(file)
    constant = {name for name in file.tensors if name not in params}
    moving = {name for name in params if any(fnmatchcase(name, pattern) for pattern in trained)}
    counts: dict[tuple[str, str], int] = {}
    unsupported: list[UnsupportedNode] = []
    operator_of: dict[str, str] = {}
    for node in needed_nodes(graph):
        inputs = [name for name in node.input if name]
        known = all(name in constant for name in inputs) and node.op_type not in control_flow.OPERATORS
        if known or node.op_type in ("Shape", "Size"):
            constant.update(node.output)
            status = FOLDED
        else:
            steering = node.input[: control_flow.OPERATORS.get(node.op_type, 0)]
            unrolls = all(name in constant for name in steering if name)
            status = SUPPORTED if unrolls and importable(node, versions) else UNSUPPORTED
        if any(name in moving for name in inputs):
            moving.update(node.output)
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        operator_of[node.name or node.output[0]] = operator
        counts[operator, status] = counts.get((operator, status), 0) + 1
        if status == UNSUPPORTED:
            crossed = any(name in moving for name in inputs)
            unsupported.append(_unsupported(graph, node, operator, crossed, bool(trained)))
    operators = (OperatorUse(name, count, status) for (name, status), count in sorted(counts.items()))
    return Survey(tuple(operators), tuple(unsupported), operator_of)


def importable(node: onnx.NodeProto, versions: Mapping[str, int]) -> bool:
    """Whether a node has a translation, or ONNX defines it by nodes that do, and its inputs need not be known."""
    if node.op_type in INSTEAD:
        return False
    if node.op_type in sequences.OPERATORS:
        return True
    if node.op_type in control_flow.OPERATORS:
        return all(importable(inner, versions) for attribute in node.attribute for inner in attribute.g.node)
    if find(node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"):
        return True
    body = function_nodes(node, versions.get(node.domain, 1), (), "body")
    return body is not None and all(importable(inner, versions) for inner in body)


def _unsupported(
    graph: onnx.GraphProto, node: onnx.NodeProto, operator: str, crossed: bool, training: bool
) -> UnsupportedNode:
    if not training:
        position = "in the forward pass"
    elif crossed:
        position = "between a trained parameter and the loss: its gradient is needed too"
    else:
        position = "in the frozen part: only its forward is needed"
    return UnsupportedNode(
        operator, node.name or node.output[0], "", needed_for(graph, node), position, _advice(node, position)
    )


def _advice(node: onnx.NodeProto, position: str) -> str:
    if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        return "export the model with its loops and branches unrolled, for inputs of one fixed shape"
    if node.op_type in INSTEAD:
        return f"{INSTEAD[node.op_type]}: the size of its result depends on data, which no fixed program has"
    if node.domain:
        return f"export the model without the custom operators of '{node.domain}'"
    if "Quant" in node.op_type or node.op_type.endswith("Integer"):
        return "export the model before quantisation"
    if position.startswith("in the frozen part"):
        return "cut the model behind this node and give its result as an input, or replace the node in the model"
    return "replace it in the model by operators that `pock check` calls supported, and export again"
