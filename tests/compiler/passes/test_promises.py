"""What each kind of region promises, broken in every way: verification finds each."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

from pockengine.ir import DType, Graph, Node, RegionKind, TensorType, Value, VerifyError
from pockengine.passes.verify import verify
from tests.compiler.passes import test_moves
from tests.compiler.passes.test_mutations import NETWORKS, graphs


@cache
def region(kind: RegionKind) -> Node:
    """A region of each kind with the most nodes, as the passes make it."""
    if kind is RegionKind.MOVED:
        return next(node for node in test_moves.shaped(test_moves.graph_of(test_moves.rotary)).nodes if node.body)
    shaped = [node for network in NETWORKS for node in graphs(network)["reorder"].nodes if node.body]
    body = {node: len(node.body.nodes) for node in shaped if node.body and node.region_kind is kind}
    return max(body, key=body.__getitem__)


def within(node: Node, **changes: object) -> Graph:
    """A graph of one region, whose body is changed."""
    assert node.body is not None
    changed = dataclasses.replace(node, body=node.body.with_(**changes))
    return Graph("one", inputs=tuple(node.inputs), nodes=(changed,))


@pytest.mark.parametrize("claimed", RegionKind)
@pytest.mark.parametrize("kind", RegionKind)
def test_a_region_of_another_kind_than_it_says_is_found(kind: RegionKind, claimed: RegionKind) -> None:
    node = region(kind)
    graph = within(dataclasses.replace(node, attrs={**node.attrs, "kind": claimed}))
    if claimed is kind:
        verify(graph)
        return
    with pytest.raises(VerifyError):
        verify(graph)


def appended(node: Node, op: str, value: Value, type: TensorType, **attrs: object) -> Graph:
    """The body with one more node, whose result the region returns."""
    assert node.body is not None
    made = Node(op, (value,), (Value("appended", type),), attrs)
    outer = dataclasses.replace(node, outputs=(*node.outputs, Value("outside", type)))
    return within(outer, nodes=(*node.body.nodes, made), outputs={**node.body.outputs, "appended": made.output})


@pytest.mark.parametrize("kind", RegionKind)
class TestEveryKind:
    """What every region promises."""

    def test_inputs_are_the_nodes(self, kind: RegionKind) -> None:
        node = region(kind)
        assert node.body is not None
        with pytest.raises(VerifyError, match="inputs"):
            verify(Graph("one", node.inputs, nodes=(dataclasses.replace(node, inputs=node.inputs[1:]),)))

    def test_outputs_are_the_nodes(self, kind: RegionKind) -> None:
        node = region(kind)
        more = (*node.outputs, Value("more", node.outputs[0].type))
        with pytest.raises(VerifyError, match="outputs"):
            verify(within(dataclasses.replace(node, outputs=more)))

    def test_everything_is_needed(self, kind: RegionKind) -> None:
        node = region(kind)
        assert node.body is not None
        value = node.body.nodes[-1].outputs[0]
        unread = Node("neg", (value,), (Value("unread", value.type),))
        with pytest.raises(VerifyError, match="nothing in the body needs"):
            verify(within(node, nodes=(*node.body.nodes, unread)))

    def test_constants_have_no_axes(self, kind: RegionKind) -> None:
        node = region(kind)
        assert node.body is not None
        value = Value("axes", TensorType(DType.F32, (1,)))
        with pytest.raises(VerifyError, match="has axes"):
            verify(within(node, consts={**node.body.consts, value: np.zeros(1, np.float32)}))

    def test_parameters_are_outside(self, kind: RegionKind) -> None:
        with pytest.raises(VerifyError, match="of its own"):
            verify(within(region(kind), params=(Value("own", TensorType(DType.F32, (1,))),)))

    def test_no_region_is_inside(self, kind: RegionKind) -> None:
        node = region(kind)
        assert node.body is not None
        with pytest.raises(VerifyError, match="a region in a region"):
            verify(nested(node))

    def test_a_transposition_is_outside(self, kind: RegionKind) -> None:
        node = region(kind)
        value = node.outputs[0]
        assert node.body is not None
        inner = next(iter(node.body.outputs.values()))
        perm = tuple(range(value.type.rank))
        graph = appended(node, "transpose", inner, value.type, perm=perm)
        if kind is RegionKind.MOVED:
            verify(graph)
            return
        with pytest.raises(VerifyError):
            verify(graph)

    def test_a_second_contraction_is_outside(self, kind: RegionKind) -> None:
        node = region(kind)
        assert node.body is not None
        square = Value("square", TensorType(DType.F32, (4, 4)))
        made = Node("matmul", (square, square), (Value("made", square.type),), {"trans_a": False, "trans_b": False})
        outer = dataclasses.replace(
            node, inputs=(*node.inputs, square), outputs=(*node.outputs, Value("outside", square.type))
        )
        with pytest.raises(VerifyError):
            verify(
                within(
                    outer,
                    inputs=(*node.body.inputs, square),
                    nodes=(*node.body.nodes, made),
                    outputs={**node.body.outputs, "made": made.output},
                )
            )

    def test_bits_are_made_by_elementwise_regions_alone(self, kind: RegionKind) -> None:
        node = region(kind)
        assert node.body is not None
        value = next(iter(node.body.outputs.values()))
        graph = appended(node, "cast", value, value.type.with_dtype(DType.BIT), to="bit")
        if kind is RegionKind.ELEMENTWISE:
            verify(graph)
            return
        with pytest.raises(VerifyError, match="makes bits"):
            verify(graph)


def nested(node: Node) -> Graph:
    """The region as the only node of a region."""
    assert node.body is not None
    body = Graph("body", node.inputs, nodes=(node,), outputs={value.name: value for value in node.outputs})
    outputs = tuple(Value(f"outer {value.name}", value.type) for value in node.outputs)
    return Graph("one", node.inputs, nodes=(Node("region", node.inputs, outputs, node.attrs, body),))


F32 = {name: TensorType(DType.F32, shape) for name, shape in {"a": (4, 6), "b": (6, 8), "y": (4, 8)}.items()}


def made(op: str, name: str, shape: tuple[int, ...], *inputs: Value, **attrs: object) -> Node:
    return Node(op, inputs, (Value(name, TensorType(DType.F32, shape)),), attrs)


def one_region(kind: RegionKind, nodes: list[Node], *outputs: Value) -> Graph:
    """A region of these nodes, whose inputs are what they read and do not make."""
    inside = {value for node in nodes for value in node.outputs}
    inputs = tuple(dict.fromkeys(value for node in nodes for value in node.inputs if value not in inside))
    body = Graph("body", inputs, nodes=tuple(nodes), outputs={value.name: value for value in outputs})
    outer = tuple(Value(f"outer {value.name}", value.type) for value in outputs)
    return Graph("one", inputs, nodes=(Node("region", inputs, outer, {"kind": kind}, body),))


def contraction(damage: str) -> Graph:
    """`y = -a · b + c`, or what `damage` makes of it."""
    a, b, c = Value("a", F32["a"]), Value("b", F32["b"]), Value("c", F32["y"])
    before = made("neg", "before", (4, 6), a)
    anchor = made("matmul", "anchor", (4, 8), before.output, b, trans_a=False, trans_b=False)
    after = made("add", "after", (4, 8), anchor.output, c)
    nodes, outputs = [before, anchor, after], [after.output]
    if damage == "an output before the contraction":
        outputs.append(before.output)
    if damage == "a second contraction":
        nodes.append(made("matmul", "second", (4, 8), a, b, trans_a=False, trans_b=False))
        outputs.append(nodes[-1].output)
    if damage == "a sum in the epilogue":
        nodes.append(made("reduce_sum", "sum", (4, 1), after.output, axes=(1,)))
        outputs.append(nodes[-1].output)
    if damage == "a larger epilogue":
        nodes.append(made("add", "larger", (2, 4, 8), after.output, Value("d", TensorType(DType.F32, (2, 1, 1)))))
        outputs.append(nodes[-1].output)
    if damage == "a sum in the prologue":
        total = made("reduce_sum", "total", (4, 1), a, axes=(1,))
        before = made("sub", "before", (4, 6), a, total.output)
        nodes = [total, before, dataclasses.replace(anchor, inputs=(before.output, b)), after]
    if damage == "an epilogue that reads the prologue":
        square = Value("square", TensorType(DType.F32, (8, 8)))
        wide = made("neg", "wide", (4, 8), c)
        product = made("matmul", "product", (4, 8), wide.output, square, trans_a=False, trans_b=False)
        late = made("add", "late", (4, 8), product.output, wide.output)
        nodes, outputs = [wide, product, late], [late.output]
    return one_region(RegionKind.CONTRACTION, nodes, *outputs)


@pytest.mark.parametrize(
    "damage, sentence",
    [
        ("an output before the contraction", "is there before the contraction"),
        ("a second contraction", "2 contractions"),
        ("a sum in the epilogue", "is not elementwise"),
        ("a larger epilogue", "has the shape"),
        ("a sum in the prologue", "is not elementwise"),
        ("an epilogue that reads the prologue", "reads what is made for"),
    ],
)
def test_a_contraction_keeps_each_promise(damage: str, sentence: str) -> None:
    verify(contraction(""))
    with pytest.raises(VerifyError, match=sentence):
        verify(contraction(damage))


def reduced(kind: RegionKind, axes: tuple[int, ...], damage: str) -> Graph:
    """`-sum(x)`, or what `damage` makes of it."""
    x = Value("x", F32["a"])
    shape = (1, 6) if kind is RegionKind.COLUMN else (4, 1)
    total = made("reduce_sum", "total", shape, x, axes=axes)
    after = made("neg", "after", shape, total.output)
    nodes, outputs = [total, after], [after.output]
    if damage == "sums over other axes":
        nodes.append(made("reduce_sum", "other", (1, 1), x, axes=(0, 1)))
        outputs.append(nodes[-1].output)
    if damage == "sums of another shape":
        nodes.append(made("reduce_sum", "other", shape, total.output, axes=axes))
        outputs.append(nodes[-1].output)
    if damage == "another shape":
        nodes.append(made("add", "wide", (2, 4, 6), x, Value("d", TensorType(DType.F32, (2, 1, 1)))))
        outputs.append(nodes[-1].output)
    if damage == "the sum is read where it is made of":
        nodes.append(made("sub", "centred", (4, 6), x, total.output))
        outputs.append(nodes[-1].output)
    if damage == "no sum":
        nodes, outputs = [made("neg", "only", (4, 6), x)], []
        outputs.append(nodes[0].output)
    return one_region(kind, nodes, *outputs)


@pytest.mark.parametrize(
    "kind, axes, damage, sentence",
    [
        (RegionKind.ROW, (1,), "sums over other axes", "reduces"),
        (RegionKind.ROW, (1,), "sums of another shape", "reduces"),
        (RegionKind.ROW, (1,), "another shape", "has the shape"),
        (RegionKind.ROW, (1,), "no sum", "no reduction"),
        (RegionKind.COLUMN, (0,), "sums over other axes", "reduces"),
        (RegionKind.COLUMN, (0,), "another shape", "has the shape"),
        (RegionKind.COLUMN, (0,), "the sum is read where it is made of", "reads what is made of sums"),
        (RegionKind.COLUMN, (0,), "no sum", "no reduction"),
    ],
)
def test_a_reduction_keeps_each_promise(kind: RegionKind, axes: tuple[int, ...], damage: str, sentence: str) -> None:
    verify(reduced(kind, axes, ""))
    with pytest.raises(VerifyError, match=sentence):
        verify(reduced(kind, axes, damage))


def test_elementwise_nodes_of_two_shapes_are_found() -> None:
    x = Value("x", F32["a"])
    small, row = made("neg", "small", (4, 6), x), Value("d", TensorType(DType.F32, (2, 1, 1)))
    wide = made("add", "wide", (2, 4, 6), small.output, row)
    with pytest.raises(VerifyError, match="has the shape"):
        verify(one_region(RegionKind.ELEMENTWISE, [small, wide], small.output, wide.output))


def test_a_broadcast_of_what_is_computed_is_found() -> None:
    x = Value("x", TensorType(DType.F32, (1, 6)))
    small = made("neg", "small", (1, 6), x)
    wide = dataclasses.replace(made("broadcast_to", "wide", (4, 6), small.output), attrs={"shape": (4, 6)})
    with pytest.raises(VerifyError, match="broadcast of what is no input"):
        verify(one_region(RegionKind.ELEMENTWISE, [small, wide], wide.output))


def test_gradients_of_channels_first_are_found() -> None:
    node = region(RegionKind.GRADIENTS)
    assert node.body is not None
    nodes = [
        dataclasses.replace(one, attrs={**one.attrs, "layout": "NCHW"}) if "layout" in one.attrs else one
        for one in node.body.nodes
    ]
    with pytest.raises(VerifyError):
        verify(within(node, nodes=tuple(nodes)))
