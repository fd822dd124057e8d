"""Writes ONNX nodes one by one: names, constants, and the few shapes that several operators need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...ir import Array, DType


class Writer:
    """Collects nodes and constants. Tensors are known by their names in the ONNX model."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.origin = ""
        self._names = set(reserved)
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def fresh(self, hint: str) -> str:
        """A name that no other tensor and no other node has."""
        name, count = hint, 1
        while not name or name in self._names:
            count += 1
            name = f"{hint}_{count}"
        self._names.add(name)
        return name

    def multi(self, op: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Append a node; the names of its outputs."""
        name = self.fresh(f"{self.origin or op}/{op}")
        results = [self.fresh(f"{name}:{index}") for index in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, results, name=name, **attributes))
        return results

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output; its name."""
        return self.multi(op, inputs, 1, **attributes)[0]

    def const(self, array: Array | Sequence[int] | float, dtype: DType | None = None) -> str:
        """The name of a constant; equal contents are one. Numbers without a dtype are integers of 64 bits.

        It is a node of its own: importers take initializers of floating point for parameters."""
        contents = np.asarray(array, dtype.numpy if dtype else None if isinstance(array, np.ndarray) else np.int64)
        key = (contents.dtype.name, contents.shape, contents.tobytes())
        if key not in self._known:
            name = self._known[key] = self.fresh("const")
            tensor = numpy_helper.from_array(np.asarray(contents, order="C"), name)
            self.nodes.append(helper.make_node("Constant", [], [name], name=f"{name}/Constant", value=tensor))
        return self._known[key]

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        return x if list(perm) == list(range(len(perm))) else self.op("Transpose", x, perm=list(perm))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self.op("Reshape", x, self.const(list(shape)), allowzero=1)

    def pad(self, x: str, low: Sequence[int], high: Sequence[int], value: float, dtype: DType) -> str:
        if not any((*low, *high)):
            return x
        return self.op("Pad", x, self.const([*low, *high]), self.const(value, dtype))

    def slice(self, x: str, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]) -> str:
        axes = self.const(list(range(len(starts))))
        return self.op("Slice", x, self.const(list(starts)), self.const(list(stops)), axes, self.const(list(steps)))
