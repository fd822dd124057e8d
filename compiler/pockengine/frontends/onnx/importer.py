"""ONNX -> Graph: names kept, shapes made static, shape arithmetic folded, each operator translated by its family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import onnx
from onnx import inliner

from ...errors import DynamicShapeError, ModelError, PockError, UnsupportedOperatorError, nearest
from ...ir import Array, Builder, DType, Graph, TensorType, Value, verify
from ...ops import Emitter
from ..operators import Converter, NodeContext, Operand, find, known, read_attributes
from ..operators.registry import checked, dtype_of
from . import folding, names
from .control_flow import ControlFlow
from .file import OnnxFile, read_onnx
from .functions import function_nodes
from .sequences import Sequences

OLDEST_OPSET = 13
OWN_DOMAIN = "pock"
"""Operators that say a little more than ONNX's of the same name, from `from_torch`."""


def load(
    path: str | Path, dims: Mapping[str, int] | None = None, batch: int | None = None, *, need_weights: bool = True
) -> Graph:
    """Import an ONNX file.

    dims   value of each named dynamic dimension; an unnamed one is called `input:axis`
    batch  value of the first dimension of inputs where it is dynamic and `dims` does not give it
    need_weights  False: the file of external weights may be missing; the graph is then good for questions, not for
                  training

    Raises ModelError, UnsupportedOperatorError or DynamicShapeError."""
    path = Path(path)
    return import_model(read_onnx(path, need_weights), path.stem, dims, batch)


def import_model(
    file: OnnxFile,
    name: str,
    dims: Mapping[str, int] | None = None,
    batch: int | None = None,
    parameters: Iterable[str] | None = None,
) -> Graph:
    """Import a model that has been read. `parameters` says which initializers are parameters; None: decide by name."""
    proto = inlined(file.proto)
    file = names.restore(OnnxFile(proto, file.tensors))
    chosen = set(parameters) if parameters is not None else names.parameters(file)
    return _Importer(file, name, dict(dims or {}), batch, chosen).run()


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its own functions (not ONNX's) replaced by their bodies, after a check of its opset."""
    opset = opsets(proto).get("", OLDEST_OPSET)
    if opset < OLDEST_OPSET:
        raise ModelError(f"the model uses ONNX opset {opset}: export it again with opset {OLDEST_OPSET} or newer")
    if not proto.functions:
        return proto
    try:
        return inliner.inline_local_functions(proto)
    except Exception as error:  # onnx's C++ part has no common class of errors
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ModelError(f"the model's own functions cannot be put in their places: {reason}") from None


def opsets(proto: onnx.ModelProto) -> dict[str, int]:
    """Operator-set versions by domain, the default domain spelt as the empty text."""
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in proto.opset_import}


def needed_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes that the outputs depend on, in order."""
    wanted = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if any(name in wanted for name in node.output if name):
            kept.append(node)
            wanted.update(node.input)
            wanted.update(name for attribute in node.attribute for name in _captured(attribute))
    return kept[::-1]


def _captured(attribute: onnx.AttributeProto) -> Iterable[str]:
    """Names that a node's sub-graphs read from outside (a superset: all names they read)."""
    for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
        for node in graph.node:
            yield from node.input
            for inner in node.attribute:
                yield from _captured(inner)


