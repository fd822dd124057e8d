"""Constant folding at import: nodes whose inputs are all known are evaluated at once.

Folds shape arithmetic and masks, never a parameter, so nothing trained is renamed or lost. An operator's own
translation says what it means; operators and element types that we do not translate are evaluated by ONNX's reference
implementation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from ...errors import ModelError, PockError
from ...interp import evaluate
from ...ir import Array, Builder, Value
from ...ops import Emitter
from ..operators import Converter, NodeContext

_RANDOM = {
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
    "Random",
}
MALFORMED = (ArithmeticError, AssertionError, LookupError, StopIteration, TypeError, ValueError)
"""What translations raise for nodes that no operator set knows: attributes of another type, too few inputs."""
_LARGE = 1 << 16
"""Broadcasts with more elements than this stay nodes of the graph instead of becoming stored tensors."""


def can_fold(node: onnx.NodeProto, inputs: Sequence[Array | None]) -> bool:
    """Whether a node with these known inputs is to be evaluated now."""
    if node.op_type in _RANDOM or any(attribute.HasField("g") for attribute in node.attribute):
        return False
    if node.op_type == "ConstantOfShape" and inputs[0] is not None:
        return math.prod(int(d) for d in inputs[0]) <= _LARGE
    if node.op_type == "Expand" and inputs[0] is not None and inputs[1] is not None:
        return math.prod(np.broadcast_shapes(inputs[0].shape, tuple(int(d) for d in inputs[1]))) <= _LARGE
    return True


def fold(context: NodeContext, converter: Converter | None, opsets: Mapping[str, int]) -> list[Array]:
    """The outputs of a node whose operands are all arrays; ModelError when it cannot be evaluated."""
    if converter is not None:
        try:
            return _by_translation(context, converter)
        except (PockError, *MALFORMED):
            # Our types or a corner of the operator do not reach; the reference implementation decides.
            return _by_reference(context, opsets)
    return _by_reference(context, opsets)


def _by_translation(context: NodeContext, converter: Converter) -> list[Array]:
    builder = Builder("fold")
    scratch = replace(context, e=Emitter(builder))
    results = converter(scratch)
    scratch.refuse_unread()
    for index, result in enumerate(results):
        if isinstance(result, Value):
            builder.outputs[str(index)] = result
    computed = evaluate(builder.finish(), {})
    return [computed[str(index)] if isinstance(r, Value) else r for index, r in enumerate(results)]


def _by_reference(context: NodeContext, opsets: Mapping[str, int]) -> list[Array]:
    from onnx.reference import ReferenceEvaluator  # hundreds of operators, and seldom one is needed

    node = context.node
    feeds = {name: array for name, array in zip(node.input, context.operands, strict=True) if array is not None}
    sources = [helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in feeds]
    results = [helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in node.output if name]
    graph = helper.make_graph([node], "fold", sources, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*item) for item in opsets.items()])
    try:
        with np.errstate(all="ignore"):
            outputs = ReferenceEvaluator(model).run(None, feeds)
    except Exception as error:
        # The reference implementation raises whatever numpy raises; the user needs the node, not its type.
        raise ModelError(f"{context.where} cannot be evaluated: {_first_line(error)}") from error
    found = iter(np.asarray(output) for output in outputs)
    return [next(found) if name else np.zeros(0, np.float32) for name in node.output]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")
