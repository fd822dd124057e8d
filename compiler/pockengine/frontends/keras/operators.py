"""Operators of TensorFlow that tf2onnx lacks, in others; derivatives in a model are made of the gradients among them.

Imported by `from_keras` only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto


class _Nodes:
    """Makes ONNX nodes in the place of one of TensorFlow; operands are names, or numbers."""

    def __init__(self, context: Any, node: Any) -> None:
        self.context = context
        self.shape, self.type = node.output_shapes[0], node.output_dtypes[0]

    def __call__(self, operator: str, *operands: str | float, to: int | None = None, **more: Any) -> str:
        names = [x if isinstance(x, str) else self._number(x) for x in operands]
        types = [self.type if to is None else to]
        attributes = {} if to is None or to == TensorProto.BOOL else {"to": to}
        made = self.context.make_node(operator, names, attr=attributes, shapes=[self.shape], dtypes=types, **more)
        return str(made.output[0])

    def _number(self, value: float) -> str:
        from tf2onnx import utils

        contents = np.array(value, utils.map_onnx_to_numpy_type(self.type))
        return str(self.context.make_const(utils.make_name("number"), contents).output[0])


_Expression = Callable[..., str]


def _elu_slope(n: _Nodes, dy: str, y: str) -> str:
    return n("Mul", dy, n("Add", n("Min", y, 0.0), 1.0))


def _relu_slope(n: _Nodes, dy: str, x: str) -> str:
    positive = n("Greater", x, 0.0, to=TensorProto.BOOL)
    return n("Mul", dy, n("Cast", positive, to=n.type))


def _selu_slope(n: _Nodes, dy: str, y: str) -> str:
    negative = n("Greater", 0.0, y, to=TensorProto.BOOL)
    slope = n("Where", negative, n("Add", y, _SELU_SCALE * _SELU_ALPHA), _SELU_SCALE)
    return n("Mul", dy, slope)


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

_EXPRESSIONS: dict[str, _Expression] = {
    "Erfc": lambda n, x: n("Sub", 1.0, n("Erf", x)),
    "Expm1": lambda n, x: n("Sub", n("Exp", x), 1.0),
    "EluGrad": _elu_slope,
    "InvGrad": lambda n, y, dy: n("Neg", n("Mul", dy, n("Mul", y, y))),
    "ReciprocalGrad": lambda n, y, dy: n("Neg", n("Mul", dy, n("Mul", y, y))),
    "ReluGrad": _relu_slope,
    "RsqrtGrad": lambda n, y, dy: n("Mul", n("Mul", dy, -0.5), n("Mul", y, n("Mul", y, y))),
    "SeluGrad": _selu_slope,
    "SigmoidGrad": lambda n, y, dy: n("Mul", dy, n("Mul", y, n("Sub", 1.0, y))),
    "SoftplusGrad": lambda n, dy, x: n("Mul", dy, n("Sigmoid", x)),
    "SqrtGrad": lambda n, y, dy: n("Div", n("Mul", dy, 0.5), y),
    "TanhGrad": lambda n, y, dy: n("Mul", dy, n("Sub", 1.0, n("Mul", y, y))),
}
"""Operator -> what it computes of its operands, in TensorFlow's order: (y, dy) or (dy, x)."""


def _written_out(expression: _Expression) -> Any:
    def handler(context: Any, node: Any, name: str, args: Any) -> None:
        result = expression(_Nodes(context, node), *node.input)
        output = node.output[0]
        context.remove_node(node.name)
        context.replace_all_inputs(output, result)

    return handler, []


HANDLERS: dict[str, Any] = {operator: _written_out(expression) for operator, expression in _EXPRESSIONS.items()}
"""How tf2onnx is to convert them."""
