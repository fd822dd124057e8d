"""Small valid ONNX files to damage: between them they use most ways a file can say something."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.compiler.frontends.onnx_models import model

F32, I64 = np.float32, np.int64


def _weights(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * 0.4).astype(F32)


def _ints(*values: int) -> np.ndarray:
    return np.asarray(values, I64)


def mlp() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["h"], name="fc", transB=1, alpha=0.5),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Dropout", ["r"], ["d"], name="dropout"),
        helper.make_node("MatMul", ["d", "head.weight"], ["m"], name="head"),
        helper.make_node("Softmax", ["m"], ["y"], name="softmax", axis=-1),
    ]
    tensors = {"fc.weight": _weights(6, 4), "fc.bias": _weights(6), "head.weight": _weights(6, 3)}
    return model(nodes, {"x": (F32, ["batch", 4])}, ["y"], tensors)


def convolution() -> onnx.ModelProto:
    norm = ["norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]
    nodes = [
        helper.make_node(
            "Conv", ["x", "conv.weight", "conv.bias"], ["c"], name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1],
            strides=[2, 1], dilations=[1, 1], group=2,
        ),
        helper.make_node("BatchNormalization", ["c", *norm], ["n"], name="norm", epsilon=1e-3),
        helper.make_node("Clip", ["n", "low", "high"], ["k"], name="clip"),
        helper.make_node("MaxPool", ["k"], ["p"], name="pool", kernel_shape=[2, 2], strides=[1, 1], ceil_mode=1),
        helper.make_node("GlobalAveragePool", ["p"], ["g"], name="mean"),
        helper.make_node("Flatten", ["g"], ["y"], name="flat", axis=1),
    ]  # fmt: skip
    tensors = {"conv.weight": _weights(6, 2, 3, 3), "conv.bias": _weights(6), **{name: _weights(6) for name in norm}}
    tensors["norm.running_var"] = np.abs(tensors["norm.running_var"]) + F32(0.5)
    tensors |= {"low": np.asarray(0, F32), "high": np.asarray(6, F32)}
    return model(nodes, {"x": (F32, [2, 4, 6, 5])}, ["y"], tensors)


def upsampling() -> onnx.ModelProto:
    nodes = [
        helper.make_node("ConvTranspose", ["x", "up.weight"], ["u"], name="up", strides=[2, 2], output_padding=[1, 0]),
        helper.make_node("Resize", ["u", "", "scales"], ["r"], name="resize", mode="linear"),
        helper.make_node("AveragePool", ["r"], ["a"], name="pool", kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
        helper.make_node("Pad", ["a", "pads", "fill"], ["y"], name="pad", mode="constant"),
    ]
    tensors = {
        "up.weight": _weights(2, 3, 3, 3),
        "scales": np.asarray([1, 1, 1.5, 2], F32),
        "pads": _ints(0, 0, 1, 0, 0, 0, 0, 2),
        "fill": np.asarray(0.5, F32),
    }
    return model(nodes, {"x": (F32, [2, 2, 3, 4])}, ["y"], tensors)


def attention() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gather", ["embed.weight", "ids"], ["e"], name="embed", axis=0),
        helper.make_node("LayerNormalization", ["e", "norm.weight", "norm.bias"], ["n"], name="norm", axis=-1),
        helper.make_node("MatMul", ["n", "query.weight"], ["q"], name="query"),
        helper.make_node("Transpose", ["n"], ["t"], name="transpose", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "t"], ["s"], name="scores"),
        helper.make_node("Softmax", ["s"], ["w"], name="weights", axis=2),
        helper.make_node("MatMul", ["w", "n"], ["m"], name="mix"),
        helper.make_node("Gelu", ["m"], ["g"], name="gelu"),
        helper.make_node("ReduceMean", ["g", "axes"], ["y"], name="mean", keepdims=0),
    ]
    tensors = {
        "embed.weight": _weights(9, 4),
        "norm.weight": np.ones(4, F32),
        "norm.bias": _weights(4),
        "query.weight": _weights(4, 4),
        "axes": _ints(1),
    }
    return model(nodes, {"ids": (I64, [2, 5])}, ["y"], tensors)


def recurrent() -> onnx.ModelProto:
    nodes = [
        helper.make_node("LSTM", ["x", "lstm.w", "lstm.r", "lstm.b"], ["h", "last"], name="lstm", hidden_size=3),
        helper.make_node("Squeeze", ["h", "one"], ["s"], name="squeeze"),
        helper.make_node("GRU", ["s", "gru.w", "gru.r"], ["", "y"], name="gru", hidden_size=2, direction="reverse"),
    ]
    tensors = {"lstm.w": _weights(1, 12, 4), "lstm.r": _weights(1, 12, 3), "lstm.b": _weights(1, 24)}
    tensors |= {"gru.w": _weights(1, 6, 3), "gru.r": _weights(1, 6, 2), "one": _ints(1)}
    return model(nodes, {"x": (F32, [2, 3, 4])}, ["y", "last"], tensors)


def shapes() -> onnx.ModelProto:
    """Shape arithmetic that folds away."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], name="shape"),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], name="batch", axis=0),
        helper.make_node("Unsqueeze", ["batch", "zero1"], ["batch1"], name="unsqueeze"),
        helper.make_node("Concat", ["batch1", "rest"], ["wanted"], name="concat", axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["r"], name="reshape"),
        helper.make_node("Slice", ["r", "starts", "ends", "axes", "steps"], ["s"], name="slice"),
        helper.make_node("Expand", ["s", "wide"], ["e"], name="expand"),
        helper.make_node("Tile", ["e", "repeats"], ["t"], name="tile"),
        helper.make_node("Mul", ["t", "scale.weight"], ["y"], name="scale"),
    ]
    tensors = {
        "zero": np.asarray(0, I64),
        "zero1": _ints(0),
        "rest": _ints(-1, 2),
        "starts": _ints(0, -1),
        "ends": _ints(2**40, -(2**40)),
        "axes": _ints(1, 2),
        "steps": _ints(2, -1),
        "wide": _ints(2, 1, 1, 2),
        "repeats": _ints(1, 2, 1, 1),
        "scale.weight": _weights(2),
    }
    return model(nodes, {"x": (F32, ["batch", 3, 4])}, ["y"], tensors)


