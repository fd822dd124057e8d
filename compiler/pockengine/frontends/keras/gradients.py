"""What a Keras model says of its gradients, on its way through TensorFlow's graphs and tf2onnx, which forgets it.
Operators of the domain `pock` say it:

    StopGradient     `tf.stop_gradient`, `keras.ops.stop_gradient`
    StraightThrough  the value of a function that gives itself a gradient by a rule (`tf.custom_gradient`,
                     `keras.ops.custom_gradient`), and a surrogate that has this gradient

A rule that is linear maps x and a gradient g to J(x)ᵀ g. The surrogate is J(stop(x)) x: the derivative of the rule with
respect to g, at x.

Imported by `from_keras` only: it needs TensorFlow and tf2onnx."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import custom_gradient

from ...errors import PockError, UnsupportedOperatorError
from ..exported import first_line
from ..onnx.importer import OWN_DOMAIN

_IN_GRAPHS = custom_gradient._graph_mode_decorator
"""What `tf.custom_gradient` does while a graph is traced."""
_MARK = "pock_straight_through"
"""Scope of a NextAfter that stands for a value and its surrogate: TensorFlow's optimiser keeps it."""
_DERIVATIVES = {
    (custom_gradient.__name__, "recompute_grad.<locals>.inner"),
    ("tensorflow.python.ops.nn_impl", "swish.<locals>.swish_impl"),
}
"""Functions of TensorFlow whose rule is their derivative, computed with less memory."""
_RANDOM = (
    *("Multinomial", "ParameterizedTruncatedNormal", "Random", "StatefulRandom", "StatefulStandardNormal"),
    *("StatefulTruncatedNormal", "StatefulUniform", "StatelessMultinomial", "StatelessParameterized"),
    *("StatelessRandom", "StatelessShuffle", "StatelessTruncatedNormal", "TruncatedNormal"),
)
_QUANTISED = ("FakeQuant", "QuantizeAndDequantize")
"""How the names of operators begin."""
_SCALES = (1e-4, 1.0, 1e4)
"""Of the gradients on which rules are tried: a clipped one is linear for small ones."""
_TOLERANCE = 1e-3


