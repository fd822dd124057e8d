"""One-operator ONNX models for the importer's tests, made with onnx.helper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 23


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[Any, Sequence[int | str | None]]],
    outputs: Sequence[str],
    initializers: Mapping[str, np.ndarray] | None = None,
    opset: int = OPSET,
) -> onnx.ModelProto:
    """`inputs` maps a name to (numpy dtype, shape)."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))
            for name, (dtype, shape) in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (initializers or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def single(
    op: str, arrays: Sequence[np.ndarray | None], constants: Sequence[int] = (), outputs: int = 1, **attrs: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node and what to feed it; the inputs at the positions in `constants` are initializers."""
    names = [f"x{index}" if array is not None else "" for index, array in enumerate(arrays)]
    given = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    fixed = {names[index]: given.pop(names[index]) for index in constants}
    results = [f"y{index}" for index in range(outputs)]
    opset = attrs.pop("opset", OPSET)
    node = helper.make_node(op, names, results, name=f"the_{op}", **attrs)
    inputs = {name: (array.dtype, array.shape) for name, array in given.items()}
    return model([node], inputs, results, fixed, opset), given


def save(proto: onnx.ModelProto, path: Path) -> Path:
    onnx.save(proto, path)
    return path
