"""Lossless text form of a graph: `parse(render(g))` gives the same graph. Parameter contents are not part of it.

graph "net"
input %x : f32[8,4]
param %w : f32[4,2]
state %m : f32[4,2] = 0.0
state %e : f32[4,2] = %w                       starts with the contents of a parameter
const %c : f32[] = "AACAPw=="          little-endian bytes in base64
%y : f32[8,2] = matmul(%x, %w) {"trans_a": false, "trans_b": false} @forward "fc"
%z : f32[8,2] = region(%y) {"kind": "elementwise"} @forward ""
  graph "body"                         a region's body, indented
  ...
output "logits" = %y
update %w = %z
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

import numpy as np

from .graph import Array, Attr, Graph, Node, Value
from .types import parse_type

_PLAIN = re.compile(r"[A-Za-z0-9_.:/\-]+")
_NAME = r'%(?:"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.:/\-]+)'
_TYPED = re.compile(rf"({_NAME}) : (\w+\[[\d,]*\])")
_NODE = re.compile(rf'^(.*?) = (\w+)\(((?:{_NAME}(?:, )?)*)\) (\{{.*\}}) @(\w+) ("(?:[^"\\]|\\.)*")$')


def render(graph: Graph, indent: str = "") -> str:
    """The text of a graph, ending in a newline."""
    return "".join(f"{indent}{line}\n" for line in _lines(graph))


def _lines(graph: Graph) -> Iterator[str]:
    yield f"graph {json.dumps(graph.name)}"
    for value in graph.inputs:
        yield f"input {_typed(value)}"
    for value in graph.params:
        yield f"param {_typed(value)}"
    for value, fill in graph.states.items():
        yield f"state {_typed(value)} = {_name(fill) if isinstance(fill, Value) else json.dumps(fill)}"
    for value, array in graph.consts.items():
        yield f'const {_typed(value)} = "{_encode(array)}"'
    for node in graph.nodes:
        yield _node_line(node)
        if node.body is not None:
            for line in _lines(node.body):
                yield "  " + line
    for name, value in graph.outputs.items():
        yield f"output {json.dumps(name)} = {_name(value)}"
    for target, new in graph.updates.items():
        yield f"update {_name(target)} = {_name(new)}"


def _node_line(node: Node) -> str:
    outputs = ", ".join(_typed(value) for value in node.outputs)
    inputs = ", ".join(_name(value) for value in node.inputs)
    attrs = json.dumps(dict(node.attrs))
    return f"{outputs} = {node.op}({inputs}) {attrs} @{node.phase} {json.dumps(node.origin)}"


def _name(value: Value) -> str:
    return "%" + (value.name if _PLAIN.fullmatch(value.name) else json.dumps(value.name))


def _typed(value: Value) -> str:
    return f"{_name(value)} : {value.type}"


def _encode(array: Array) -> str:
    return base64.b64encode(np.asarray(array, order="C").tobytes()).decode()


def parse(text: str) -> Graph:
    """The graph written by `render`; raises ValueError naming the line that does not fit."""
    graph, rest = _parse_block(text.splitlines(), "")
    if rest:
        raise ValueError(f"unexpected line: {rest[0]!r}")
    return graph


def _parse_block(lines: list[str], indent: str) -> tuple[Graph, list[str]]:
    if not lines or not lines[0].startswith(indent + "graph "):
        raise ValueError(f"expected a line that starts with 'graph', found {lines[:1]!r}")
    values: dict[str, Value] = {}
    inputs: list[Value] = []
    params: list[Value] = []
    states: dict[Value, float | Value] = {}
    consts: dict[Value, Array] = {}
    nodes: list[Node] = []
    outputs: dict[str, Value] = {}
    updates: dict[Value, Value] = {}
    name, lines = json.loads(lines[0][len(indent) + 6 :]), lines[1:]

    def define(text: str) -> Value:
        match = _TYPED.fullmatch(text)
        if not match:
            raise ValueError(f"not a typed value: {text!r}")
        value = Value(_unquote(match[1]), parse_type(match[2]))
        values[value.name] = value
        return value

    while lines and lines[0].startswith(indent) and not lines[0].startswith(indent + " "):
        line, lines = lines[0][len(indent) :], lines[1:]
        keyword, _, rest = line.partition(" ")
        if keyword == "graph":
            lines.insert(0, indent + line)
            break
        if keyword == "input":
            inputs.append(define(rest))
        elif keyword == "param":
            params.append(define(rest))
        elif keyword == "state":
            left, _, fill = rest.rpartition(" = ")
            states[define(left)] = values[_unquote(fill)] if fill.startswith("%") else float(json.loads(fill))
        elif keyword == "const":
            left, _, encoded = rest.rpartition(" = ")
            value = define(left)
            raw = np.frombuffer(base64.b64decode(json.loads(encoded)), value.type.dtype.numpy)
            consts[value] = raw.reshape(value.type.shape)
        elif keyword == "output":
            left, _, right = rest.rpartition(" = ")
            outputs[json.loads(left)] = values[_unquote(right)]
        elif keyword == "update":
            left, _, right = rest.rpartition(" = ")
            updates[values[_unquote(left)]] = values[_unquote(right)]
        else:
            match = _NODE.match(line)
            if not match:
                raise ValueError(f"not a node: {line!r}")
            read = tuple(values[_unquote(found)] for found in re.findall(_NAME, match[3]))
            written = tuple(define(found.group(0)) for found in _TYPED.finditer(match[1] + " "))
            body = None
            if lines and lines[0].startswith(indent + "  graph "):
                body, lines = _parse_block(lines, indent + "  ")
            attrs = {key: _attr(value) for key, value in json.loads(match[4]).items()}
            nodes.append(Node(match[2], read, written, attrs, body, match[5], json.loads(match[6])))
    graph = Graph(name, tuple(inputs), tuple(params), states, consts, tuple(nodes), outputs, updates)
    return graph, lines


def _unquote(name: str) -> str:
    body = name[1:]
    return str(json.loads(body)) if body.startswith('"') else body


def _attr(value: object) -> Attr:
    if isinstance(value, list):
        return tuple(value)
    assert isinstance(value, int | float | str)
    return value
