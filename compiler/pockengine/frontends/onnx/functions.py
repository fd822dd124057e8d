"""Operators that ONNX defines as a function of others: their nodes, so that any such operator can be imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import defs, helper

from ...ir import TensorType


def function_nodes(
    node: onnx.NodeProto, opset: int, types: Sequence[TensorType | None], prefix: str
) -> list[onnx.NodeProto] | None:
    """The body of a function operator, its values renamed to fit in place of `node`; None when it has no body.

    types   of the inputs, for bodies that depend on them
    prefix  put before the names of values inside the body"""
    try:
        schema = defs.get_schema(node.op_type, opset, node.domain)
    except (defs.SchemaError, TypeError):
        # TypeError: a damaged file whose operator name is not text.
        return None
    body = _body(schema, node, opset, types)
    if body is None:
        return None
    names = dict(zip(body.input, node.input, strict=False))
    names |= {inner: outer for inner, outer in zip(body.output, node.output, strict=False) if outer}
    names |= dict.fromkeys(body.input[len(node.input) :], "")
    defaults = {a.name: a.default_value for a in schema.attributes.values() if a.default_value.name}
    given = {a.name: a for a in (*defaults.values(), *node.attribute)}
    return [_renamed(inner, names, given, f"{prefix}/{index}") for index, inner in enumerate(body.node)]


def _body(
    schema: Any, node: onnx.NodeProto, opset: int, types: Sequence[TensorType | None]
) -> onnx.FunctionProto | None:
    """`schema` is an OpSchema; its function part is missing from onnx's type stubs."""
    body = onnx.FunctionProto()
    if schema.has_function:
        version = _newest(schema.function_opset_versions, opset)
        serialized = schema.get_function_with_opset_version(version)
    elif schema.has_context_dependent_function:
        version = _newest(schema.context_dependent_function_opset_versions, opset)
        inputs = [_type_proto(type).SerializeToString() for type in types]
        serialized = schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), inputs)
    else:
        return None
    body.ParseFromString(serialized)
    return body


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=min(versions))


def _type_proto(type: TensorType | None) -> onnx.TypeProto:
    if type is None:
        return onnx.TypeProto()
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(type.dtype.numpy), type.shape)


def _renamed(
    node: onnx.NodeProto, names: dict[str, str], given: dict[str, onnx.AttributeProto], prefix: str
) -> onnx.NodeProto:
    """A copy of one body node with outer value names and referenced attributes filled in."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = prefix
    for field in (copy.input, copy.output):
        for index, name in enumerate(field):
            if name:
                field[index] = names.setdefault(name, f"{prefix}/{name}")
    del copy.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            copy.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            filled = copy.attribute.add()
            filled.CopyFrom(given[attribute.ref_attr_name])
            filled.name = attribute.name
    return copy
