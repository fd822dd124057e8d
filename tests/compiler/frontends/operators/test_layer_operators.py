"""Operators of whole layers agree with onnxruntime, numpy or PyTorch, where ONNX's own cases are few.

Convolutions, pooling, recurrent operators, Einsum, Fourier transforms and attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from pockengine.frontends import load
from pockengine.frontends.onnx.file import from_proto
from pockengine.frontends.onnx.importer import import_model
from pockengine.interp import evaluate

from ..onnx_models import save, single

RNG = np.random.default_rng(0)


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype(np.float32)


def agree(
    path: Path,
    op: str,
    arrays: Sequence[np.ndarray | None],
    constants: Sequence[int] = (),
    outputs: int = 1,
    **attrs: Any,
) -> None:
    proto, feeds = single(op, arrays, constants, outputs, **attrs)
    file = save(proto, path / "model.onnx")
    expected = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feeds)
    found = list(evaluate(load(file), feeds).values())
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


Case = tuple[np.ndarray, np.ndarray, dict[str, Any]]
"""What a convolution is given: (x, weight, attributes)."""

CONV: dict[str, Case] = {
    "1d": (f(2, 4, 11), f(6, 2, 3), {"group": 2, "strides": [2], "pads": [0, 2]}),
    "2d-same": (f(1, 3, 7, 8), f(4, 3, 3, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    "3d": (f(2, 4, 6, 7, 5), f(6, 2, 3, 2, 3), {"group": 2, "strides": [2, 1, 2], "pads": [1, 0, 2, 0, 1, 1]}),
    "3d-dilated": (f(1, 2, 7, 7, 6), f(3, 2, 2, 3, 2), {"dilations": [3, 2, 2], "pads": [1, 1, 0, 2, 1, 1]}),
    "3d-same": (f(1, 2, 5, 6, 7), f(3, 2, 2, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 2, 2]}),
    "3d-flat": (f(1, 2, 5, 6, 7), f(3, 2, 1, 3, 3), {}),
}


@pytest.mark.parametrize("name", CONV)
def test_convolution(name: str, tmp_path: Path) -> None:
    x, w, attrs = CONV[name]
    agree(tmp_path, "Conv", [x, w, f(len(w))], **attrs)


TRANSPOSED: dict[str, Case] = {
    "1d": (f(2, 4, 5), f(4, 3, 4), {"strides": [3], "pads": [1, 2], "output_padding": [2]}),
    "2d-groups": (f(2, 4, 5, 4), f(4, 3, 2, 3), {"group": 2, "dilations": [2, 1], "strides": [1, 2]}),
    "2d-shape": (f(1, 2, 4, 4), f(2, 3, 3, 3), {"strides": [2, 3], "output_shape": [8, 11]}),
    "2d-same": (f(1, 2, 4, 4), f(2, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "3d": (f(2, 4, 3, 4, 5), f(4, 2, 3, 2, 3), {"group": 2, "strides": [2, 1, 3], "pads": [1, 0, 1, 1, 1, 0]}),
    "3d-padded": (f(1, 2, 3, 3, 2), f(2, 3, 2, 2, 2), {"strides": [2, 2, 2], "output_padding": [1, 0, 1]}),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolution(name: str, tmp_path: Path) -> None:
    x, w, attrs = TRANSPOSED[name]
    agree(tmp_path, "ConvTranspose", [x, w, f(w.shape[1] * attrs.get("group", 1))], **attrs)


SHAPES = {1: (2, 3, 10), 2: (2, 3, 9, 8), 3: (1, 3, 7, 8, 6)}
POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [3, 2, 3], "strides": [2, 3, 2], "pads": [1, 0, 1, 1, 1, 0]},
    {"kernel_shape": [3, 3, 2], "strides": [2, 2, 3], "pads": [1, 1, 1, 1, 1, 0], "ceil_mode": 1},
    {"kernel_shape": [2, 3, 2], "dilations": [2, 2, 1], "strides": [1, 2, 1]},
    {"kernel_shape": [3, 2, 3], "strides": [2, 2, 2], "auto_pad": "SAME_UPPER"},
]


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "counted", "LpPool"])
@pytest.mark.parametrize("index", range(len(POOLS)))
def test_pooling(op: str, rank: int, index: int, tmp_path: Path) -> None:
    attrs: dict[str, Any] = {
        key: value[:rank] if isinstance(value, list) else value for key, value in POOLS[index].items()
    }
    if "pads" in attrs:
        attrs["pads"] = [*POOLS[index]["pads"][:rank], *POOLS[index]["pads"][3 : 3 + rank]]
    if op == "LpPool":
        attrs["p"] = index + 1
    if op == "counted":
        attrs["count_include_pad"] = 1
    agree(tmp_path, "AveragePool" if op == "counted" else op, [f(*SHAPES[rank])], opset=22, **attrs)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("rank", SHAPES)
def test_places_of_maxima(rank: int, order: int, tmp_path: Path) -> None:
    attrs: dict[str, Any] = {
        "kernel_shape": [3] * rank,
        "strides": [2] * rank,
        "pads": [1] * (2 * rank),
        "storage_order": order,
    }
    agree(tmp_path, "MaxPool", [f(*SHAPES[rank])], outputs=2, **attrs)


def test_overlapping_maxima_go_back_once() -> None:
    x = torch.from_numpy(f(2, 3, 9, 9))
    y, places = torch.nn.functional.max_pool2d(x, 3, 2, return_indices=True)
    expected = torch.nn.functional.max_unpool2d(y, places, [3, 3], [2, 2]).numpy()
    flat = (places + (torch.arange(6) * 81).reshape(2, 3, 1, 1)).numpy()
    proto, feeds = single("MaxUnpool", [y.numpy(), flat], kernel_shape=[3, 3], strides=[2, 2])
    assert (np.bincount(flat.reshape(-1)) > 1).any()
    (found,) = evaluate(import_model(from_proto(proto), "unpool"), feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 2, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RECURRENT: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "lstm-both": ("LSTM", {"direction": "bidirectional"}),
    "lstm-clip": ("LSTM", {"clip": 0.3, "direction": "reverse"}),
    "lstm-coupled": ("LSTM", {"input_forget": 1}),
    "lstm-activations": ("LSTM", {"activations": ["HardSigmoid", "Softsign", "Elu"], "activation_alpha": [0.3, 0.7]}),
    "gru": ("GRU", {}),
    "gru-late": ("GRU", {"linear_before_reset": 1, "direction": "reverse"}),
    "gru-both": ("GRU", {"direction": "bidirectional", "linear_before_reset": 1}),
    "rnn": ("RNN", {"activations": ["Relu"]}),
    "rnn-both": (
        "RNN",
        {
            "direction": "bidirectional",
            "activations": ["Affine", "ScaledTanh"],
            "activation_alpha": [0.5, 0.8],
            "activation_beta": [0.1, 0.9],
        },
    ),
}


@pytest.mark.parametrize("lengths", ["none", "constant", "given"])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent(name: str, lengths: str, tmp_path: Path) -> None:
    op, attrs = RECURRENT[name]
    sides, rows = 2 if attrs.get("direction") == "bidirectional" else 1, GATES[op] * HIDDEN
    initial = [f(sides, BATCH, HIDDEN) for _ in range(2 if op == "LSTM" else 1)]
    peephole = [f(sides, 3 * HIDDEN)] if name == "lstm" else []
    arrays = [
        *(f(STEPS, BATCH, WIDTH), f(sides, rows, WIDTH), f(sides, rows, HIDDEN), f(sides, 2 * rows)),
        None if lengths == "none" else np.array([4, 1, 3], np.int32),
        *initial,
        *peephole,
    ]
    outputs, constants = (3 if op == "LSTM" else 2), ([4] if lengths == "constant" else [])
    agree(tmp_path, op, arrays, constants, outputs, hidden_size=HIDDEN, opset=14, **attrs)


EINSUM = [
    ("abc,cd,bd->ad", (2, 3, 4), (4, 5), (3, 5)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("iij,jk->ki", (3, 3, 2), (2, 4)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("i,j", (3,), (4,)),
    ("ab,ab->a", (3, 4), (3, 4)),
    ("ba", (2, 3)),
    ("bhwc,hkc->bhwk", (2, 3, 4, 5), (3, 6, 5)),
    ("a...,a->...", (3, 2, 4), (3,)),
]


@pytest.mark.parametrize("equation, shapes", [(equation, shapes) for equation, *shapes in EINSUM])
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [f(*shape) for shape in shapes]
    proto, feeds = single("Einsum", arrays, equation=equation)
    (found,) = evaluate(import_model(from_proto(proto), "einsum"), feeds).values()
    np.testing.assert_allclose(found, np.einsum(equation, *arrays), rtol=1e-4, atol=1e-5)
