"""The table of ONNX operators that we translate, and what a translation sees of its node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import defs, helper

from ...errors import DynamicShapeError, ModelError, UnsupportedOperatorError
from ...ir import Array, DType, Value
from ...ops import Emitter

Operand = Value | Array
"""A tensor computed by the graph (or a parameter or input), or one known at import."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class NodeContext:
    """One ONNX node while it is translated.

    operands  its inputs in order, None where an optional input is left out
    opset     version of the operator set the node belongs to
    where     for messages: the node and what needs it
    """

    e: Emitter
    node: onnx.NodeProto
    operands: tuple[Operand | None, ...]
    opset: int
    where: str
    attributes: Mapping[str, Any]
    read: set[str] = field(default_factory=set)

    def has(self, index: int) -> bool:
        return index < len(self.operands) and self.operands[index] is not None

    def value(self, index: int) -> Value:
        """An input as a value of the graph; constants become graph constants."""
        operand = self.operands[index] if index < len(self.operands) else None
        if operand is None:
            raise ModelError(f"input {index} of {self.where} is missing")
        return operand if isinstance(operand, Value) else self.e.const(checked(operand, self.where))

    def optional(self, index: int) -> Value | None:
        return self.value(index) if self.has(index) else None

    def constant(self, index: int) -> Array | None:
        """The contents of an input known at import, else None."""
        operand = self.operands[index] if index < len(self.operands) else None
        return None if operand is None or isinstance(operand, Value) else operand

    def static(self, index: int, what: str) -> Array:
        """The contents of an input that has to be known at import."""
        array = self.constant(index)
        if array is None:
            raise DynamicShapeError(
                f"{what} of {self.where} depends on data, but shapes have to be known when compiling"
            )
        return array

    def ints(self, index: int, what: str) -> tuple[int, ...]:
        return tuple(int(v) for v in self.static(index, what).reshape(-1))

    def shape(self, index: int) -> tuple[int, ...]:
        operand = self.operands[index]
        assert operand is not None
        return operand.type.shape if isinstance(operand, Value) else tuple(operand.shape)

    def attr(self, name: str, default: _T) -> _T:
        """An attribute, or its default. Bytes come back as text, lists as tuples."""
        self.read.add(name)
        found: _T = self.attributes.get(name, default)
        return found

    def refuse_unread(self) -> None:
        """Raise UnsupportedOperatorError for an attribute that the translation has not looked at and that is not at its
        default: a newer operator set may have given the operator a new meaning."""
        unread = {name: value for name, value in self.attributes.items() if name not in self.read | _HARMLESS}
        if not unread:
            return
        operator = (self.node.op_type, self.node.domain)
        # Our own operators are in no operator set.
        attributes = defs.get_schema(*operator).attributes if defs.has(*operator) else {}
        for name, value in unread.items():
            known = attributes.get(name)
            default = known.default_value if known is not None else onnx.AttributeProto()
            if not default.name or _plain(helper.get_attribute_value(default)) != value:
                raise self.unsupported(f"the attribute '{name}'")

    def axis(self, name: str, default: int, rank: int) -> int:
        return self.check_axis(self.attr(name, default), rank)

    def check_axis(self, axis: int, rank: int) -> int:
        if not -rank <= axis < max(rank, 1):
            raise ModelError(f"axis {axis} of {self.where} does not exist in a tensor of rank {rank}")
        return axis % rank if rank else 0

    def unsupported(self, what: str) -> UnsupportedOperatorError:
        """An error saying which use of a known operator is not covered."""
        return UnsupportedOperatorError(f"{self.where}: {what} is not supported")


_HARMLESS = {
    *("kernel_shape", "stash_type", "seed", "saturate", "softmax_precision", "storage_order", "qk_matmul_output_mode"),
    *("noop_with_empty_axes", "keepdims", "num_outputs", "axes", "q_num_heads", "kv_num_heads", "output_padding"),
}
"""Attributes that repeat what the inputs say, concern only precision or memory, or do not apply in the case at hand."""

Converter = Callable[[NodeContext], Sequence[Operand]]

_CONVERTERS: dict[str, Converter] = {}


def converts(*names: str) -> Callable[[Converter], Converter]:
    """Register a function as the translation of these operators: of the default ONNX domain by name, of another one as
    `domain.name`."""

    def register(function: Converter) -> Converter:
        for name in names:
            assert name not in _CONVERTERS, f"two translations of {name}"
            _CONVERTERS[name] = function
        return function

    return register


def find(name: str) -> Converter | None:
    """The translation of an operator, or None."""
    return _CONVERTERS.get(name)


def known() -> tuple[str, ...]:
    """Names of all operators with a translation."""
    return tuple(sorted(_CONVERTERS))


def read_attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Attributes as Python values: text, numbers, tuples, protos."""
    return {attribute.name: _plain(helper.get_attribute_value(attribute)) for attribute in node.attribute}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float):
        # ONNX stores single precision: 1e-5 comes back as 9.999999747e-06, and the shortest text restores it.
        return float(str(np.float32(value)))
    if isinstance(value, list | tuple) or type(value).__name__.startswith("Repeated"):
        return tuple(_plain(item) for item in value)
    return value


def dtype_of(onnx_type: int, where: str) -> DType:
    """Our element type for an ONNX one; UnsupportedOperatorError when we have none."""
    try:
        return DType.of(np.dtype(helper.tensor_dtype_to_np_dtype(onnx_type)))
    except (KeyError, ValueError):
        name = (
            onnx.TensorProto.DataType.Name(onnx_type) if onnx_type in onnx.TensorProto.DataType.values() else onnx_type
        )
        raise UnsupportedOperatorError(f"{where}: the element type {name} is not supported") from None


def checked(array: Array, where: str) -> Array:
    try:
        DType.of(array.dtype)
    except (KeyError, TypeError):
        raise UnsupportedOperatorError(f"{where}: the element type {array.dtype} is not supported") from None
    return array
