"""Reads an ONNX file: its structure as a protobuf, its weights as views of the memory-mapped file, never copied.

The protobuf library would copy every weight twice, so the wire format is walked once here: initializers' `raw_data` is
left out of what the library parses and remembered by position. Knows nothing of operators.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import helper, numpy_helper

from ...errors import ModelError
from ...ir import Array
from ...tensors import MOST_AXES
from .external import Beside

# Field numbers of onnx.proto, and the wire types of protobuf.
_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_NAME, _TENSOR_RAW_DATA = 7, 5, 8, 9
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Span = tuple[int, int]
"""Start and end of a message in the file."""


@dataclass(frozen=True)
class OnnxFile:
    """A model without its weights, and the weights by initializer name (read-only arrays). `missing`: those whose
    external file is not there and that NaN stands in for."""

    proto: onnx.ModelProto
    tensors: Mapping[str, Array]
    missing: frozenset[str] = frozenset()


def read_onnx(path: Path, need_weights: bool = True) -> OnnxFile:
    """Read and check a file; raises ModelError when it is missing, truncated or not ONNX.

    With `need_weights` false, floating-point tensors whose external file is missing are stood in for by NaN, which
    takes no memory and which no simplification mistakes for a number it knows."""
    if path.is_dir():
        raise ModelError(f"'{path}' is a folder, not an ONNX file")
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if size else memoryview(b"")
    except FileNotFoundError:
        raise ModelError(f"there is no model '{path}'") from None
    except OSError as error:
        raise ModelError(f"cannot read the model '{path}': {error.strerror}") from None
    return _parse(path, content, need_weights)


def parse_onnx(name: str, content: bytes) -> OnnxFile:
    """The same for the bytes of a file that holds everything itself; `name` is for error messages."""
    path = Path(name)
    return _parse(path, memoryview(content), need_weights=True, alone=True)


def _parse(path: Path, content: memoryview, need_weights: bool, alone: bool = False) -> OnnxFile:
    """alone: weights in other files are refused."""
    if not len(content):
        raise ModelError(f"'{path}' is empty")
    raw: dict[str, Span] = {}
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(_without_weights(content, raw))
    except (DecodeError, UnicodeDecodeError, _Malformed):
        raise ModelError(f"'{path}' is not an ONNX model, or it is truncated") from None
    if any(isinstance(text, bytes) for text in _texts(proto.graph)):
        raise ModelError(f"'{path}' is damaged: it holds a name that is not text")
    if not proto.HasField("graph") or not proto.opset_import or not (proto.graph.node or proto.graph.output):
        raise ModelError(f"'{path}' is not an ONNX model: it holds no graph")
    if not all(node.output for graph in _graphs(proto.graph) for node in graph.node):
        raise ModelError(f"'{path}' is damaged: it has a node without results")
    for where, tensor in _inner_tensors(proto):
        if _is_elsewhere(tensor):
            raise ModelError(f"a tensor of {where} in '{path}' lies in another file, which only initializers may")
    tensors, missing, beside = dict[str, Array](), set[str](), Beside(path, need_weights)
    for tensor in proto.graph.initializer:
        if alone and _is_elsewhere(tensor):
            raise ModelError(f"the tensor '{tensor.name}' of '{path}' lies in another file: save it with all its data")
        array = _tensor(path, content, tensor, raw.get(tensor.name), beside)
        if array is None:
            missing.add(tensor.name)
            dtype, shape = _layout(path, tensor)
            array = np.broadcast_to(np.asarray(np.nan, dtype), shape)
        tensors[tensor.name] = array
    return OnnxFile(proto, tensors, frozenset(missing))


def _texts(graph: onnx.GraphProto) -> Iterator[str | bytes]:
    """Every name in a graph and its sub-graphs; the protobuf library gives bytes for what is not valid text."""
    for inner in _graphs(graph):
        yield from (value.name for values in (inner.input, inner.output, inner.initializer) for value in values)
        yield from (dim.dim_param for value in inner.input for dim in value.type.tensor_type.shape.dim)
        for node in inner.node:
            yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
            yield from (attribute.name for attribute in node.attribute)


def from_proto(proto: onnx.ModelProto, weights: Mapping[str, Array] | None = None) -> OnnxFile:
    """The same for a model already in memory; arrays are views of its bytes, but for those in `weights`."""
    given, named = weights or {}, proto.graph.initializer
    return OnnxFile(proto, {t.name: given[t.name] if t.name in given else numpy_helper.to_array(t) for t in named})


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and those inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in _graphs_in(attribute):
                yield from _graphs(inner)


def _graphs_in(attribute: onnx.AttributeProto) -> Sequence[onnx.GraphProto]:
    return (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else []))


def _inner_tensors(proto: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Every tensor of the model that is not one of the main graph's initializers, and what holds it."""
    for sparse in proto.graph.sparse_initializer:
        yield from (("a sparse tensor", part) for part in (sparse.values, sparse.indices))
    yield from _tensors_of(proto.graph.node)
    for function in proto.functions:
        yield from _tensors_of(function.node)
        yield from _tensors_in(function.attribute_proto, f"the function '{function.name}'")


