"""What records say about axes, operands and indices, which is what passes ask, held to their references."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from pockengine import interp
from pockengine.ir import Array, Node
from pockengine.ops import Carried, Combination, Convolution, Kind, Op, Role, Sample, all_ops, axes_of, record_of
from pockengine.ops.registry import AxisAttr, broadcasts, consumed_axes, permuted, reduced_axes, roles_of
from tests.compiler.records import all_samples, graph_of, inputs_of


def _node_of(op: Op, sample: Sample) -> tuple[Node, list[Array]]:
    graph = graph_of(op, sample)
    arrays = inputs_of(graph, sample)
    return graph.nodes[0], [arrays[value.name] for value in graph.inputs]


def _evaluated(node: Node, arrays: Sequence[Array], attrs: dict[str, object]) -> list[Array]:
    return interp.run_node(Node(node.op, node.inputs, node.outputs, attrs), list(arrays))


def _ops(chosen: Callable[[Op], object]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("op", [op for op in all_ops() if chosen(op)], ids=lambda op: op.name)


@_ops(lambda op: op.axes or op.kind == "elementwise")
def test_a_part_of_the_result_is_made_of_those_parts_of_the_operands(op: Op) -> None:
    """The last element and the first along an axis, in that order: of the operands, and of the whole result."""
    for sample in op.samples:
        node, arrays = _node_of(op, sample)
        whole = _evaluated(node, arrays, dict(node.attrs))[0]
        for axis, source in enumerate(axes_of(node) or ()):
            if source is None or whole.shape[axis] < 2:
                continue
            places, shape = [whole.shape[axis] - 1, 0], list(whole.shape)
            shape[axis] = len(places)
            parts = [
                array if own is None else np.take(array, places, own) for array, own in zip(arrays, source, strict=True)
            ]
            part = _evaluated(node, parts, dict(record_of(node).sized(node, shape)))[0]
            np.testing.assert_allclose(part, np.take(whole, places, axis), rtol=1e-5, atol=1e-6)


@_ops(lambda op: op.axis_attrs or op.kind == "elementwise")
def test_operands_and_results_can_be_transposed_alike(op: Op) -> None:
    """With the axes the other way round, and the attributes that the record names saying so."""
    for sample in op.samples:
        node, arrays = _node_of(op, sample)
        rank = node.outputs[0].type.rank
        indices = op.indices.operand if op.indices else None
        if indices is not None and node.inputs[indices].type.rank != 1:
            continue  # several axes of indices stand for one of the result
        perm = tuple(reversed(range(rank)))
        given = [
            array if index == indices else np.transpose(array.reshape((1,) * (rank - array.ndim) + array.shape), perm)
            for index, array in enumerate(arrays)
        ]
        made = _evaluated(node, given, permuted(node, perm))
        for new, old in zip(made, _evaluated(node, arrays, dict(node.attrs)), strict=True):
            np.testing.assert_allclose(new, np.transpose(old, perm), rtol=1e-5, atol=1e-6)


def test_every_attribute_about_axes_is_declared() -> None:
    """Else a transposed node would go along the wrong axis."""
    for op in all_ops():
        told = {key for sample in op.samples for key in sample.attrs if key in ("axis", "axes")}
        assert op.axes is None or told <= set(op.axis_attrs), op.name
        assert all(how is AxisAttr.ONE for key, how in op.axis_attrs.items() if key == "axis"), op.name


@_ops(lambda op: op.view)
def test_views_are_the_bytes_of_their_operand(op: Op) -> None:
    for sample in op.samples:
        node, arrays = _node_of(op, sample)
        assert _evaluated(node, arrays, dict(node.attrs))[0].tobytes() == arrays[0].tobytes()


@_ops(lambda op: op.selectable)
def test_a_selection_moves_through_some_axis_of_whatever_lets_it(op: Op) -> None:
    found = [axes_of(_node_of(op, sample)[0]) or () for sample in op.samples]
    assert any(source is not None for sources in found for source in sources)


@_ops(lambda op: op.indices)
def test_indices_below_their_limit_and_none_above_can_be_read(op: Op) -> None:
    assert op.indices is not None
    for sample in op.samples:
        node, arrays = _node_of(op, sample)
        limit, operand = op.indices.limit(node), op.indices.operand
        assert not node.inputs[operand].type.dtype.is_float
        arrays[operand] = np.full_like(arrays[operand], limit - 1)
        _evaluated(node, arrays, dict(node.attrs))
        if op.kind != "composite":  # cross_entropy compares with classes, of which there are no more
            arrays[operand] = np.full_like(arrays[operand], limit)
            with pytest.raises(IndexError):
                _evaluated(node, arrays, dict(node.attrs))


@_ops(lambda op: op.carries)
def test_what_carries_elements_makes_none_of_its_own(op: Op) -> None:
    for sample in op.samples:
        node, arrays = _node_of(op, sample)
        with np.errstate(invalid="ignore"):
            given = set(arrays[0].astype(node.output.type.dtype.numpy).reshape(-1).tolist())
        made = set(_evaluated(node, arrays, dict(node.attrs))[0].reshape(-1).tolist())
        assert made == given if op.carries is Carried.ALL else made < given


@_ops(lambda op: op.kind is Kind.REDUCTION or op.combines)
def test_a_reduction_combines_as_its_record_says(op: Op) -> None:
    functions = {
        Combination.SUM: np.add,
        Combination.PRODUCT: np.multiply,
        Combination.MAXIMUM: np.maximum,
        Combination.MINIMUM: np.minimum,
    }
    assert op.combines is not None
    for sample in op.samples:
        node, arrays = _node_of(op, sample)
        wanted = functions[op.combines].reduce(arrays[0], axis=node.attrs["axes"], keepdims=True)
        np.testing.assert_allclose(_evaluated(node, arrays, dict(node.attrs))[0], wanted, rtol=1e-5)


@_ops(lambda op: op.decompresses)
def test_what_decompresses_makes_more_bytes_than_it_reads(op: Op) -> None:
    for sample in op.samples:
        node, _ = _node_of(op, sample)
        assert node.output.type.nbytes > sum(value.type.nbytes for value in node.inputs)


@_ops(lambda op: op.running)
def test_running_statistics_are_replaced_in_training_alone(op: Op) -> None:
    """A momentum of 0 leaves them as they are."""
    seen = set()
    for sample in op.samples:
        node, arrays = _node_of(op, sample)
        new = _evaluated(node, arrays, {**node.attrs, "momentum": 0.0})[1:]
        assert len(new) == (len(op.running) if node.attrs["training"] else 0)
        for result, index in zip(new, op.running, strict=False):
            np.testing.assert_array_equal(result, arrays[index])
        seen.add(node.attrs["training"])
    assert seen == {False, True}


def test_each_operator_of_a_convolution_has_images_and_filters_where_its_enumeration_says() -> None:
    image, filters = Role.IMAGE, Role.FILTERS
    wanted = {
        Convolution.FORWARD: (image, filters, image),
        Convolution.IMAGE_GRADIENT: (image, filters, image),
        Convolution.FILTER_GRADIENT: (image, image, filters),
    }
    assert {op.convolution: op.roles for op in all_ops() if op.convolution} == wanted


def test_images_are_read_as_their_layout_says() -> None:
    """Every sample in NCHW gives, of images turned to NHWC, its result turned to NHWC."""
    seen = set()
    for op, sample, _ in all_samples():
        if Role.IMAGE not in op.roles or sample.attrs["layout"] != "NCHW":
            continue
        node, arrays = _node_of(op, sample)
        images = {value for value, role in roles_of(node) if role is Role.IMAGE}
        turned = [
            np.transpose(array, (0, 2, 3, 1)) if value in images else array
            for value, array in zip(node.inputs, arrays, strict=True)
        ]
        result = _evaluated(node, arrays, dict(node.attrs))[0]
        wanted = np.transpose(result, (0, 2, 3, 1)) if node.output in images else result
        made = _evaluated(node, turned, {**node.attrs, "layout": "NHWC"})[0]
        np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)
        seen.add(op.name)
    assert len(seen) == sum(Role.IMAGE in op.roles for op in all_ops())


def _first(name: str) -> Node:
    op, sample = next((op, sample) for op, sample, _ in all_samples() if op.name == name)
    return graph_of(op, sample).nodes[0]


@pytest.mark.parametrize(
    ("name", "reduced", "spread"),
    [("reduce_max", (1,), False), ("argmax", (1,), False), ("add", None, True), ("broadcast_to", None, True)],
)
def test_what_reduces_and_what_broadcasts(name: str, reduced: tuple[int, ...] | None, spread: bool) -> None:
    assert reduced_axes(_first(name)) == reduced
    assert broadcasts(_first(name)) is spread


def test_the_inner_axes_of_a_product_are_consumed() -> None:
    matmul = _first("matmul")
    assert (consumed_axes(matmul, 0), consumed_axes(matmul, 1)) == ((1,), (0,))
    assert reduced_axes(matmul) is None
    assert not broadcasts(matmul)