def traced(function: Any, signature: Sequence[Any]) -> Any:
    """A `tf.function`, traced for its signature with the surrogates of functions that have rules.

    Raises UnsupportedOperatorError for a rule that has none, and for what would compute or train another model once
    TensorFlow and tf2onnx have forgotten it."""
    refused: list[PockError] = []

    def in_graphs(function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
        try:
            return _with_surrogates(function, args)
        except Exception as error:
            refused.append(error if isinstance(error, PockError) else _refusal(function, first_line(error)))
            raise

    try:
        with mock.patch.object(custom_gradient, "_graph_mode_decorator", in_graphs):
            graph = function.get_concrete_function(*signature).graph
    except Exception:
        if refused:
            raise refused[0] from None  # in words of its own, without those of all layers around it
        raise
    for name, operator, rule in _operators(graph):
        if operator.startswith(_RANDOM):
            raise UnsupportedOperatorError(
                f"the model draws random numbers ('{operator}' at '{name}'), but what is trained is what inference "
                "computes: draw none unless training=True, or make them an input"
            )
        if operator.startswith(_QUANTISED):
            raise UnsupportedOperatorError(
                f"the model imitates quantisation ('{operator}' at '{name}'), whose gradient is lost in ONNX: import "
                "the model without it, or write it with keras.ops and stop_gradient"
            )
        if rule and _MARK not in name:
            raise UnsupportedOperatorError(
                f"the model uses custom_gradient in a tf.function that has been traced before (at '{name}'): take "
                "tf.function away from it"
            )
    return function


def _operators(graph: Any) -> Iterator[tuple[str, str, bool]]:
    """(name, type, whether it has a rule of its own) of all that the graph's outputs depend on, and of all functions
    that are called anywhere."""
    waiting, seen = [x.op for x in graph.outputs], set()
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        yield op.name, op.type, "_gradient_op_type" in op.node_def.attr
        waiting += [*(x.op for x in op.inputs), *op.control_inputs]
    for function in graph.as_graph_def().library.function:
        for node in function.node_def:
            yield node.name, node.op, "_gradient_op_type" in node.attr


def _with_surrogates(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The results of a function with a rule, each with its surrogate."""
    if (function.__module__, function.__qualname__) in _DERIVATIVES:
        return function(*args)[0]
    graph = tf.compat.v1.get_default_graph()
    leaves = [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(args)]
    before = set(graph.get_operations())
    held = [tf.stop_gradient(leaf) for leaf in leaves]
    result, rule = function(*tf.nest.pack_sequence_as(args, held))
    values = [tf.convert_to_tensor(value) for value in tf.nest.flatten(result)]
    arriving = [tf.zeros_like(value) for value in values]
    leaving = tf.nest.flatten(rule(*arriving))
    floats = [(slope, leaf) for slope, leaf in zip(leaving, leaves, strict=True) if slope is not None]
    made = set(graph.get_operations()) - before - {x.op for x in held}
    _require_arguments_alone(function, made, held)
    _require_linear(function, graph, held, arriving, [slope for slope, _ in floats])
    towards = [tf.cast(leaf, slope.dtype) for slope, leaf in floats]
    surrogates = tf.gradients([slope for slope, _ in floats], arriving, grad_ys=towards) if floats else [None]
    marked = [value if s is None else _straight_through(value, s) for value, s in zip(values, surrogates, strict=True)]
    return tf.nest.pack_sequence_as(result, marked)


def _straight_through(value: Any, surrogate: Any) -> Any:
    def carried(value: Any, surrogate: Any) -> Any:
        return tf.raw_ops.NextAfter(x1=value, x2=surrogate), lambda slope: (None, slope)

    with tf.name_scope(_MARK):
        return _IN_GRAPHS(carried, (value, surrogate), {})


def _require_arguments_alone(function: Callable[..., Any], made: set[Any], held: Sequence[Any]) -> None:
    """Refuse a function of which an operator reads what is no argument: its rule says nothing of gradients of that."""
    own = made | {x.op for x in held}
    for op in made:
        foreign = [op.name] if op.type == "Placeholder" else []
        foreign += [x.name for x in op.inputs if x.op not in own and x.op.type != "Const"]
        if foreign:
            raise _refusal(function, f"it reads '{foreign[0]}', which is no argument of it")


def _require_linear(
    function: Callable[..., Any], graph: Any, held: Sequence[Any], arriving: Sequence[Any], leaving: Sequence[Any]
) -> None:
    """Refuse a rule that is not linear in the gradient that arrives, as it shows at random points."""
    rng = np.random.default_rng(0)
    names = [x.name for x in arriving]
    with tf.compat.v1.Session(graph=graph) as session:

        def at(slopes: Sequence[Any]) -> Any:
            return session.run(leaving, {**point, **dict(zip(names, slopes, strict=True))})

        for scale in _SCALES:
            point = {x.name: _drawn(rng, x, 1.0) for x in held}
            one, other = ([_drawn(rng, x, scale) for x in arriving] for _ in range(2))
            sums = at([a + b for a, b in zip(one, other, strict=True)])
            for both, a, b in zip(sums, at(one), at(other), strict=True):
                if np.any(np.abs(both - a - b) > _TOLERANCE * (np.abs(a) + np.abs(b) + scale)):
                    raise _refusal(function, "its rule is not linear in the gradient that arrives")


def _drawn(rng: np.random.Generator, tensor: Any, scale: float) -> Any:
    if not tensor.dtype.is_floating:
        return np.zeros(tensor.shape, tensor.dtype.as_numpy_dtype)
    return (scale * rng.standard_normal(tensor.shape)).astype(tensor.dtype.as_numpy_dtype)


def _refusal(function: Callable[..., Any], reason: str) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(
        f"the function '{function.__qualname__}' of '{function.__module__}' gives itself a gradient by custom_gradient "
        f"that cannot be imported ({reason}): write a rule that is linear in the gradient that arrives, of a function "
        "of its arguments alone, or none"
    )


def _stop_gradient(context: Any, node: Any, name: str, args: Any) -> None:
    _replaced(context, node, "StopGradient", list(node.input))


def _marked(context: Any, node: Any, name: str, args: Any) -> None:
    """Any other NextAfter is left to be refused."""
    if _MARK in name:
        _replaced(context, node, "StraightThrough", list(node.input))


def _replaced(context: Any, node: Any, operator: str, operands: list[str]) -> None:
    """By a node of our own domain, without attributes."""
    outputs, shapes, types = list(node.output), node.output_shapes, node.output_dtypes
    context.remove_node(node.name)
    context.make_node(
        operator, operands, name=node.name, domain=OWN_DOMAIN, outputs=outputs, shapes=shapes, dtypes=types
    )


GRADIENTS: dict[str, Any] = {"NextAfter": (_marked, []), "StopGradient": (_stop_gradient, [])}
"""How tf2onnx is to convert the operators that say it."""
