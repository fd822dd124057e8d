"""How each operator is written in ONNX: one function for each, in a table.

What is not in the table is expanded, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import helper

from ... import ops
from ...ir import DType, Node, Value
from ...ops.convolution import Geometry
from ...ops.movement import ints
from ...ops.resample import matrix
from .writer import Writer

Names = Sequence[str]
Export = Callable[[Writer, Node, Names], Names]
"""(writer, node, names of its inputs) -> names of its outputs."""

REFUSED = {
    "bernoulli": "a prediction is not random",
    "bitcast": "ONNX reinterprets bits only in operator sets that few runtimes know",
    "conv2d_dw": "it is a gradient, which no prediction needs",
    "dequantize_blocks": "an exported model has the weights in full",
    "max_pool_dx": "it is a gradient, which no prediction needs",
    "avg_pool_dx": "it is a gradient, which no prediction needs",
    **dict.fromkeys(("lgamma", "erfinv"), "it has no such function"),
}
"""Primitives that have no form in ONNX."""

TABLE: dict[str, Export] = {}


def _export(*names: str) -> Callable[[Export], Export]:
    def register(function: Export) -> Export:
        TABLE.update(dict.fromkeys(names, function))
        return function

    return register


def claims(node: Node) -> bool:
    """Whether the node is written as it is; any other composite is expanded."""
    if node.op == "dropout":
        return len(node.inputs) == 1
    if node.op == "batch_norm":
        return not node.attrs["training"]
    return node.op in TABLE


def unsupported(node: Node) -> str | None:
    """Why a node cannot be written, or None."""
    if node.op in ("shift_left", "shift_right") and not node.inputs[0].type.dtype.is_unsigned:
        return "ONNX shifts the bits of unsigned integers only"
    if node.op in ("conv2d", "conv2d_dx") and not node.inputs[0].type.dtype.is_float:
        return "ONNX convolves numbers of floating point only"
    if node.op in TABLE or ops.get(node.op).expand is not None:
        return None
    return REFUSED.get(node.op, "the ONNX export does not know it")


_SIMPLE = {
    **{name: name.capitalize() for name in ("abs", "neg", "exp", "log", "sqrt", "reciprocal", "sin", "cos", "tanh")},
    **{name: name.capitalize() for name in ("erf", "sigmoid", "floor", "ceil", "round", "sign", "atan")},
    **{name: name.capitalize() for name in ("add", "sub", "mul", "div", "pow", "equal", "less", "where")},
    "maximum": "Max",
    "minimum": "Min",
    "less_equal": "LessOrEqual",
    "logical_not": "Not",
    "logical_and": "And",
    "logical_or": "Or",
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
    "bitwise_not": "BitwiseNot",
}


@_export(*_SIMPLE)
def _simple(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op(_SIMPLE[node.op], *inputs)]


def _dtype(node: Node) -> DType:
    return node.inputs[0].type.dtype


def _axis(node: Node) -> int:
    return int(node.attrs["axis"])


@_export("rsqrt")
def _rsqrt(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("Reciprocal", w.op("Sqrt", *inputs))]


@_export("expm1")
def _expm1(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("Sub", w.op("Exp", *inputs), w.const(1.0, _dtype(node)))]


@_export("log1p")
def _log1p(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("Log", w.op("Add", *inputs, w.const(1.0, _dtype(node))))]


@_export("mod")
def _mod(w: Writer, node: Node, inputs: Names) -> Names:
    """The sign is the divisor's, which ONNX has for integers only."""
    if not _dtype(node).is_float:
        return [w.op("Mod", *inputs)]
    x, y = inputs
    return [w.op("Sub", x, w.op("Mul", w.op("Floor", w.op("Div", x, y)), y))]


@_export("shift_left", "shift_right")
def _shift(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("BitShift", *inputs, direction=node.op.removeprefix("shift_").upper())]


@_export("clip")
def _clip(w: Writer, node: Node, inputs: Names) -> Names:
    low, high, dtype = float(node.attrs["lo"]), float(node.attrs["hi"]), _dtype(node)
    if dtype.is_float and (low, high) == (0.0, float("inf")):
        return [w.op("Relu", *inputs)]
    bits = 8 * dtype.nbytes - (not dtype.is_unsigned)
    limit = float("inf") if dtype.is_float else 2.0**bits - 1
    bounds = [w.const(bound, dtype) if abs(bound) < limit else "" for bound in (low, high)]
    return [w.op("Clip", *inputs, *bounds)]


@_export("cast")
def _cast(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("Cast", *inputs, to=helper.np_dtype_to_tensor_dtype(DType(node.attrs["to"]).numpy))]


@_export("reduce_sum", "reduce_max", "reduce_min", "reduce_prod")
def _reduce(w: Writer, node: Node, inputs: Names) -> Names:
    name = "Reduce" + node.op.removeprefix("reduce_").capitalize()
    return [w.op(name, *inputs, w.const(list(ints(node.attrs, "axes"))), keepdims=1, noop_with_empty_axes=1)]