def _tensors_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, onnx.TensorProto]]:
    for node in nodes:
        yield from _tensors_in(node.attribute, f"the node '{node.name or (node.output[0] if node.output else '')}'")


def _tensors_in(attributes: Iterable[onnx.AttributeProto], where: str) -> Iterator[tuple[str, onnx.TensorProto]]:
    for attribute in attributes:
        sparse = (attribute.sparse_tensor, *attribute.sparse_tensors)
        for tensor in (attribute.t, *attribute.tensors, *(part for s in sparse for part in (s.values, s.indices))):
            yield where, tensor
        for graph in _graphs_in(attribute):
            pairs = [part for s in graph.sparse_initializer for part in (s.values, s.indices)]
            yield from ((where, tensor) for tensor in (*graph.initializer, *pairs))
            yield from _tensors_of(graph.node)


def _is_elsewhere(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


class _Malformed(Exception):
    """The bytes are not a protobuf message."""


def _without_weights(content: memoryview, raw: dict[str, Span]) -> bytes:
    """The model's bytes with the `raw_data` of all initializers left out and noted in `raw`."""
    model = bytearray()
    for number, start, end, payload in _fields(content, (0, len(content))):
        if number != _MODEL_GRAPH:
            model += content[start:end]
            continue
        graph = bytearray()
        for inner, inner_start, inner_end, inner_payload in _fields(content, payload):
            if inner == _GRAPH_INITIALIZER:
                _append_message(graph, _GRAPH_INITIALIZER, _tensor_header(content, inner_payload, raw))
            else:
                graph += content[inner_start:inner_end]
        _append_message(model, _MODEL_GRAPH, graph)
    return bytes(model)


def _tensor_header(content: memoryview, span: Span, raw: dict[str, Span]) -> bytes:
    header, name, data = bytearray(), "", None
    for number, start, end, payload in _fields(content, span):
        if number == _TENSOR_RAW_DATA:
            data = payload
            continue
        if number == _TENSOR_NAME:
            name = bytes(content[slice(*payload)]).decode()
        header += content[start:end]
    if data is not None:
        raw[name] = data
    return bytes(header)


def _fields(content: memoryview, span: Span) -> Iterator[tuple[int, int, int, Span]]:
    """(field number, start, end, span of the payload) of each field of a message."""
    position, stop = span
    while position < stop:
        start = position
        key, position = _varint(content, position, stop)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise _Malformed
        begin = position
        if wire == _VARINT:
            _, position = _varint(content, position, stop)
        elif wire == _BYTES:
            length, begin = _varint(content, position, stop)
            position = begin + length
        elif wire in (_FIXED64, _FIXED32):
            position += 8 if wire == _FIXED64 else 4
        else:
            raise _Malformed
        if position > stop:
            raise _Malformed
        yield number, start, position, (begin, position)


def _varint(content: memoryview, position: int, stop: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 70, 7):
        if position >= stop:
            raise _Malformed
        byte = content[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
    raise _Malformed


def _append_message(buffer: bytearray, number: int, message: bytes | bytearray) -> None:
    for value in (number << 3 | _BYTES, len(message)):
        while value >= 0x80:
            buffer.append(value & 0x7F | 0x80)
            value >>= 7
        buffer.append(value)
    buffer += message


def _tensor(
    path: Path, content: memoryview, tensor: onnx.TensorProto, raw: Span | None, beside: Beside
) -> Array | None:
    """The contents of one initializer: a view of the file, of a file beside it, or (typed fields) a small copy. None
    where a file beside it is missing and need not be there."""
    dtype, shape = _layout(path, tensor)
    if _is_elsewhere(tensor):
        return beside.tensor(tensor, dtype, shape)
    if raw is None:
        return _typed(path, tensor)
    data, expected = content[slice(*raw)], math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise ModelError(f"'{path}' is damaged: the tensor '{tensor.name}' has {len(data)} bytes instead of {expected}")
    return np.frombuffer(data, dtype).reshape(shape)


def _typed(path: Path, tensor: onnx.TensorProto) -> Array:
    """Contents that are not stored as bytes."""
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (TypeError, ValueError):
        raise ModelError(
            f"'{path}' is damaged: the contents of the tensor '{tensor.name}' do not fill {list(tensor.dims)}"
        ) from None


def _layout(path: Path, tensor: onnx.TensorProto) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
    if tensor.data_type in (onnx.TensorProto.UINT4, onnx.TensorProto.INT4, onnx.TensorProto.STRING):
        name = onnx.TensorProto.DataType.Name(tensor.data_type)
        raise ModelError(f"the tensor '{tensor.name}' in '{path}' has the element type {name}, which is not supported")
    try:
        dtype, shape = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)), tuple(tensor.dims)
    except (KeyError, ValueError):
        raise ModelError(f"the tensor '{tensor.name}' in '{path}' has no valid element type") from None
    # numpy refuses sizes beyond 63 bits also where one of them is 0.
    if len(shape) > MOST_AXES or min(shape, default=0) < 0 or math.prod(filter(None, shape)) * dtype.itemsize >= 2**63:
        raise ModelError(f"'{path}' is damaged: the tensor '{tensor.name}' has the shape {str(list(shape))[:80]}")
    return dtype, shape
