"""One step of a reduction, what it starts from, and one step of a scatter, as expressions in C."""

from __future__ import annotations

from ...ir import Node
from ...ops import Combination, combination_of
from .c_dialect import highest, literal, lowest


def identity(node: Node) -> str:
    """What a reduction starts from, as a C literal."""
    dtype = node.output.type.dtype
    match combination_of(node):
        case Combination.SUM:
            return literal(0, dtype)
        case Combination.PRODUCT:
            return literal(1, dtype)
        case Combination.MAXIMUM:
            return lowest(dtype)
        case Combination.MINIMUM:
            return highest(dtype)
    raise AssertionError(f"{node.op} is no reduction")


def combine(node: Node, a: str, b: str) -> str:
    """C expression of one step of a reduction; NaN wins in max and min."""
    how = combination_of(node)
    if how in (Combination.SUM, Combination.PRODUCT):
        return f"{a} {'+' if how is Combination.SUM else '*'} {b}"
    sign = ">" if how is Combination.MAXIMUM else "<"
    if node.output.type.dtype.is_float:
        return f"(({b} {sign} {a}) | ({b} != {b})) ? {b} : {a}"
    return f"{b} {sign} {a} ? {b} : {a}"


def scattered(node: Node, there: str, new: str) -> str:
    """What a scatter leaves where `there` was and `new` arrives; NaN wins, as in numpy."""
    if node.op == "scatter_set":
        return new
    if node.op == "scatter_add" or node.attrs["reduction"] == "mul":
        return f"{there} {'+' if node.op == 'scatter_add' else '*'} {new}"
    sign = ">" if node.attrs["reduction"] == "max" else "<"
    unordered = f" || {new} != {new}" if node.output.type.dtype.is_float else ""
    return f"({new} {sign} {there}{unordered}) ? {new} : {there}"
