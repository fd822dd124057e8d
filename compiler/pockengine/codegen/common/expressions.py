"""Elementwise ops as C expressions, and the part of a region's body that is computed for one index."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...ir import Array, DType, Graph, Node, Value
from .source import SUPPORTED, Code, c_type, integer_range, literal

_F = {
    "neg": "-{0}",
    "reciprocal": "1.0f / {0}",
    "rsqrt": "1.0f / __builtin_sqrtf({0})",
    "sqrt": "__builtin_sqrtf({0})",
    "abs": "__builtin_fabsf({0})",
    "floor": "__builtin_floorf({0})",
    "ceil": "__builtin_ceilf({0})",
    "round": "__builtin_rintf({0})",
    "sign": "(float)(({0} > 0.0f) - ({0} < 0.0f))",
    "div": "{0} / {1}",
    "maximum": "(({0} > {1}) | ({0} != {0})) ? {0} : {1}",
    "minimum": "(({0} < {1}) | ({0} != {0})) ? {0} : {1}",
    "exp": "pock_exp({0})",
    "log": "pock_log({0})",
    "tanh": "pock_tanh({0})",
    "sigmoid": "pock_sigmoid({0})",
    "erf": "pock_erf({0})",
    "sin": "pock_sine({0}, 0)",
    "cos": "pock_sine({0}, 1)",
    "pow": "pock_pow({0}, {1})",
    "mod": "pock_mod({0}, {1})",
    "atan": "pock_atan({0})",
    "expm1": "pock_expm1({0})",
    "log1p": "pock_log1p({0})",
}
_DOUBLE = ("exp", "log", "tanh", "erf", "sin", "cos", "atan", "expm1", "log1p")
_D = {
    **{name: text.replace("f(", "(").replace("0f", "0").replace("(float)", "(double)") for name, text in _F.items()},
    **{name: f"__builtin_{name}({{0}})" for name in _DOUBLE},
    "sigmoid": "1.0 / (1.0 + __builtin_exp(-{0}))",
    "pow": "__builtin_pow({0}, {1})",
    "mod": "pock_dmod({0}, {1})",
}
_I = {
    "neg": "-{0}",
    "abs": "{0} < 0 ? -{0} : {0}",
    "floor": "{0}",
    "ceil": "{0}",
    "round": "{0}",
    "sign": "({0} > 0) - ({0} < 0)",
    "div": "{0} / ({1} == 0 ? 1 : {1})",
    "maximum": "{0} > {1} ? {0} : {1}",
    "minimum": "{0} < {1} ? {0} : {1}",
    "mod": "pock_imod({0}, {1})",
    "pow": "pock_ipow({0}, {1})",
    "bitwise_not": "~{0}",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
    "shift_left": "(uint64_t){1} < {bits} ? (uint64_t){0} << {1} : 0",
    "shift_right": "(uint64_t){1} < {bits} ? {0} >> {1} : {0} < 0 ? -1 : 0",
}
_U = _I | {
    "abs": "{0}",
    "sign": "{0} > 0",
    "mod": "{0} % ({1} == 0 ? 1 : {1})",
    "shift_right": "(uint64_t){1} < {bits} ? {0} >> {1} : 0",
}
_ANY = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "equal": "{0} == {1}",
    "logical_and": "({0} != 0) & ({1} != 0)",
    "logical_or": "({0} != 0) | ({1} != 0)",
    "logical_not": "{0} == 0",
    "where": "{0} ? {1} : {2}",
    "broadcast_to": "{0}",
}
_CALL = re.compile(r"\bpock_(\w+)\(")


def _table(dtype: DType) -> Mapping[str, str]:
    if dtype.is_float:
        return _F if dtype is DType.F32 else _D
    return _U if dtype.is_unsigned else _I


def unsupported(node: Node) -> str | None:
    """Why an elementwise node has no expression, or None."""
    for value in (*node.inputs, *node.outputs):
        if value.type.dtype not in SUPPORTED:
            return f"the C backend does not compute with {value.type.dtype.value}"
    if node.op in _ANY or node.op in ("cast", "clip", "bitcast") or node.op in _table(node.inputs[0].type.dtype):
        return None
    return f"the C backend has no {node.op} of {node.inputs[0].type.dtype.value}"


@dataclass
class Body:
    """A region's body while it is written as C: variable of each value, and the functions it called so far."""

    graph: Graph
    names: dict[Value, str] = field(default_factory=dict)
    needs: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for value, contents in self.graph.consts.items():
            self.names[value] = literal(np.asarray(contents).item(), value.type.dtype)

    def compute(self, code: Code, nodes: Iterable[Node]) -> None:
        """Write one `const` statement per node; operands must have names."""
        for node in nodes:
            name = f"v{len(self.names)}"
            code.line(f"const {c_type(node.output.type.dtype)} {name} = {self.expression(node)};")
            self.names[node.output] = name

    def expression(self, node: Node) -> str:
        """The C expression of one node."""
        dtype = node.inputs[0].type.dtype
        arguments = [self.names[value] for value in node.inputs]
        constants = [self._constant(value) for value in node.inputs]
        power = _power(arguments[0], constants[1], dtype) if node.op == "pow" else None
        if power is not None:
            return power
        if node.op == "bitcast":
            return f"((union {{ {c_type(dtype)} from; {c_type(node.output.type.dtype)} to; }}){{{arguments[0]}}}).to"
        if node.op == "cast":
            return _cast(arguments[0], dtype, node.output.type.dtype)
        if node.op == "clip":
            return _clip(arguments[0], dtype, float(node.attrs["lo"]), float(node.attrs["hi"]))
        if node.op in ("maximum", "minimum") and dtype.is_float:
            return _extremum(node.op, arguments, constants, dtype)
        text = _ANY.get(node.op) or _table(dtype)[node.op]
        self.needs.update(_CALL.findall(text))
        return text.format(*(f"({a})" if a.startswith("-") else a for a in arguments), bits=8 * dtype.nbytes)

    def _constant(self, value: Value) -> float | None:
        contents: Array | None = self.graph.consts.get(value)
        return None if contents is None else float(np.asarray(contents).item())


