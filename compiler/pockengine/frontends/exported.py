"""What the exporters of other frameworks have in common: the weights are made inputs of the exported function, so that
each keeps its name and layout, and are put back as initializers here."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping

import onnx

from ..ir import Array
from .onnx_file import OnnxFile


def with_weights(proto: onnx.ModelProto, weights: Mapping[str, tuple[str, Array]]) -> OnnxFile:
    """The exported model with some of its inputs given: input name -> (name of the weight, its contents)."""
    graph = proto.graph
    inputs = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)
    names = {given: name for given, (name, _) in weights.items()}
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = names.get(name, name)
    for output in graph.output:
        if output.name in names:
            graph.node.append(onnx.helper.make_node("Identity", [names[output.name]], [output.name]))
    own = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    return OnnxFile(proto, {**own, **dict(weights.values())})


def first_line(error: BaseException) -> str:
    """One line of the innermost cause: the first, or the last where the first only announces."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return (lines[-1] if lines[0].endswith(":") else lines[0]).strip().rstrip(".")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """An exporter's chatter says nothing to our user; its errors arrive as exceptions."""
    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)
