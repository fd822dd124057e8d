"""Sequences of tensors, which fold away: the importer knows which tensors each one holds.

PyTorch's exporter, unoptimised, writes `x.chunk(2)` as SplitToSequence and a SequenceAt for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...errors import DynamicShapeError, ModelError
from ...ir import Array

OPERATORS = {
    *("SplitToSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
    *("SequenceLength", "ConcatFromSequence"),
}


class Sequences:
    """The sequences met so far.

    constant  name of a tensor -> its contents, None where they are not known at import
    shape     name of a tensor -> its shape"""

    def __init__(self, constant: Callable[[str], Array | None], shape: Callable[[str], Sequence[int]]) -> None:
        self._constant = constant
        self._shape = shape
        self._items: dict[str, list[str]] = {}

    def concerns(self, node: onnx.NodeProto) -> bool:
        """Whether the node makes or reads a sequence."""
        return node.op_type in OPERATORS or (node.op_type == "Identity" and node.input[0] in self._items)

    def replacement(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Nodes on tensors alone that compute what the node does; none where only names move."""
        match node.op_type:
            case "SplitToSequence":
                return self._split(node)
            case "SequenceAt":
                items = self._of(node, 0)
                return [helper.make_node("Identity", [items[self._position(node, 1, len(items))]], node.output)]
            case "SequenceLength":
                return [constant_node(node.output[0], np.asarray(len(self._of(node, 0)), np.int64))]
            case "ConcatFromSequence":
                return self._concat(node)
            case _:
                self._items[node.output[0]] = self._changed(node)
                return []

    def _changed(self, node: onnx.NodeProto) -> list[str]:
        if node.op_type == "SequenceConstruct":
            return list(node.input)
        if node.op_type == "SequenceEmpty":
            return []
        items = list(self._of(node, 0))
        if node.op_type == "SequenceInsert":
            given = len(node.input) > 2 and node.input[2]
            items.insert(self._position(node, 2, len(items) + 1) if given else len(items), node.input[1])
        elif node.op_type == "SequenceErase":
            del items[self._position(node, 1, len(items)) if len(node.input) > 1 and node.input[1] else -1]
        return items

    def _split(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        source, prefix = node.input[0], node.output[0]
        shape, axis = self._shape(source), int(_attribute(node, "axis", 0))
        if not -len(shape) <= axis < len(shape):
            raise ModelError(
                f"axis {axis} of {node.op_type} '{prefix}' does not exist in a tensor of rank {len(shape)}"
            )
        given = self._known(node, 1) if len(node.input) > 1 and node.input[1] else np.asarray(1)
        size, part = shape[axis], max(int(given.reshape(-1)[0]), 1)
        sizes = [min(part, size - start) for start in range(0, size, part)] if given.ndim == 0 else given.tolist()
        parts = [f"{prefix}/{index}" for index in range(len(sizes))]
        self._items[prefix] = parts
        squeezed = len(node.input) < 2 and not _attribute(node, "keepdims", 1)
        split = [f"{part}/kept" for part in parts] if squeezed else parts
        nodes = [constant_node(f"{prefix}/sizes", np.asarray(sizes, np.int64))]
        nodes.append(helper.make_node("Split", [source, f"{prefix}/sizes"], split, name=node.name, axis=axis))
        if squeezed:
            nodes.append(constant_node(f"{prefix}/axis", np.asarray([axis], np.int64)))
            nodes += [
                helper.make_node("Squeeze", [kept, f"{prefix}/axis"], [part])
                for kept, part in zip(split, parts, strict=True)
            ]
        return nodes

    def _concat(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        items, out, axis = self._of(node, 0), node.output[0], int(_attribute(node, "axis", 0))
        if not _attribute(node, "new_axis", 0):
            return [helper.make_node("Concat", items, [out], name=node.name, axis=axis)]
        stacked = [f"{out}/{index}" for index in range(len(items))]
        nodes = [constant_node(f"{out}/axis", np.asarray([axis], np.int64))]
        for item, new in zip(items, stacked, strict=True):
            nodes.append(helper.make_node("Unsqueeze", [item, f"{out}/axis"], [new]))
        return [*nodes, helper.make_node("Concat", stacked, [out], name=node.name, axis=axis)]

    def _of(self, node: onnx.NodeProto, index: int) -> list[str]:
        name = node.input[index]
        if name not in self._items:
            raise ModelError(
                f"{node.op_type} '{node.output[0]}' reads '{name}', which is not a sequence made in the model"
            )
        return self._items[name]

    def _position(self, node: onnx.NodeProto, index: int, length: int) -> int:
        position = int(self._known(node, index).reshape(-1)[0])
        if not -length <= position < length:
            raise ModelError(f"{node.op_type} '{node.output[0]}' has position {position} in a sequence of {length}")
        return position % length

    def _known(self, node: onnx.NodeProto, index: int) -> Array:
        found = self._constant(node.input[index])
        if found is None:
            raise DynamicShapeError(
                f"'{node.input[index]}' of {node.op_type} '{node.output[0]}' depends on data, but which tensors a "
                "sequence holds has to be known when compiling"
            )
        return found


def _attribute(node: onnx.NodeProto, name: str, default: int) -> Any:
    return next((helper.get_attribute_value(found) for found in node.attribute if found.name == name), default)


def constant_node(name: str, value: Array) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))
