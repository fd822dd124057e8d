"""What a node computes, as a text without names: equal texts are the same computation on the same shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir import Node, Value
from .region import as_region, body_of


def identity(node: Node) -> str:
    """A region's body; a bare node counts as a region of its own."""
    body = body_of(as_region(node))
    number: dict[Value, str] = {}
    lines = []
    for prefix, values in (("in", body.inputs), ("const", body.consts)):
        for index, value in enumerate(values):
            number[value] = f"{prefix}{index}"
            contents = f" = {body.consts[value].tolist()!r}" if value in body.consts else ""
            lines.append(f"{number[value]}: {value.type}{contents}")
    for inner in body.nodes:
        lines.append(_line(inner, number))
    lines.append("return " + ", ".join(number[value] for value in body.outputs.values()))
    return "\n".join(lines)


def _line(node: Node, number: dict[Value, str]) -> str:
    read = ", ".join(number[value] for value in node.inputs)
    for value in node.outputs:
        number[value] = f"v{len(number)}"
    made = ", ".join(f"{number[value]}: {value.type}" for value in node.outputs)
    return f"{made} = {node.op}({read}) {attributes(node.attrs)}"


def attributes(attrs: Mapping[str, Any]) -> str:
    """Equal texts are equal attributes."""
    return str({key: _plain(attrs[key]) for key in sorted(attrs)})


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
