"""Gradients of imported operators against finite differences: what is written in many primitives trains as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pockengine import interp
from pockengine.autodiff import backward, prepare
from pockengine.frontends.onnx.file import from_proto
from pockengine.frontends.onnx.importer import import_model
from pockengine.ir import Array, Builder, Graph
from pockengine.ops import Emitter

from ..onnx_models import single

RNG = np.random.default_rng(0)


def f(*shape: int) -> np.ndarray:
    # Away from whole numbers, where the places of a deformable convolution have corners.
    return RNG.uniform(0.1, 0.4, shape).astype(np.float32)


def i(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


ATTENTION: list[np.ndarray | None] = [
    f(1, 4, 3, 5),
    f(1, 2, 3, 5),
    f(1, 2, 3, 5),
    f(3, 7),
    f(1, 2, 4, 5),
    f(1, 2, 4, 5),
]
LINEAR: list[np.ndarray | None] = [f(2, 3, 8), f(2, 3, 4), f(2, 3, 6), f(2, 2, 2, 3), f(2, 3, 2), f(2, 3, 1)]
CASES: dict[str, tuple[str, list[np.ndarray | None], list[int], dict[str, Any]]] = {
    "deformable": (
        "DeformConv",
        [f(1, 4, 4, 5), f(6, 2, 2, 2), f(1, 16, 3, 4), f(6), f(1, 8, 3, 4)],
        [],
        {"group": 2, "offset_group": 2},
    ),
    "attention": ("Attention", ATTENTION, [], {"softcap": 2.0, "is_causal": 1, "left_window_size": 4, "opset": 25}),
    "linear-attention": ("LinearAttention", LINEAR, [], {"q_num_heads": 4, "kv_num_heads": 2, "opset": 27}),
    "col2im": ("Col2Im", [f(1, 8, 16), i(5, 4), i(2, 2)], [1, 2], {"pads": [0, 0, 0, 1]}),
    "det": ("Det", [f(2, 4, 4)], [], {}),
    "dft": ("DFT", [f(2, 6, 2)], [], {"inverse": 1}),
    "stft": ("STFT", [f(2, 12, 1), i(3), f(6)], [1], {}),
    "einsum": ("Einsum", [f(3, 3, 2), f(2, 4), f(3, 4)], [], {"equation": "iij,jk,ik->kj"}),
    "lp-pool": ("LpPool", [f(1, 2, 6, 5)], [], {"kernel_shape": [3, 2], "p": 3}),
    "conv3d": ("Conv", [f(1, 4, 4, 5, 4), f(4, 2, 2, 3, 2)], [], {"group": 2, "strides": [2, 1, 2]}),
    "batch-norm": ("BatchNormalization", [f(4, 3, 5), f(3), f(3), f(3), f(3)], [], {"training_mode": 1}),
    "lstm-lengths": (
        "LSTM",
        [f(4, 2, 3), f(1, 20, 3), f(1, 20, 5), f(1, 40), np.array([4, 2], np.int32), None, None, f(1, 15)],
        [4],
        {"hidden_size": 5},
    ),
    "gru-late": (
        "GRU",
        [f(3, 2, 3), f(1, 15, 3), f(1, 15, 5), f(1, 30), None, f(1, 2, 5)],
        [],
        {"hidden_size": 5, "linear_before_reset": 1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    op, arrays, constants, attrs = CASES[name]
    proto, feeds = single(op, arrays, constants, **attrs)
    graph = import_model(from_proto(proto), name)
    wide = {key: array.astype(np.float64) for key, array in feeds.items()}
    weights = RNG.standard_normal(next(iter(graph.outputs.values())).type.shape)
    direction = {key: RNG.standard_normal(array.shape) for key, array in wide.items()}

    def loss(step: float) -> float:
        moved = {key: array + step * direction[key] for key, array in wide.items()}
        return float(np.sum(next(iter(interp.evaluate(graph, moved).values())) * weights))

    width = 1e-4
    expected = (loss(width) - loss(-width)) / (2 * width)
    found = sum(np.sum(gradient * direction[key]) for key, gradient in _gradients(graph, wide, weights).items())
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


def _gradients(graph: Graph, feeds: dict[str, Array], weights: Array) -> dict[str, Array]:
    """Of sum(first output * weights), by input; every input has one."""
    builder = Builder.extend(graph)
    e = Emitter(builder)
    out = next(iter(graph.outputs.values()))
    weighted = e.mul(out, builder.input("weights", out.type))
    builder.outputs = {"loss": e.reshape(e.sum(weighted, range(out.type.rank)), ())}
    wanted = list(graph.inputs)
    builder, gradients = backward(prepare(builder.finish(), wanted), "loss", wanted)
    builder.outputs = {value.name: gradients[value] for value in wanted if value in gradients}
    return interp.evaluate(builder.finish(), {**feeds, "weights": weights})
