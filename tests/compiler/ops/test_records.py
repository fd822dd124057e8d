"""What every op record must satisfy, generated from its samples (DESIGN section 8, law 1)."""

from __future__ import annotations

import numpy as np
import pytest

from pockengine import interp, ops
from pockengine.autodiff import backward, prepare
from pockengine.ir import Array, Builder, Graph, parse, render
from pockengine.ops import Emitter, Op, Sample
from pockengine.ops.fp8 import MATMUL
from pockengine.ops.optimizers import MOMENTUM
from pockengine.ops.optimizers import OPTIMIZERS as OPTIMIZER_SPECS
from pockengine.ops.quantised import BlockFormat, dequantize
from tests.compiler.records import all_samples, graph_of, inputs_of

SAMPLES = [pytest.param(op, sample, id=name) for op, sample, name in all_samples()]
OPTIMIZERS = {spec.op for spec in (MOMENTUM, *OPTIMIZER_SPECS.values())}
UNLIKE = ("straight_through", MATMUL)
"""Their gradients are not those of their values: tests of their own."""


def _differentiable(op: Op, index: int) -> bool:
    if op.name in OPTIMIZERS or op.name in UNLIKE:
        return False
    return op.vjps[index] is not None if index < len(op.vjps) else op.expand is not None


GRADIENTS = [
    pytest.param(op, sample, index, id=f"{name}-d{index}")
    for op, sample, name in all_samples()
    for index, text in enumerate(sample.shapes)
    if text.startswith("f") and _differentiable(op, index) and op.name not in ("cast", *UNLIKE)
]


@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_inferred_type_is_the_references(op: Op, sample: Sample) -> None:
    graph = graph_of(op, sample)
    for name, array in interp.evaluate(graph, inputs_of(graph, sample)).items():
        assert array.shape == graph.outputs[name].type.shape
        assert array.dtype == graph.outputs[name].type.dtype.numpy


@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_text_round_trip(op: Op, sample: Sample) -> None:
    text = render(graph_of(op, sample))
    assert render(parse(text)) == text


def test_every_op_has_samples() -> None:
    assert [op.name for op in ops.all_ops() if not op.samples] == []


@pytest.mark.parametrize(("op", "sample", "index"), GRADIENTS)
def test_gradient_against_finite_difference(op: Op, sample: Sample, index: int) -> None:
    """d/dt loss(x + t v) at t = 0, in float64, for a random direction v and a random linear loss of the first
    output."""
    graph = graph_of(op, sample)
    arrays = inputs_of(graph, sample, dtype=np.float64)
    rng = np.random.default_rng(1)
    weights = rng.standard_normal(graph.outputs["0"].type.shape)
    direction = rng.standard_normal(arrays[f"i{index}"].shape)

    def loss(step: float) -> float:
        moved = {**arrays, f"i{index}": arrays[f"i{index}"] + step * direction}
        return float(np.sum(interp.evaluate(graph, moved)["0"] * weights))

    width = 1e-5
    expected = (loss(width) - loss(-width)) / (2 * width)
    assert np.sum(_gradient(graph, index, arrays, weights) * direction) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_straight_through_gives_its_gradient_to_the_second_operand() -> None:
    op, sample = ops.get("straight_through"), ops.get("straight_through").samples[0]
    graph = graph_of(op, sample)
    arrays = inputs_of(graph, sample)
    weights = np.random.default_rng(1).standard_normal(graph.outputs["0"].type.shape)
    assert not _gradient(graph, 0, arrays, weights).any()
    np.testing.assert_array_equal(_gradient(graph, 1, arrays, weights), weights)


def test_products_of_8_bit_floats_have_the_gradient_of_the_decoded_weight() -> None:
    op, sample = ops.get(MATMUL), ops.get(MATMUL).samples[0]
    graph = graph_of(op, sample)
    arrays = inputs_of(graph, sample)
    weights = np.random.default_rng(1).standard_normal(graph.outputs["0"].type.shape).astype(np.float32)
    packed, scales = (arrays[value.name] for value in graph.inputs[1:])
    decoded = dequantize(packed, scales, BlockFormat.FP8, packed.shape[1], packed.shape)
    np.testing.assert_allclose(_gradient(graph, 0, arrays, weights), weights @ decoded, rtol=1e-5, atol=1e-5)


def _gradient(graph: Graph, index: int, arrays: dict[str, Array], weights: Array) -> Array:
    """The gradient of sum(output * weights) that autodiff builds."""
    builder = Builder.extend(graph)
    e = Emitter(builder)
    out = graph.outputs["0"]
    scale = builder.input("weights", out.type)
    total = e.reshape(e.sum(e.mul(out, scale), range(out.type.rank)), ()) if out.type.rank else e.mul(out, scale)
    builder.outputs = {"loss": total}
    wanted = graph.inputs[index]
    builder, gradients = backward(prepare(builder.finish(), [wanted]), "loss", [wanted])
    if wanted not in gradients:
        return np.zeros(wanted.type.shape)
    builder.outputs = {"gradient": gradients[wanted]}
    return interp.evaluate(builder.finish(), {**arrays, "weights": weights})["gradient"]
