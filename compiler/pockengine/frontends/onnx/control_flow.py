"""Branches and loops, which unroll: a known condition chooses its branch, a known number of iterations is written out.

Sub-graphs become nodes of the graph around them, with names of their own in each iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx
from onnx import helper

from ...errors import ModelError, UnsupportedOperatorError
from ...ir import Array
from .sequences import constant_node

OPERATORS = {"If": 1, "Loop": 2, "Scan": 0}
"""How many of an operator's first inputs have to be known when compiling: conditions, and the number of iterations."""

MOST = 4096
"""Iterations beyond which a loop is refused: its program would be larger than any model."""

_Names = dict[str, str]


class ControlFlow:
    """Writes out control flow.

    constant  name of a tensor -> its contents, None where they are not known at import
    shape     name of a tensor -> its shape"""

    def __init__(self, constant: Callable[[str], Array | None], shape: Callable[[str], Sequence[int]]) -> None:
        self._constant = constant
        self._shape = shape

    def concerns(self, node: onnx.NodeProto) -> bool:
        """Whether the node has sub-graphs that are written out."""
        return node.op_type in OPERATORS and node.domain in ("", "ai.onnx")

    def replacement(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Nodes that compute what the node does. Each has to be imported before the next is asked for: they decide
        how it goes on. Raises UnsupportedOperatorError for a condition or number of iterations that is not known."""
        return {"If": self._branch, "Loop": self._loop, "Scan": self._scan}[node.op_type](node)

    def _branch(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        chosen = "then_branch" if self._known(node, node.input[0], "a condition") else "else_branch"
        nodes, outputs = _instance(_graph(node, chosen), [], _prefix(node))
        yield from nodes
        yield from _renamings(outputs, node.output)

    def _loop(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Inputs: iterations at most, condition, variables. The body gives the next condition, the variables, and what
        each iteration adds to the results."""
        body, variables = _graph(node, "body"), list(node.input[2:])
        most = self._known(node, node.input[0], "a number of iterations") if node.input[0] else None
        goes_on = bool(self._known(node, node.input[1], "a condition")) if node.input[1] else True
        count, collected = 0, [list[str]() for _ in body.output[1 + len(variables) :]]
        while goes_on and (most is None or count < int(most)):
            self._limit(node, count)
            prefix = f"{_prefix(node)}/{count}"
            yield constant_node(f"{prefix}/iteration", np.asarray(count, np.int64))
            yield constant_node(f"{prefix}/condition", np.asarray(True))
            nodes, outputs = _instance(body, [f"{prefix}/iteration", f"{prefix}/condition", *variables], prefix)
            yield from nodes
            goes_on = bool(self._known(node, outputs[0], "a condition"))
            variables, added = outputs[1 : 1 + len(variables)], outputs[1 + len(variables) :]
            for parts, part in zip(collected, added, strict=True):
                parts.append(part)
            count += 1
        yield from _renamings(variables, node.output)
        for parts, name in zip(collected, node.output[len(variables) :], strict=False):
            yield from self._stacked(node, parts, name, 0)

    def _scan(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Inputs: variables, then tensors that are walked along an axis. The body gives the variables and what each
        step adds to the results."""
        given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        body, walked = _graph(node, "body"), int(given["num_scan_inputs"])
        variables, scanned = list(node.input[:-walked]), list(node.input[-walked:])
        results = len(body.output) - len(variables)
        axes, back = (given.get(f"scan_input_{key}", [0] * walked) for key in ("axes", "directions"))
        lengths = {self._shape(name)[axis] for name, axis in zip(scanned, axes, strict=True)}
        if len(lengths) != 1:
            raise ModelError(f"{_where(node)} walks tensors of different lengths {sorted(lengths)}")
        (length,), collected = lengths, [list[str]() for _ in range(results)]
        for step in range(length):
            self._limit(node, step)
            prefix, slices = f"{_prefix(node)}/{step}", []
            for index, (name, axis, reverse) in enumerate(zip(scanned, axes, back, strict=True)):
                place, item = f"{prefix}/place{index}", f"{prefix}/slice{index}"
                yield constant_node(place, np.asarray(length - 1 - step if reverse else step, np.int64))
                yield helper.make_node("Gather", [name, place], [item], axis=axis)
                slices.append(item)
            nodes, outputs = _instance(body, [*variables, *slices], prefix)
            yield from nodes
            variables = outputs[: len(variables)]
            for parts, part in zip(collected, outputs[len(variables) :], strict=True):
                parts.append(part)
        yield from _renamings(variables, node.output)
        axes, back = (given.get(f"scan_output_{key}", [0] * results) for key in ("axes", "directions"))
        for parts, name, axis, reverse in zip(collected, node.output[len(variables) :], axes, back, strict=False):
            yield from self._stacked(node, parts[::-1] if reverse else parts, name, axis)

    def _known(self, node: onnx.NodeProto, name: str, what: str) -> Array:
        contents = self._constant(name)
        if contents is None:
            raise UnsupportedOperatorError(f"{_where(node)}: {what} that depends on data is not supported")
        if contents.size != 1:
            raise ModelError(f"{_where(node)}: {what} is one number, and '{name}' has the shape {list(contents.shape)}")
        return contents.reshape(())

    def _limit(self, node: onnx.NodeProto, count: int) -> None:
        if count >= MOST:
            raise UnsupportedOperatorError(f"{_where(node)}: more than {MOST} iterations are not supported")

    def _stacked(self, node: onnx.NodeProto, parts: list[str], name: str, axis: int) -> Iterator[onnx.NodeProto]:
        """Tensors as one along a new axis."""
        if not name:
            return
        if not parts:
            raise UnsupportedOperatorError(f"{_where(node)}: results of no iteration are not supported")
        yield constant_node(f"{name}/axis", np.asarray([axis], np.int64))
        for part in parts:
            yield helper.make_node("Unsqueeze", [part, f"{name}/axis"], [f"{name}/{part}"])
        yield helper.make_node("Concat", [f"{name}/{part}" for part in parts], [name], axis=axis)


def _where(node: onnx.NodeProto) -> str:
    return f"{node.op_type} (node '{node.name or node.output[0]}')"


def _prefix(node: onnx.NodeProto) -> str:
    return node.name or next(name for name in node.output if name)


def _graph(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    for attribute in node.attribute:
        if attribute.name == name:
            graph: onnx.GraphProto = attribute.g
            return graph
    raise ModelError(f"{_where(node)} has no sub-graph '{name}'")


def _renamings(names: Sequence[str], wanted: Sequence[str]) -> Iterator[onnx.NodeProto]:
    for name, result in zip(names, wanted, strict=False):
        if result:
            yield helper.make_node("Identity", [name], [result])


def _instance(graph: onnx.GraphProto, bound: Sequence[str], prefix: str) -> tuple[list[onnx.NodeProto], list[str]]:
    """A sub-graph's nodes, its own values renamed, its inputs bound to values around it; and its outputs' names."""
    names: _Names = dict(zip((value.name for value in graph.input), bound, strict=True))
    nodes = []
    for tensor in graph.initializer:
        names[tensor.name] = f"{prefix}/{tensor.name}"
        nodes.append(helper.make_node("Constant", [], [names[tensor.name]], value=tensor))
    for node in graph.node:
        names |= {name: f"{prefix}/{name}" for name in node.output if name}
    nodes += [_substituted(node, names, prefix) for node in graph.node]
    return nodes, [names.get(output.name, output.name) for output in graph.output]


def _substituted(node: onnx.NodeProto, names: _Names, prefix: str) -> onnx.NodeProto:
    """A copy that reads and writes other names, in its own sub-graphs too."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = f"{prefix}/{node.name}" if node.name else ""
    for places in (copy.input, copy.output):
        for index, name in enumerate(places):
            places[index] = names.get(name, name)
    for attribute in copy.attribute:
        if attribute.HasField("g"):
            inner = [_substituted(one, names, prefix) for one in attribute.g.node]
            del attribute.g.node[:]
            attribute.g.node.extend(inner)
    return copy