def _cast(argument: str, source: DType, to: DType) -> str:
    if DType.BIT in (source, to):
        return argument
    if to is DType.BOOL:
        return f"{argument} != 0"
    return argument if source is to else f"({c_type(to)}){argument}"


def _clip(x: str, dtype: DType, low: float, high: float) -> str:
    """NaN passes through: both comparisons are false."""
    if not dtype.is_float:
        least, greatest = integer_range(dtype)
        low = -np.inf if low <= least else math.ceil(low)
        high = np.inf if high >= greatest else math.floor(high)
    text = x if high == np.inf else f"({x} > {literal(high, dtype)} ? {literal(high, dtype)} : {x})"
    return text if low == -np.inf else f"{x} < {literal(low, dtype)} ? {literal(low, dtype)} : {text}"


def _extremum(op: str, arguments: Sequence[str], constants: Sequence[float | None], dtype: DType) -> str:
    """NaN wins, as in numpy; against a constant one comparison is enough."""
    sign = "<" if op == "maximum" else ">"
    for index in (0, 1):
        constant = constants[index]
        if constant is not None and not np.isnan(constant):
            other = arguments[1 - index]
            return f"{other} {sign} {arguments[index]} ? {arguments[index]} : {other}"
    return _table(dtype)[op].format(*arguments)


def _power(x: str, exponent: float | None, dtype: DType) -> str | None:
    """Common constant exponents without the general function."""
    one, root = ("1.0f", "__builtin_sqrtf") if dtype is DType.F32 else ("1.0", "__builtin_sqrt")
    exact = {1.0: x, 2.0: f"{x} * {x}", 3.0: f"{x} * {x} * {x}", -1.0: f"{one} / {x}", 0.5: f"{root}({x})"}
    return exact.get(exponent) if exponent is not None and dtype.is_float else None


def needed(outputs: Iterable[Value], graph: Graph, stop: Iterable[Value] = ()) -> list[Node]:
    """The nodes of a body, in order, that `outputs` depend on without going beyond `stop`."""
    wanted, ends = set(outputs), set(stop)
    found = []
    for node in reversed(graph.nodes):
        if any(value in wanted and value not in ends for value in node.outputs):
            found.append(node)
            wanted.update(node.inputs)
    return found[::-1]
