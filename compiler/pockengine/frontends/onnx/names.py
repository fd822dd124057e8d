"""Which initializers are the user's parameters, and under which names.

Exporters add constants of their own and, when they optimise, store a linear layer's weight transposed under a made-up
name. PyTorch's exporter notes on each node which module it came from, so the user's name and layout can be restored.
"""

from __future__ import annotations

import ast
import re

import numpy as np
import onnx
from onnx import helper

from ...ir import Array, DType
from .file import OnnxFile

_ANONYMOUS = re.compile(r"val_\d+|.*scalar_tensor_default(_\d+)?")
_SCOPES = "pkg.torch.onnx.name_scopes"


def parameters(file: OnnxFile) -> set[str]:
    """Names of the initializers that are parameters: floating point, and not a made-up scalar constant.

    A scalar without a dot in its name (`min_val_cast`) is taken for an exporter's constant; what says how an image is
    resized is one."""
    settings = {name for node in file.proto.graph.node if node.op_type == "Resize" for name in node.input[1:]}
    floats = {name for name, array in file.tensors.items() if _is_float(array) and (array.ndim > 0 or "." in name)}
    return floats - settings


def _is_float(array: Array) -> bool:
    try:
        return DType.of(array.dtype).is_float
    except (KeyError, TypeError):
        return False


def restore(file: OnnxFile) -> OnnxFile:
    """The file with transposed, anonymous weights of linear layers under the user's names and in the user's layout.

    before  MatMul(x, val_7) in the scope `encoder.fc`, val_7 float [in, out]
    after   MatMul(x, Transpose(encoder.fc.weight)), encoder.fc.weight a view [out, in]"""
    found = _transposed_weights(file)
    if not found:
        return file
    proto = onnx.ModelProto()
    proto.CopyFrom(file.proto)
    tensors: dict[str, Array] = {found.get(name, name): array for name, array in file.tensors.items()}
    for name in found.values():
        tensors[name] = np.transpose(tensors[name])
    nodes: list[onnx.NodeProto] = []
    for node in file.proto.graph.node:
        # Each transpose stands before the product that reads it, so that parameters keep the model's order.
        for old in found.keys() & set(node.input):
            nodes.append(helper.make_node("Transpose", [found[old]], [old], name=f"{found[old]}.T", perm=[1, 0]))
        nodes.append(node)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for tensor in proto.graph.initializer:
        tensor.name = found.get(tensor.name, tensor.name)
    return OnnxFile(proto, tensors)


def _transposed_weights(file: OnnxFile) -> dict[str, str]:
    """Anonymous initializer -> the weight's own name."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in file.proto.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found: dict[str, str] = {}
    for name, array in file.tensors.items():
        users = readers.get(name, [])
        if not _ANONYMOUS.fullmatch(name) or array.ndim != 2 or not _is_float(array) or len(users) != 1:
            continue
        module = _linear_module(users[0]) if users[0].op_type == "MatMul" and users[0].input[1] == name else None
        new = f"{module}.weight" if module is not None else None
        if new is not None and new not in file.tensors and new not in found.values():
            found[name] = new
    return found


def _linear_module(node: onnx.NodeProto) -> str | None:
    """The module of a node that came from `aten.linear`: the last but one of its scopes."""
    notes = {entry.key: entry.value for entry in node.metadata_props}
    if "aten.linear" not in notes.get("pkg.torch.onnx.fx_node", ""):
        return None
    try:
        scopes = ast.literal_eval(notes.get(_SCOPES, "[]"))
    except (ValueError, SyntaxError):
        return None
    return str(scopes[-2]) if isinstance(scopes, list) and len(scopes) >= 2 and scopes[-2] else None
