"""Graphs that are damaged on purpose, in one place each: verification finds what is wrong with the graph, and the
comparison of steps what only changes the meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from pockengine import interp
from pockengine.autodiff import train_graph
from pockengine.ir import DType, Graph, Node, TensorType, Value, VerifyError
from pockengine.ops import is_view
from pockengine.passes import ALGEBRA, SHAPING, Context, Form
from pockengine.passes.verify import verify, verify_forms
from pockengine.recipe import ALL, Recipe, Scheme
from tests.compiler.passes.networks import batch, cnn, optimised, transformer

STAGES = ("import", *dict.fromkeys(one.name for one in ALGEBRA + SHAPING))
NETWORKS = {"cnn": cnn, "transformer": transformer}


@cache
def graphs(network: str) -> Mapping[str, Graph]:
    """The training graph after each pass; of a pass that runs several times, after the last."""
    model = NETWORKS[network]()
    scheme = Scheme({value.name: ALL for value in model.params if "running" not in value.name})
    graph = train_graph(model, Recipe(optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.9}), scheme)
    found = {"import": graph}
    for one in ALGEBRA + SHAPING:
        graph = optimised(graph, (), (one,))
        found[one.name] = graph
    return found


def exchanged(graph: Graph, old: Node, *new: Node) -> Graph:
    return graph.with_(nodes=tuple(made for node in graph.nodes for made in (new if node is old else (node,))))


def middle(graph: Graph) -> Node:
    """A node in the middle that has users and operands that nodes make."""
    made, users = graph.producers(), graph.users()
    fitting = [
        node
        for node in graph.nodes
        if node.body is None
        and not is_view(node)
        and users[node.outputs[0]]
        and node.inputs[0] in made
        and node.outputs[0].type.dtype is DType.F32
    ] or [node for node in graph.nodes if users[node.outputs[0]] and any(value in made for value in node.inputs)]
    return fitting[len(fitting) // 2]


def retyped(graph: Graph, change: Callable[[TensorType], TensorType]) -> Graph:
    """The result of one node has another type, wherever it is read."""
    node = middle(graph)
    old = node.outputs[0]
    new = Value(old.name, change(old.type))

    def with_new(one: Node) -> Node:
        outputs = tuple(new if value is old else value for value in one.outputs)
        return dataclasses.replace(one, inputs=tuple(new if v is old else v for v in one.inputs), outputs=outputs)

    outputs = {name: new if value is old else value for name, value in graph.outputs.items()}
    return graph.with_(nodes=tuple(map(with_new, graph.nodes)), outputs=outputs)


def changed(graph: Graph, **fields: Any) -> Graph:
    """One node with fields replaced."""
    return exchanged(graph, middle(graph), dataclasses.replace(middle(graph), **fields))


def of_another_type(graph: Graph) -> Graph:
    node = middle(graph)
    other = Value("stray", TensorType(DType.F32, (13, 17)))
    inputs = (other, *node.inputs[1:])
    return exchanged(graph, node, dataclasses.replace(node, inputs=inputs)).with_(inputs=(*graph.inputs, other))


def swapped(graph: Graph) -> Graph:
    node, made = middle(graph), graph.producers()
    maker = next(made[value] for value in node.inputs if value in made)
    nodes = [one for one in graph.nodes if one is not node]
    nodes.insert(nodes.index(maker), node)
    return graph.with_(nodes=tuple(nodes))


def renamed(graph: Graph) -> Graph:
    first, second = graph.nodes[1], graph.nodes[-1]
    twin = Value(first.outputs[0].name, second.outputs[-1].type)
    return exchanged(graph, second, second, dataclasses.replace(second, outputs=(*second.outputs[:-1], twin)))


def wrong_target(graph: Graph) -> Graph:
    target = next(iter(graph.updates))
    other = next(value for value in graph.updates if value.type != target.type)
    return graph.with_(updates={**graph.updates, target: graph.updates[other]})


def no_target(graph: Graph) -> Graph:
    return graph.with_(updates={**graph.updates, graph.nodes[0].outputs[0]: graph.nodes[0].outputs[0]})


def other_constant(graph: Graph) -> Graph:
    value = Value("constant", TensorType(DType.F32, (2,)))
    return graph.with_(consts={**graph.consts, value: np.zeros(3, np.float32)})


ANYWHERE: Mapping[str, Callable[[Graph], Graph]] = {
    "a type changed": lambda graph: retyped(graph, lambda type: type.with_dtype(DType.F64)),
    "a shape changed": lambda graph: retyped(graph, lambda type: type.with_shape((*type.shape, 3))),
    "an operand of another type": of_another_type,
    "a node dropped": lambda graph: exchanged(graph, middle(graph)),
    "the order swapped": swapped,
    "a name used twice": renamed,
    "an update of another tensor's type": wrong_target,
    "an update of no parameter": no_target,
    "an output that nothing makes": lambda graph: graph.with_(
        outputs={"loss": Value("none", graph.nodes[0].outputs[0].type)}
    ),
    "an unknown phase": lambda graph: exchanged(
        graph, middle(graph), dataclasses.replace(middle(graph), phase="later")
    ),
    "an unknown operator": lambda graph: changed(graph, op="frobnicate", body=None),
    "a constant of another shape": other_constant,
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ANYWHERE)
def test_a_damaged_graph_is_found_after_every_pass(name: str, stage: str) -> None:
    graph = graphs("cnn")[stage]
    verify(graph)
    with pytest.raises(VerifyError):
        verify(ANYWHERE[name](graph))


def attributed(graph: Graph, op: str, **attrs: object) -> Graph:
    """With attributes of the first node of `op` replaced; one that is None is left out."""
    node = next(node for node in graph.nodes if node.op == op)
    changed = {key: value for key, value in {**node.attrs, **attrs}.items() if value is not None}
    return exchanged(graph, node, dataclasses.replace(node, attrs=changed))


@pytest.mark.parametrize(
    "network, op, attrs",
    [
        ("cnn", "conv2d", {"stride": (3, 3)}),
        ("cnn", "conv2d", {"pad": (5, 0, 0, 0)}),
        ("cnn", "conv2d", {"layout": None}),
        ("cnn", "conv2d", {"groups": 2}),
        ("cnn", "conv2d_dw", {"kernel": (5, 5)}),
        ("cnn", "reduce_sum", {"axes": (0,)}),
        ("cnn", "reshape", {"shape": (2, 25)}),
        ("transformer", "matmul", {"trans_b": None}),
        ("transformer", "transpose", {"perm": (0, 1)}),
        ("transformer", "gather", {"axis": 1}),
    ],
)
def test_a_wrong_attribute_is_found(network: str, op: str, attrs: Mapping[str, object]) -> None:
    with pytest.raises(VerifyError):
        verify(attributed(graphs(network)["tidy"], op, **attrs))


FORMS: Mapping[str, tuple[Form, str, str]] = {
    "a composite is left": (Form.PRIMITIVES, "push_select", "import"),
    "an image has channels first": (Form.CHANNELS_LAST, "channels_last", "push_select"),
    "a node is in no region": (Form.REGIONS, "fuse", "masks_as_bits"),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_node_of_an_earlier_form_is_found(name: str) -> None:
    form, stage, earlier = FORMS[name]
    verify_forms(graphs("cnn")[stage], [form], Context(), stage)
    with pytest.raises(VerifyError, match=form.value):
        verify_forms(graphs("cnn")[earlier], [form], Context(), stage)


def test_a_parameter_that_is_read_after_its_update_is_found() -> None:
    graph = graphs("cnn")["reorder"]
    verify_forms(graph, [Form.WRITABLE], Context(), "reorder")
    made, users = graph.producers(), graph.users()
    late = 0
    for target, new in graph.updates.items():
        writer = made.get(new)
        readers = [node for node in users[target] if node is not writer]
        if writer is None or is_view(writer) or not readers:
            continue
        nodes = [node for node in graph.nodes if node is not writer]
        nodes.insert(nodes.index(readers[-1]), writer)
        late += 1
        with pytest.raises(VerifyError, match="writable"):
            verify_forms(graph.with_(nodes=tuple(nodes)), [Form.WRITABLE], Context(), "reorder")
    assert late


def same_step(graph: Graph, other: Graph, arrays: dict[str, np.ndarray]) -> bool:
    """Whether a step of both gives the same losses and the same tensors."""
    first, second = dict(graph.data), dict(graph.data)
    expected, found = interp.step(graph, arrays, first), interp.step(other, arrays, second)
    near = all(np.allclose(found[name], expected[name], rtol=1e-4, atol=1e-6) for name in expected)
    return near and all(np.allclose(second[name], first[name], rtol=1e-4, atol=1e-6) for name in first)


def another_operator(graph: Graph, old: str, new: str) -> Graph:
    """The last node of one operator computes another, inside a region or not."""
    for node in reversed(graph.nodes):
        for inner in reversed(node.body.nodes if node.body else (node,)):
            if inner.op == old:
                other = dataclasses.replace(inner, op=new)
                body = node.body and exchanged(node.body, inner, other)
                return exchanged(graph, node, dataclasses.replace(node, body=body) if body else other)
    raise AssertionError(f"no {old}")


def exchanged_operands(graph: Graph) -> Graph:
    """`a - b` becomes `b - a`."""
    for node in reversed(graph.nodes):
        for inner in reversed(node.body.nodes if node.body else (node,)):
            if inner.op in ("sub", "div") and inner.inputs[0].type == inner.inputs[1].type:
                other = dataclasses.replace(inner, inputs=inner.inputs[::-1])
                body = node.body and exchanged(node.body, inner, other)
                return exchanged(graph, node, dataclasses.replace(node, body=body) if body else other)
    raise AssertionError("no operands to exchange")


def exchanged_targets(graph: Graph) -> Graph:
    """Two parameters of one type get each other's new contents."""
    by_type: dict[TensorType, list[Value]] = {}
    for target in graph.updates:
        if target in graph.params:
            by_type.setdefault(target.type, []).append(target)
    first, second = next(found[:2] for found in by_type.values() if len(found) > 1)
    return graph.with_(updates={**graph.updates, first: graph.updates[second], second: graph.updates[first]})


