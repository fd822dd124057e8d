"""Elementwise ops as expressions of a dialect, and the part of a region's body that is computed for one index."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...ir import Array, DType, Graph, Node, Value
from .dialect import Dialect, integer_range
from .lines import Lines

COPIES = frozenset(("gather", "scatter_set"))
"""Operators that copy what indices say, whatever it stands for."""


def unsupported_types(values: Iterable[Value], dialect: Dialect) -> str | None:
    """A reason when a value has an element type that the dialect does not compute with."""
    for value in values:
        if value.type.dtype not in dialect.elements:
            return f"the {dialect.name} backend does not compute with {value.type.dtype.value}"
    return None


def only_stored(node: Node, dialect: Dialect) -> str | None:
    """A reason when a node computes with a type that the dialect only reads or writes: casts are all it can do."""
    casts = node.op == "cast"
    for value in node.outputs if casts else (*node.inputs, *node.outputs):
        if value.type.dtype in dialect.widened and not (casts and value.type.dtype in dialect.narrowed):
            does = "reads and writes" if value.type.dtype in dialect.narrowed else "reads"
            return f"the {dialect.name} backend only {does} {value.type.dtype.value}, and does not compute with it"
    return None


def unsupported(node: Node, dialect: Dialect) -> str | None:
    """Why an elementwise node has no expression, or None."""
    reason = unsupported_types((*node.inputs, *node.outputs), dialect) or only_stored(node, dialect)
    dtype = node.inputs[0].type.dtype
    if reason or node.op in ("cast", "clip", "bitcast") or node.op in dialect.elements[dtype].operators:
        return reason
    return f"the {dialect.name} backend has no {node.op} of {dtype.value}"


@dataclass
class Body:
    """A region's body while it is written: variable of each value, and the functions it called so far."""

    dialect: Dialect
    graph: Graph
    names: dict[Value, str] = field(default_factory=dict)
    needs: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for value, contents in self.graph.consts.items():
            self.names[value] = self.dialect.literal(np.asarray(contents).item(), value.type.dtype)

    def compute(self, code: Lines, nodes: Iterable[Node]) -> None:
        """Write one `const` statement per node; operands must have names."""
        for node in nodes:
            name = f"v{len(self.names)}"
            code.line(f"const {self.dialect.type(node.output.type.dtype)} {name} = {self.expression(node)};")
            self.names[node.output] = name

    def expression(self, node: Node) -> str:
        """The expression of one node."""
        dtype, dialect = node.inputs[0].type.dtype, self.dialect
        arguments = [self.names[value] for value in node.inputs]
        constants = [self._constant(value) for value in node.inputs]
        operators = dialect.elements[dtype].operators
        if node.op == "pow" and (power := _power(arguments[0], constants[1], dtype, operators)) is not None:
            return power
        if node.op == "bitcast":
            to = dialect.type(node.output.type.dtype)
            return dialect.bitcast.format(arguments[0], source=dialect.type(dtype), to=to)
        if node.op == "cast":
            text = _cast(arguments[0], dtype, node.output.type.dtype, dialect)
            self.needs.update(dialect.called(text))
            return text
        if node.op == "clip":
            return _clip(arguments[0], dtype, (float(node.attrs["lo"]), float(node.attrs["hi"])), dialect)
        text = operators[node.op]
        if node.op in ("maximum", "minimum") and dtype.is_float:
            return _extremum(node.op, arguments, constants) or text.format(*arguments)
        self.needs.update(dialect.called(text))
        return text.format(*(f"({a})" if a.startswith("-") else a for a in arguments))

    def _constant(self, value: Value) -> float | None:
        contents: Array | None = self.graph.consts.get(value)
        return None if contents is None else float(np.asarray(contents).item())


def _cast(argument: str, source: DType, to: DType, dialect: Dialect) -> str:
    if DType.BIT in (source, to):
        return argument
    if source in dialect.widened:
        argument, source = f"({dialect.widened[source].format(argument)})", DType.F32
    if to in dialect.narrowed:
        return dialect.narrowed[to].format(_cast(argument, source, DType.F32, dialect))
    if to is DType.BOOL:
        return f"{argument} != 0"
    return argument if source is to else f"({dialect.type(to)}){argument}"


def _clip(x: str, dtype: DType, bounds: tuple[float, float], dialect: Dialect) -> str:
    """NaN passes through: both comparisons are false."""
    low, high = bounds
    if not dtype.is_float:
        least, greatest = integer_range(dtype)
        low = -np.inf if low <= least else math.ceil(low)
        high = np.inf if high >= greatest else math.floor(high)
    highest = dialect.literal(high, dtype) if high != np.inf else ""
    lowest = dialect.literal(low, dtype) if low != -np.inf else ""
    text = f"({x} > {highest} ? {highest} : {x})" if highest else x
    return f"{x} < {lowest} ? {lowest} : {text}" if lowest else text


def _extremum(op: str, arguments: Sequence[str], constants: Sequence[float | None]) -> str | None:
    """Against a constant one comparison is enough for NaN to win, as in numpy; None where neither is one."""
    sign = "<" if op == "maximum" else ">"
    for index in (0, 1):
        constant = constants[index]
        if constant is not None and not np.isnan(constant):
            other = arguments[1 - index]
            return f"{other} {sign} {arguments[index]} ? {arguments[index]} : {other}"
    return None


def _power(x: str, exponent: float | None, dtype: DType, operators: Mapping[str, str]) -> str | None:
    """Common constant exponents without the general function."""
    if exponent is None or not dtype.is_float:
        return None
    inverse, root = (operators[op].format(x) for op in ("reciprocal", "sqrt"))
    return {1.0: x, 2.0: f"{x} * {x}", 3.0: f"{x} * {x} * {x}", -1.0: inverse, 0.5: root}.get(exponent)