class _Importer:
    """One import: the builder, and what each ONNX name stands for."""

    def __init__(
        self, file: OnnxFile, name: str, dims: dict[str, int], batch: int | None, parameters: set[str]
    ) -> None:
        self.graph = file.proto.graph
        self.tensors = file.tensors
        self.opsets = opsets(file.proto)
        self.dims = dims
        self.batch = batch
        self.parameters = parameters
        self.builder = Builder(name)
        self.emitter = Emitter(self.builder)
        self.env: dict[str, Operand] = {}
        self.sequences = Sequences(self._contents, self._shape)
        self.control_flow = ControlFlow(self._contents, self._shape)
        self.nodes = needed_nodes(self.graph)

    def run(self) -> Graph:
        self._inputs()
        self._initializers()
        for node in self.nodes:
            self._node(node)
        for output in self.graph.output:
            if output.name not in self.env:
                raise ModelError(f"the output '{output.name}' is computed by no node")
            operand = self.env[output.name]
            where = f"the output '{output.name}'"
            value = operand if isinstance(operand, Value) else self.emitter.const(checked(operand, where))
            self.builder.outputs[output.name] = value
        return verify(self.builder.finish(), "import")

    def _inputs(self) -> None:
        """Graph inputs with static types; initializers that old files repeat as inputs are left out."""
        symbols: set[str] = set()
        for source in self.graph.input:
            if source.name in self.tensors:
                continue
            if not source.type.HasField("tensor_type"):
                raise ModelError(f"the input '{source.name}' is not a tensor")
            tensor = source.type.tensor_type
            if not tensor.HasField("shape"):
                raise DynamicShapeError(f"the input '{source.name}' has no shape: export the model with example inputs")
            shape = tuple(self._dim(source.name, axis, dim, symbols) for axis, dim in enumerate(tensor.shape.dim))
            dtype = dtype_of(tensor.elem_type, f"the input '{source.name}'")
            self.env[source.name] = self.builder.input(source.name, TensorType(dtype, shape))
        for given in self.dims:
            if given not in symbols:
                raise DynamicShapeError(f"the model has no dynamic dimension '{given}'{nearest(given, symbols)}")

    def _dim(self, name: str, axis: int, dim: onnx.TensorShapeProto.Dimension, symbols: set[str]) -> int:
        if dim.HasField("dim_value"):
            if dim.dim_value < 0:
                raise ModelError(f"axis {axis} of the input '{name}' has {dim.dim_value} elements")
            if axis == 0 and self.batch is not None and dim.dim_value != self.batch and not symbols:
                raise ModelError(
                    f"the model was exported for a batch of {dim.dim_value} (input '{name}'), not {self.batch}: "
                    f"say batch {dim.dim_value}, or export it with a dynamic first dimension"
                )
            return dim.dim_value
        symbol = dim.dim_param or f"{name}:{axis}"
        symbols.add(symbol)
        if symbol not in self.dims and axis == 0 and self.batch is not None:
            self.dims[symbol] = self.batch
        if symbol not in self.dims:
            hint = "give it a value with --batch N or" if axis == 0 else "give it a value with"
            raise DynamicShapeError(
                f"dimension {axis} of the input '{name}' is dynamic ('{symbol}'): {hint} --dim {symbol}=VALUE"
            )
        if self.dims[symbol] < 1:
            raise DynamicShapeError(f"the dimension '{symbol}' must be at least 1, not {self.dims[symbol]}")
        return self.dims[symbol]

    def _initializers(self) -> None:
        """Parameters become parameters, everything else (integers, exporters' constants) is known at import."""
        for name, array in self.tensors.items():
            if name not in self.parameters:
                self.env[name] = array
                continue
            type = TensorType(DType.of(array.dtype), tuple(array.shape))
            self.env[name] = self.builder.param(name, type, array)

    def _node(self, node: onnx.NodeProto) -> None:
        for rewriter in (self.sequences, self.control_flow):
            if rewriter.concerns(node):
                self._written_out(node, rewriter)
                return
        where = f"{node.op_type} (node '{node.name or node.output[0]}')"
        operands = tuple(self._operand(name, where) for name in node.input)
        self.builder.origin = node.name or node.output[0]
        opset = self.opsets.get(node.domain, 1)
        default = node.domain in ("", "ai.onnx", OWN_DOMAIN)
        converter = find(node.op_type if default else f"{node.domain}.{node.op_type}")
        context = NodeContext(self.emitter, node, operands, opset, where, read_attributes(node))
        given = [operand for operand in operands if not isinstance(operand, Value)]
        if len(given) == len(operands) and folding.can_fold(node, given):
            results: Sequence[Operand] = folding.fold(context, converter, self.opsets)
        elif converter is not None:
            results = _convert(converter, context)
        else:
            self._function(context)
            return
        for name, result in zip(node.output, results, strict=False):
            if name:
                self.env[name] = result

    def _written_out(self, node: onnx.NodeProto, rewriter: Sequences | ControlFlow) -> None:
        try:
            for inner in rewriter.replacement(node):
                self._node(inner)
        except folding.MALFORMED as error:
            raise ModelError(f"{node.op_type} (node '{node.name or node.output[0]}') is malformed") from error

    def _operand(self, name: str, where: str) -> Operand | None:
        if not name:
            return None
        if name not in self.env:
            raise ModelError(f"{where} reads '{name}', which nothing computes")
        return self.env[name]

    def _contents(self, name: str) -> Array | None:
        operand = self._operand(name, f"a sequence of '{name}'")
        return None if isinstance(operand, Value) else operand

    def _shape(self, name: str) -> tuple[int, ...]:
        operand = self._operand(name, f"a sequence of '{name}'")
        assert operand is not None
        return operand.type.shape if isinstance(operand, Value) else operand.shape

    def _function(self, context: NodeContext) -> None:
        """Import, in place of an operator without a translation, the nodes by which ONNX defines it."""
        types = [_type(operand) for operand in context.operands]
        body = function_nodes(context.node, context.opset, types, self.builder.origin)
        if body is None:
            raise self._unsupported(context.node)
        for inner in body:
            self._node(inner)

    def _unsupported(self, node: onnx.NodeProto) -> UnsupportedOperatorError:
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        hint = "" if node.domain else nearest_operator(node.op_type)
        return UnsupportedOperatorError(
            f"the operator '{operator}' (node '{node.name or node.output[0]}') is not supported{hint}; "
            f"it is needed for {needed_for(self.graph, node)}"
        )


def nearest_operator(name: str) -> str:
    """A hint at a supported operator of a similar name, or nothing: a list of all of them would help nobody."""
    hint = nearest(name, known())
    return hint if "did you mean" in hint else ""


def needed_for(graph: onnx.GraphProto, node: onnx.NodeProto) -> str:
    """`the output 'logits' through MatMul (node 'fc')`: where an unsupported node's results go."""
    reached = set(node.output)
    reader: onnx.NodeProto | None = None
    for other in graph.node:
        if reached.intersection(other.input):
            reader = reader if reader is not None else other
            reached.update(other.output)
    results = [f"'{output.name}'" for output in graph.output if output.name in reached]
    target = f"the output {', '.join(results)}" if len(results) == 1 else f"the outputs {', '.join(results)}"
    if reader is None:
        return target
    return f"{target} through {reader.op_type} (node '{reader.name or reader.output[0]}')"


def _convert(converter: Converter, context: NodeContext) -> Sequence[Operand]:
    """Apply a translation; whatever goes wrong names the node."""
    try:
        results = converter(context)
        context.refuse_unread()
        return results
    except PockError as error:
        if context.where in str(error):
            raise
        raise type(error)(f"{context.where}: {error}") from None
    except folding.MALFORMED as error:
        shapes = ", ".join(str(_type(operand)) for operand in context.operands if operand is not None)
        raise ModelError(f"{context.where} is malformed; its inputs are {shapes}") from error


def _type(operand: Operand | None) -> TensorType | None:
    if operand is None or isinstance(operand, Value):
        return operand.type if operand is not None else None
    return TensorType(DType.of(checked(operand, "a constant").dtype), tuple(operand.shape))