@_export("argmax")
def _argmax(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("ArgMax", *inputs, axis=_axis(node), keepdims=1)]


@_export("top_k")
def _top_k(w: Writer, node: Node, inputs: Names) -> Names:
    attributes = {"axis": _axis(node), "largest": int(node.attrs["largest"]), "sorted": 1}
    return w.multi("TopK", [*inputs, w.const([int(node.attrs["k"])])], 2, **attributes)[1:]


@_export("cumsum")
def _cumsum(w: Writer, node: Node, inputs: Names) -> Names:
    flags = {name: int(node.attrs[name]) for name in ("exclusive", "reverse")}
    return [w.op("CumSum", *inputs, w.const(np.asarray(_axis(node))), **flags)]


@_export("cumprod")
def _cumprod(w: Writer, node: Node, inputs: Names) -> Names:
    """Element by element: ONNX has no such operator that runtimes know."""
    axis, size = _axis(node), node.output.type.shape[_axis(node)]
    parts = w.multi("Split", [*inputs, w.const([1] * size)], size, axis=axis)
    ordered = parts[::-1] if node.attrs["reverse"] else parts
    start = ordered[0]
    if node.attrs["exclusive"]:
        shape = [1 if index == axis else n for index, n in enumerate(node.output.type.shape)]
        start = w.op("Expand", w.const(1, _dtype(node)), w.const(shape))
    results = [start]
    for part in ordered[:-1] if node.attrs["exclusive"] else ordered[1:]:
        results.append(w.op("Mul", results[-1], part))
    return [w.op("Concat", *(results[::-1] if node.attrs["reverse"] else results), axis=axis)]


@_export("reshape")
def _reshape(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.reshape(inputs[0], node.output.type.shape)]


@_export("transpose")
def _transpose(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("Transpose", *inputs, perm=list(ints(node.attrs, "perm")))]


@_export("broadcast_to")
def _broadcast_to(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("Expand", *inputs, w.const(list(node.output.type.shape)))]


@_export("slice")
def _slice(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.slice(inputs[0], *(ints(node.attrs, key) for key in ("starts", "stops", "steps")))]


@_export("split")
def _split(w: Writer, node: Node, inputs: Names) -> Names:
    axis = _axis(node)
    sizes = [value.type.shape[axis] for value in node.outputs]
    return w.multi("Split", [*inputs, w.const(sizes)], len(sizes), axis=axis)


@_export("concat")
def _concat(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("Concat", *inputs, axis=_axis(node))]


@_export("pad")
def _pad(w: Writer, node: Node, inputs: Names) -> Names:
    """Zeros between elements come from padding an axis of size 1 that stands behind each element."""
    (x,), shape, dtype, value = inputs, list(node.inputs[0].type.shape), _dtype(node), node.attrs["value"]
    for axis, gap in enumerate(ints(node.attrs, "interior")):
        if gap and shape[axis]:
            apart = [*shape[: axis + 1], 1, *shape[axis + 1 :]]
            behind = [gap if index == axis + 1 else 0 for index in range(len(apart))]
            x = w.pad(w.reshape(x, apart), [0] * len(apart), behind, value, dtype)
            shape[axis] *= gap + 1
            x = w.reshape(x, shape)
            shape[axis] -= gap
            x = w.slice(x, [0] * len(shape), shape, [1] * len(shape))
    return [w.pad(x, ints(node.attrs, "low"), ints(node.attrs, "high"), value, dtype)]


@_export("gather")
def _gather(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("Gather", *inputs, axis=_axis(node))]


def _scatter(w: Writer, x: str, indices: tuple[str, Value], updates: tuple[str, Value], axis: int, how: str) -> str:
    """Slices of `updates` written along an axis: each element gets the index of its slice."""
    name, count, full = indices[0], indices[1].type.size, updates[1].type.shape
    shape = [*full[:axis], count, *full[axis + indices[1].type.rank :]]
    column = w.reshape(name, [count if index == axis else 1 for index in range(len(shape))])
    places = w.op("Expand", column, w.const(shape))
    return w.op("ScatterElements", x, places, w.reshape(updates[0], shape), axis=axis, reduction=how)


@_export("scatter_add")
def _scatter_add(w: Writer, node: Node, inputs: Names) -> Names:
    (updates, indices), axis = node.inputs, _axis(node)
    zeros = w.op("Expand", w.const(0.0, _dtype(node)), w.const(list(node.output.type.shape)))
    return [_scatter(w, zeros, (inputs[1], indices), (inputs[0], updates), axis, "add")]


