"""Small contraction regions as they stand in a planned program."""

from __future__ import annotations

from pockengine import ops
from pockengine.codegen.common.region import as_region
from pockengine.ir import Builder, Graph, Node, Value, parse_type
from pockengine.ops import Emitter
from pockengine.ops.quantised import DEQUANTIZE, BlockFormat, packed_types

DEPTHWISE = {"stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "groups": 32, "layout": "NHWC"}
FILTERED = {"stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, "layout": "NHWC", "winograd": True}
STRIDED = {"stride": (2, 2), "pad": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, "layout": "NHWC", "size": (14, 14)}


def bare(op: str, *shapes: str, **attrs: object) -> Node:
    """A region of one contraction."""
    types = [parse_type(text) for text in shapes]
    inputs = tuple(Value(f"x{i}", type) for i, type in enumerate(types))
    outputs = tuple(Value(f"y{i}", type) for i, type in enumerate(ops.get(op).infer(types, attrs)))
    return as_region(Node(op, inputs, outputs, attrs, origin=f"layer.{op}"))


def product(m: int = 64, n: int = 128, k: int = 96) -> Node:
    return bare("matmul", f"f32[{m},{k}]", f"f32[{k},{n}]", trans_a=False, trans_b=False)


def relu_product(m: int = 64, n: int = 128, k: int = 96) -> Node:
    """A product with bias and ReLU, which also gives the mask of the ReLU."""
    return _with_relu("matmul", f"f32[{m},{k}]", f"f32[{k},{n}]", f"f32[{n}]", trans_a=False, trans_b=False)


def relu_convolution(pixels: int = 14, channels: int = 32) -> Node:
    """The same of a convolution that minimal filtering may compute."""
    image, weight = f"f32[1,{pixels},{pixels},{channels}]", f"f32[{channels},{channels},3,3]"
    return _with_relu("conv2d", image, weight, f"f32[{channels}]", **FILTERED)


def product_in_blocks(format: BlockFormat, m: int = 33, n: int = 50, k: int = 96) -> Node:
    """x W^T of a weight in blocks of 32, which the region decompresses."""
    builder = Builder("body")
    x, *weight = (
        builder.input(f"in{i}", type)
        for i, type in enumerate((parse_type(f"f32[{m},{k}]"), *packed_types(n, k, format, 32)))
    )
    e = Emitter(builder)
    numbers = e.op(DEQUANTIZE, *weight, format=format.value, block=32, shape=(n, k))
    builder.outputs["y"] = e.op("matmul", x, numbers, trans_a=False, trans_b=True)
    return _region(builder.finish(), "layer.blocks")


def _with_relu(op: str, *shapes: str, **attrs: object) -> Node:
    builder = Builder("body")
    a, b, bias = (builder.input(f"in{i}", parse_type(shape)) for i, shape in enumerate(shapes))
    e = Emitter(builder)
    total = e.add(e.op(op, a, b, **attrs), bias)
    builder.outputs.update(mask=e.less(0.0, total), y=e.maximum(total, 0.0))
    return _region(builder.finish(), "layer.relu")


def _region(body: Graph, origin: str) -> Node:
    inputs = tuple(Value(f"x{i}", value.type) for i, value in enumerate(body.inputs))
    outputs = tuple(Value(f"y{i}", value.type) for i, value in enumerate(body.outputs.values()))
    return Node("region", inputs, outputs, {"kind": "contraction"}, body, "forward", origin)