def ordering() -> onnx.ModelProto:
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["values", "places"], name="top", axis=1),
        helper.make_node("Cast", ["places"], ["f"], name="cast", to=1),
        helper.make_node("CumSum", ["values", "axis"], ["c"], name="cumsum", exclusive=1),
        helper.make_node("ArgMax", ["x"], ["best"], name="argmax", axis=1, keepdims=0),
        helper.make_node("OneHot", ["best", "depth", "pair"], ["hot"], name="onehot"),
        helper.make_node("ReduceSum", ["hot"], ["total"], name="sum", keepdims=1),
        helper.make_node("Add", ["c", "f"], ["a"], name="add"),
        helper.make_node("Div", ["a", "total"], ["y"], name="div"),
    ]
    tensors = {
        "k": _ints(3),
        "axis": np.asarray(1, I64),
        "depth": np.asarray(5, I64),
        "pair": np.asarray([0, 1], F32),
    }
    return model(nodes, {"x": (F32, [2, 5])}, ["y"], tensors)


def choosing() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Greater", ["x", "limit"], ["above"], name="above"),
        helper.make_node("Where", ["above", "x", "other.weight"], ["w"], name="where"),
        helper.make_node("Split", ["w", "sizes"], ["a", "b"], name="split", axis=1),
        helper.make_node("Mod", ["n", "three"], ["m"], name="mod"),
        helper.make_node("Div", ["m", "two"], ["d"], name="halve"),
        helper.make_node("Cast", ["d"], ["mf"], name="cast", to=1),
        helper.make_node("Einsum", ["a", "b"], ["e"], name="einsum", equation="bi,bj->bij"),
        helper.make_node("Pow", ["e", "exponent"], ["p"], name="pow"),
        helper.make_node("ScatterND", ["p", "places", "updates"], ["s"], name="scatter"),
        helper.make_node("Add", ["s", "mf"], ["y"], name="add"),
    ]
    tensors = {
        "limit": np.asarray(0.1, F32),
        "other.weight": _weights(2, 5),
        "sizes": _ints(2, 3),
        "three": np.asarray(3, I64),
        "two": np.asarray(2, I64),
        "exponent": np.asarray(2, F32),
        "places": np.asarray([[0], [1]], I64),
        "updates": _weights(2, 2, 3),
    }
    return model(nodes, {"x": (F32, [2, 5]), "n": (I64, [2, 1, 1])}, ["y"], tensors)


