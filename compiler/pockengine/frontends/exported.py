"""What importers through a framework's own exporter have in common.

JAX and Keras: the weights are made inputs of the exported function, so that each keeps its name and layout, and are put
back as initializers here. What was imported is compared with what the framework computes."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from ..errors import ModelError
from ..interp import evaluate
from ..ir import Array, Graph
from ..ops import get
from .onnx.file import OnnxFile

MOST_OPERATIONS = 1e9
"""Above this many operations of a forward pass nothing is compared unless it is asked for: it would take too long."""

_TOLERANCE, _NARROW_TOLERANCE = 1e-3, 5e-2
"""Of an output, relative to its largest element; the latter where a graph computes in 16 bits."""


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


def operations(graph: Graph) -> int:
    """Floating-point operations of one evaluation, roughly."""
    return sum(
        get(node.op).cost([v.type for v in node.inputs], [v.type for v in node.outputs], node.attrs)
        for node in graph.nodes
    )


def drawn(shape: tuple[int, ...], dtype: str) -> Array:
    """An input on which to compare: normal numbers, or ones and zeros where it holds integers."""
    rng = np.random.default_rng(0)
    floating = np.issubdtype(dtype, np.floating)
    return (rng.standard_normal(shape) if floating else rng.integers(0, 2, shape)).astype(dtype)


def refuse_another_function(
    graph: Graph, inputs: Mapping[str, Array], expected: Mapping[str, Array], framework: str
) -> None:
    """Raise ModelError when the graph's outputs for these inputs are not those that the framework computes."""
    found = evaluate(graph, inputs)
    narrow = any(value.type.dtype.is_float and value.type.dtype.nbytes == 2 for value in graph.values())
    for name, theirs in expected.items():
        ours, theirs = found[name].astype(np.float64), np.asarray(theirs, np.float64)
        scale = float(np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs)))
        if ours.shape != theirs.shape:
            raise ModelError(f"the output '{name}' is {list(ours.shape)}, and {list(theirs.shape)} in {framework}")
        allowed = _NARROW_TOLERANCE if narrow else _TOLERANCE
        if not np.allclose(ours, theirs, rtol=0.0, atol=allowed * scale, equal_nan=True):
            with np.errstate(invalid="ignore"):
                apart = float(np.nanmax(np.abs(ours - theirs)))
            raise ModelError(
                f"what {framework} exports is not what it computes: the output '{name}' is off by {apart:.2g} where "
                f"values are up to {scale:.2g}; import what inference computes, without random numbers and without "
                "statistics of the batch"
            )
