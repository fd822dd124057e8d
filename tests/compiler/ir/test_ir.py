"""The IR's own laws: the verifier names what is wrong, text loses nothing, constants are shared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from pockengine.ir import Builder, DType, Graph, Node, TensorType, Value, VerifyError, parse, render, verify
from pockengine.ops import Emitter

F32 = TensorType(DType.F32, (2, 3))


def small() -> Graph:
    """y = exp(x) + w, written back to w."""
    builder = Builder("small")
    e = Emitter(builder)
    x, w = builder.input("x", F32), builder.param("w", F32, np.zeros((2, 3), np.float32))
    y = e.add(e.op("exp", x), w)
    builder.outputs, builder.updates = {"y": y}, {w: y}
    return builder.finish()


def _swap(graph: Graph) -> Graph:
    return graph.with_(nodes=graph.nodes[::-1])


def _same_name(graph: Graph) -> Graph:
    return graph.with_(inputs=(*graph.inputs, Value("x", F32)))


def _lost_output(graph: Graph) -> Graph:
    return graph.with_(outputs={"y": Value("elsewhere", F32)})


def _wrong_update(graph: Graph) -> Graph:
    return graph.with_(updates={graph.params[0]: Value("narrow", TensorType(DType.F32, (2,)))}, outputs={})


def _update_of_input(graph: Graph) -> Graph:
    return graph.with_(updates={graph.inputs[0]: graph.outputs["y"]})


def _unknown_phase(graph: Graph) -> Graph:
    return graph.with_(nodes=(dataclasses.replace(graph.nodes[0], phase="sideways"), *graph.nodes[1:]))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_swap, "before it is defined"),
        (_same_name, "two values are named x"),
        (_lost_output, "elsewhere is not defined"),
        (_wrong_update, "narrow is not defined"),
        (_update_of_input, "x is updated but is neither parameter nor state"),
        (_unknown_phase, "unknown phase sideways"),
    ],
)
def test_verify_names_what_is_wrong(spoil: Callable[[Graph], Graph], sentence: str) -> None:
    verify(small())
    with pytest.raises(VerifyError, match=sentence):
        verify(spoil(small()))


def test_text_keeps_odd_names_constants_states_and_bodies() -> None:
    builder = Builder('a "quoted" name')
    e = Emitter(builder)
    x = builder.input('in, "put" %1 : é', TensorType(DType.F32, ()))
    state = builder.state("momentum", TensorType(DType.F32, ()), 0.25)
    builder.state("average", TensorType(DType.F32, ()), builder.param('odd "w"', TensorType(DType.F32, ())))
    y = e.op("clip", e.add(x, e.const(np.asarray(-0.0, np.float32))), lo=float("-inf"), hi=1e-30)
    body = Graph("body", (x,), nodes=(Node("neg", (x,), (Value("n", x.type),)),), outputs={})
    body = body.with_(outputs={"n": body.nodes[0].output})
    region = builder.node("region", [x], [x.type], {"kind": "elementwise"}, body)
    builder.outputs, builder.updates = {"é": y, "r": region[0]}, {state: y}
    graph = verify(builder.finish())
    again = verify(parse(render(graph)))
    assert render(again) == render(graph)
    assert [value.name for value in again.inputs] == [x.name]
    assert list(again.states.values()) == [0.25, *again.params]
    (constant,) = again.consts.values()
    assert np.signbit(constant)
    assert again.nodes[-1].body is not None
    assert again.nodes[-1].body.nodes[0].op == "neg"


@pytest.mark.parametrize("text", ["", "node x", 'graph "g"\n%y = exp(%x)', 'graph "g"\ninput %x : f32[2', "graph g"])
def test_text_that_is_no_graph_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        parse(text)


def test_equal_constants_are_one_value() -> None:
    builder = Builder()
    assert builder.const(1.0, DType.F32) is builder.const(np.asarray(1.0, np.float32))
    assert builder.const(0.0, DType.F32) is not builder.const(-0.0, DType.F32)
    assert builder.const(1.0, DType.F32) is not builder.const(1, DType.I64)