def controlled() -> onnx.ModelProto:
    """A branch on a known condition, a loop of known length, and a function of the file's own."""
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["t"])], "then", [], [onnx.ValueInfoProto(name="t")])
    other = helper.make_graph([helper.make_node("Exp", ["x"], ["f"])], "else", [], [onnx.ValueInfoProto(name="f")])
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["state", "scale.weight"], ["next"]),
            helper.make_node("Identity", ["go"], ["going"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", 7, []),
            helper.make_tensor_value_info("go", 9, []),
            helper.make_tensor_value_info("state", 1, [2, 3]),
        ],
        [helper.make_tensor_value_info("going", 9, []), helper.make_tensor_value_info("next", 1, [2, 3])],
    )
    nodes = [
        helper.make_node("If", ["condition"], ["branch"], name="if", then_branch=then, else_branch=other),
        helper.make_node("Loop", ["count", "condition", "branch"], ["looped"], name="loop", body=body),
        helper.make_node("Twice", ["looped"], ["y"], name="twice", domain="own"),
    ]
    tensors = {"condition": np.asarray(True), "count": np.asarray(3, I64), "scale.weight": _weights(3)}
    proto = model(nodes, {"x": (F32, [2, 3])}, ["y"], tensors)
    inner = helper.make_node("Add", ["a", "a"], ["b"], name="add")
    proto.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], [inner], proto.opset_import))
    proto.opset_import.append(helper.make_opsetid("own", 1))
    return proto


def sequences() -> onnx.ModelProto:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "two"], ["parts"], name="split", axis=1),
        helper.make_node("SequenceAt", ["parts", "one"], ["second"], name="at"),
        helper.make_node("ConcatFromSequence", ["parts"], ["whole"], name="join", axis=1),
        helper.make_node("MatMul", ["whole", "fc.weight"], ["h"], name="fc"),
        helper.make_node("Add", ["h", "second"], ["y"], name="add"),
    ]
    tensors = {"two": np.asarray(2, I64), "one": np.asarray(1, I64), "fc.weight": _weights(4, 2)}
    return model(nodes, {"x": (F32, [2, 4])}, ["y"], tensors)


def half() -> onnx.ModelProto:
    """Several element types, constants of several forms, an old opset, typed fields instead of raw bytes."""
    nodes = [
        helper.make_node("Constant", [], ["c"], name="c", value_floats=[0.5, -0.25]),
        helper.make_node("Constant", [], ["t"], name="t", value=helper.make_tensor("t", 10, [2], [1.0, 2.0])),
        helper.make_node("Cast", ["t"], ["tf"], name="cast", to=1),
        helper.make_node("Add", ["x", "c"], ["a"], name="add"),
        helper.make_node("Mul", ["a", "tf"], ["m"], name="mul"),
        helper.make_node("BitShift", ["u", "one"], ["v"], name="shift", direction="LEFT"),
        helper.make_node("Cast", ["v"], ["vf"], name="back", to=1),
        helper.make_node("Sub", ["m", "vf"], ["y"], name="sub"),
    ]
    proto = model(nodes, {"x": (F32, [2, 2]), "u": (np.uint8, [2, 1])}, ["y"], {}, opset=13)
    proto.graph.initializer.append(helper.make_tensor("one", 2, [], [1]))
    return proto


def exported() -> onnx.ModelProto:
    """What PyTorch writes for a small network."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )
    program = torch.onnx.export(network.eval(), (torch.randn(2, 1, 5, 5),), dynamo=True, verbose=False)
    assert program is not None
    buffer = io.BytesIO()
    onnx.save(program.model_proto, buffer)
    return onnx.load_from_string(buffer.getvalue())


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    maker.__name__: maker
    for maker in (
        *(mlp, convolution, upsampling, attention, recurrent, shapes, ordering, choosing, controlled, sequences),
        *(half, exported),
    )
}


def inputs_of(proto: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Random contents for a file's inputs, dynamic axes 2 long; only for inputs whose type says enough."""
    rng = np.random.default_rng(seed)
    known = {tensor.name for tensor in proto.graph.initializer}
    arrays = {}
    for value in proto.graph.input:
        if value.name in known:
            continue
        tensor = value.type.tensor_type
        shape = [dim.dim_value if dim.HasField("dim_value") else 2 for dim in tensor.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        numbers = rng.integers(0, 4, shape) if dtype.kind in "iub" else rng.uniform(-1.5, 1.5, shape)
        arrays[value.name] = numbers.astype(dtype)
    return arrays


def typed(array: np.ndarray, name: str, raw: bool) -> onnx.TensorProto:
    """A tensor with its contents as raw bytes or in typed fields."""
    if raw or array.dtype.kind not in "fi":
        return numpy_helper.from_array(array, name)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist())
