"""What is kept for the backward part, and what elementwise nodes make again."""

import numpy as np

from pockengine import interp
from pockengine.ir import Builder, DType, Graph, TensorType, Value, verify
from pockengine.ops import Emitter
from pockengine.passes import recompute_elementwise


def test_recompute_keeps_the_fewest_bytes():
    builder = Builder("g")
    e = Emitter(builder)
    x = builder.input("x", TensorType(DType.F32, (4, 8)))
    w = builder.input("w", TensorType(DType.F32, (8, 16)))
    h = e.matmul(x, w)
    half, wide = e.mul(h, 0.5), e.add(e.op("erf", h), 1.0)
    y = e.matmul(e.mul(half, wide), e.transpose(w, (1, 0)))
    builder.phase = "backward"
    back = e.add(e.mul(half, e.op("exp", h)), wide)
    builder.outputs = {"y": y, "back": back}
    graph = builder.finish()
    assert _kept_after(graph) == {h}


def test_an_operand_of_a_weight_gradient_is_made_again():
    builder = Builder("g")
    e = Emitter(builder)
    x = builder.input("x", TensorType(DType.F32, (4, 8)))
    w = builder.input("w", TensorType(DType.F32, (8, 16)))
    dy = builder.input("dy", TensorType(DType.F32, (4, 8)))
    h = e.matmul(x, w)
    activation, slope = e.mul(h, e.op("sigmoid", h)), e.op("tanh", h)
    y = e.matmul(activation, e.transpose(w, (1, 0)))
    builder.phase = "backward"
    dw = e.matmul(activation, dy, trans_a=True)
    dh = e.mul(e.matmul(dy, w), slope)
    builder.outputs = {"y": y, "dw": dw, "dh": dh}
    assert _kept_after(builder.finish()) == {h}


def _kept_after(graph: Graph) -> set[Value]:
    """The forward values that the backward part reads after the pass, which must not change what is computed."""
    changed = verify(recompute_elementwise(graph))
    made = {value for node in changed.nodes if node.phase == "forward" for value in node.outputs}
    kept = {value for node in changed.nodes if node.phase != "forward" for value in node.inputs if value in made}
    rng = np.random.default_rng(0)
    arrays = {value.name: rng.standard_normal(value.type.shape).astype(np.float32) for value in graph.inputs}
    for name, expected in interp.evaluate(graph, arrays).items():
        np.testing.assert_array_equal(interp.evaluate(changed, arrays)[name], expected)
    return kept
