"""A network of residual blocks in stages, as a model file: as many nodes as are asked for, in nested modules."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 10
BATCH = 4
_CHANNELS = 8
_BLOCKS_A_STAGE = 8


def block_network(blocks: int) -> bytes:
    """An ONNX file with six nodes a block."""
    weights: dict[str, np.ndarray] = {}
    nodes: list[onnx.NodeProto] = []
    random = np.random.default_rng(0)

    def add(operator: str, inputs: list[str], name: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    def weight(name: str, *shape: int) -> str:
        weights[name] = (random.standard_normal(shape) * 0.1).astype(np.float32)
        return name

    now = add("Conv", ["image", weight("stem.weight", _CHANNELS, 1, 3, 3)], "stem", pads=[1, 1, 1, 1])
    for number in range(blocks):
        block = f"stages.{number // _BLOCKS_A_STAGE}.blocks.{number % _BLOCKS_A_STAGE}"
        before = now
        now = add("Conv", [now, weight(f"{block}.expand.weight", _CHANNELS, _CHANNELS, 1, 1)], f"{block}.expand")
        now = add("Relu", [now], f"{block}.expand.act")
        deep = weight(f"{block}.depth.weight", _CHANNELS, 1, 3, 3)
        now = add("Conv", [now, deep], f"{block}.depth", group=_CHANNELS, pads=[1, 1, 1, 1])
        now = add("Relu", [now], f"{block}.depth.act")
        now = add("Conv", [now, weight(f"{block}.project.weight", _CHANNELS, _CHANNELS, 1, 1)], f"{block}.project")
        now = add("Add", [now, before], f"{block}.add")
    now = add("GlobalAveragePool", [now], "pool")
    now = add("Flatten", [now], "flat")
    add("Gemm", [now, weight("head.weight", CLASSES, _CHANNELS), weight("head.bias", CLASSES)], "head", transB=1)
    graph = helper.make_graph(
        nodes,
        "blocks",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [BATCH, 1, 8, 8])],
        [helper.make_tensor_value_info("head_out", TensorProto.FLOAT, [BATCH, CLASSES])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString()