@_export("scatter_set", "scatter_reduce")
def _scatter_into(w: Writer, node: Node, inputs: Names) -> Names:
    _, indices, updates = node.inputs
    how = str(node.attrs.get("reduction", "none"))
    return [_scatter(w, inputs[0], (inputs[1], indices), (inputs[2], updates), _axis(node), how)]


@_export("matmul")
def _matmul(w: Writer, node: Node, inputs: Names) -> Names:
    turned, rank = [bool(node.attrs[key]) for key in ("trans_a", "trans_b")], node.output.type.rank
    if any(turned) and rank == 2 and _dtype(node).is_float:
        return [w.op("Gemm", *inputs, transA=int(turned[0]), transB=int(turned[1]))]
    perm = [*range(rank - 2), rank - 1, rank - 2]
    sides = [w.transpose(x, perm) if turn else x for x, turn in zip(inputs, turned, strict=True)]
    return [w.op("MatMul", *sides)]


@_export("resample")
def _resample(w: Writer, node: Node, inputs: Names) -> Names:
    """The product with its matrix of weights, along the last axis."""
    axis, rank = _axis(node), node.output.type.rank
    perm = [*(index for index in range(rank) if index != axis), axis]
    weights = w.const(matrix(node.attrs).T.toarray().astype(_dtype(node).numpy))
    return [w.transpose(w.op("MatMul", w.transpose(inputs[0], perm), weights), [int(i) for i in np.argsort(perm)])]


_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def _channels_first(w: Writer, node: Node, x: str, compute: Callable[[str], str]) -> Names:
    """Compute on images whose channels are axis 1, as ONNX has them."""
    if node.attrs["layout"] == "NCHW":
        return [compute(x)]
    return [w.transpose(compute(w.transpose(x, _TO_NCHW)), _TO_NHWC)]


@_export("conv2d")
def _conv2d(w: Writer, node: Node, inputs: Names) -> Names:
    g = Geometry.of(node.attrs)
    geometry = {"strides": g.stride, "pads": g.pad, "dilations": g.dilation, "group": g.groups}
    return _channels_first(w, node, inputs[0], lambda x: w.op("Conv", x, inputs[1], **geometry))


@_export("conv2d_dx")
def _conv2d_dx(w: Writer, node: Node, inputs: Names) -> Names:
    """A transposed convolution. What the given size has beyond the reach of the windows is cut less below and to the
    right, or filled with zeros."""
    g, size = Geometry.of(node.attrs), ints(node.attrs, "size")
    given, kernel = g.nchw(node.inputs[0].type.shape)[2:], node.inputs[1].type.shape[2:]
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(given, g.stride, kernel, g.dilation, strict=True)]
    after = [r - before - n for r, before, n in zip(reach, g.pad[:2], size, strict=True)]
    pads = [*g.pad[:2], *(max(0, cut) for cut in after)]
    geometry = {"strides": g.stride, "pads": pads, "dilations": g.dilation, "group": g.groups}
    missing = [0, 0, *(max(0, -cut) for cut in after)]

    def compute(x: str) -> str:
        return w.pad(w.op("ConvTranspose", x, inputs[1], **geometry), [0] * 4, missing, 0.0, _dtype(node))

    return _channels_first(w, node, inputs[0], compute)


@_export("max_pool", "avg_pool")
def _pool(w: Writer, node: Node, inputs: Names) -> Names:
    attrs = node.attrs
    geometry = {"kernel_shape": ints(attrs, "kernel"), "strides": ints(attrs, "stride"), "pads": ints(attrs, "pad")}
    if "dilation" in attrs:
        geometry["dilations"] = ints(attrs, "dilation")
    counted = {} if node.op == "max_pool" else {"count_include_pad": int(attrs["count_include_pad"])}
    name = "MaxPool" if node.op == "max_pool" else "AveragePool"
    return _channels_first(w, node, inputs[0], lambda x: w.op(name, x, **geometry, **counted))


@_export("softmax", "log_softmax")
def _softmax(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("Softmax" if node.op == "softmax" else "LogSoftmax", *inputs, axis=_axis(node))]


@_export("layer_norm")
def _layer_norm(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("LayerNormalization", *inputs, axis=_axis(node), epsilon=float(node.attrs["epsilon"]))]


@_export("batch_norm")
def _batch_norm(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("BatchNormalization", *inputs, epsilon=float(node.attrs["epsilon"]))]


@_export("gelu")
def _gelu(w: Writer, node: Node, inputs: Names) -> Names:
    return [w.op("Gelu", *inputs, approximate=str(node.attrs["approximate"]))]


@_export("dropout")
def _dropout(w: Writer, node: Node, inputs: Names) -> Names:
    """Inactive, as the model has it: whoever trains the exported model can turn it on. ONNX drops no whole channels."""
    if "mask" in node.attrs:
        return [w.op("Identity", *inputs)]
    return [w.op("Dropout", *inputs, w.const(float(node.attrs["p"]), DType.F32))]
