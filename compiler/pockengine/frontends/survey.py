"""Which operators a model file uses and which of them can be imported, without importing it; for `pock check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import onnx

from . import names
from .functions import function_nodes
from .onnx_file import OnnxFile, read_onnx
from .onnx_import import inlined, needed_for, needed_nodes, opsets
from .operators import find

SUPPORTED, FOLDED, UNSUPPORTED = "supported", "folded", "unsupported"


@dataclass(frozen=True)
class OperatorUse:
    """One operator of the model: how often it occurs and whether it can be imported. `folded` ones act on constants
    only and leave no trace."""

    operator: str
    count: int
    status: str


@dataclass(frozen=True)
class UnsupportedNode:
    """One node that cannot be imported, what needs it, and whether a gradient has to pass through it."""

    operator: str
    node: str
    needed_for: str
    position: str


@dataclass(frozen=True)
class Survey:
    """All operators of a model that its outputs need, and the nodes in the way."""

    operators: tuple[OperatorUse, ...]
    unsupported: tuple[UnsupportedNode, ...]


def survey(path: str | Path, trained: Iterable[str] = ()) -> Survey:
    """Look at an ONNX file. `trained` are globs of parameters that will be trained. Raises ModelError."""
    file = read_onnx(Path(path))
    proto = inlined(file.proto)
    return _survey(names.restore(OnnxFile(proto, file.tensors)), tuple(trained))


def _survey(file: OnnxFile, trained: tuple[str, ...]) -> Survey:
    graph, versions = file.proto.graph, opsets(file.proto)
    params = names.parameters(file)
    constant = {name for name in file.tensors if name not in params}
    moving = {name for name in params if any(fnmatchcase(name, pattern) for pattern in trained)}
    counts: dict[tuple[str, str], int] = {}
    unsupported: list[UnsupportedNode] = []
    for node in needed_nodes(graph):
        inputs = [name for name in node.input if name]
        if node.op_type in ("Shape", "Size") or all(name in constant for name in inputs):
            constant.update(node.output)
            status = FOLDED
        else:
            status = SUPPORTED if importable(node, versions) else UNSUPPORTED
        if any(name in moving for name in inputs):
            moving.update(node.output)
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        counts[operator, status] = counts.get((operator, status), 0) + 1
        if status == UNSUPPORTED:
            crossed = any(name in moving for name in inputs)
            unsupported.append(_unsupported(graph, node, operator, crossed, bool(trained)))
    operators = (OperatorUse(name, count, status) for (name, status), count in sorted(counts.items()))
    return Survey(tuple(operators), tuple(unsupported))


def importable(node: onnx.NodeProto, versions: Mapping[str, int]) -> bool:
    """Whether a node has a translation, or is defined by ONNX through nodes that do."""
    if find(node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"):
        return True
    body = function_nodes(node, versions.get(node.domain, 1), (), "body")
    return body is not None and all(inner.op_type == "Constant" or importable(inner, versions) for inner in body)


def _unsupported(
    graph: onnx.GraphProto, node: onnx.NodeProto, operator: str, crossed: bool, training: bool
) -> UnsupportedNode:
    if not training:
        position = "in the forward pass"
    elif crossed:
        position = "between a trained parameter and the loss: its gradient is needed too"
    else:
        position = "in the frozen part: only its forward is needed"
    return UnsupportedNode(operator, node.name or node.output[0], needed_for(graph, node), position)