def without_update(graph: Graph) -> Graph:
    target = next(value for value in graph.updates if value in graph.params)
    return graph.with_(updates={key: new for key, new in graph.updates.items() if key is not target})


def other_literal(graph: Graph) -> Graph:
    """Constants of rank 0 are 1.5 times as large."""

    def scaled(one: Graph) -> Graph:
        floats = {v: array for v, array in one.consts.items() if v.type.rank == 0 and v.type.dtype is DType.F32}
        consts = {**one.consts, **{v: np.asarray(array * 1.5, np.float32) for v, array in floats.items()}}
        return one.with_(consts=consts)

    nodes = tuple(dataclasses.replace(node, body=scaled(node.body)) if node.body else node for node in graph.nodes)
    return scaled(graph).with_(nodes=nodes)


MEANING: Mapping[str, Callable[[Graph], Graph]] = {
    "an addition subtracts": lambda graph: another_operator(graph, "add", "sub"),
    "a product divides": lambda graph: another_operator(graph, "mul", "div"),
    "a difference the other way round": exchanged_operands,
    "two updates exchanged": exchanged_targets,
    "an update left out": without_update,
    "other constants": other_literal,
}


@pytest.mark.parametrize("stage", ["tidy", "push_select", "masks_as_bits", "reorder"])
@pytest.mark.parametrize("name", MEANING)
def test_what_only_changes_the_meaning_is_found_by_a_step(name: str, stage: str) -> None:
    graph = graphs("cnn")[stage]
    damaged = verify(MEANING[name](graph))
    arrays = batch(cnn())
    assert same_step(graph, graphs("cnn")["import"], arrays)
    assert not same_step(graph, damaged, arrays)
