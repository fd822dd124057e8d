"""Sequences of tensors fold away at import: against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper
from torch import Tensor, nn

from pockengine.errors import DynamicShapeError, ModelError
from pockengine.frontends import from_torch, load
from pockengine.interp import evaluate

from ..onnx_models import model, save

RNG = np.random.default_rng(0)
CONSTANTS = {
    "zero": np.asarray(0, np.int64),
    "one": np.asarray(1, np.int64),
    "minus_one": np.asarray(-1, np.int64),
    "two": np.asarray(2, np.int64),
    "sizes": np.asarray([1, 3, 1], np.int64),
}


def at(sequence: str, position: str, out: str):
    return helper.make_node("SequenceAt", [sequence, position], [out])


CASES = {
    "split in chunks": [
        helper.make_node("SplitToSequence", ["x", "two"], ["s"], axis=1),
        at("s", "minus_one", "a"),
        at("s", "zero", "b"),
    ],
    "split by sizes": [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["s"], axis=1),
        at("s", "one", "a"),
        helper.make_node("SequenceLength", ["s"], ["b"]),
    ],
    "split in ones": [
        helper.make_node("SplitToSequence", ["x"], ["s"], axis=-1, keepdims=0),
        helper.make_node("ConcatFromSequence", ["s"], ["a"], axis=1, new_axis=1),
        helper.make_node("ConcatFromSequence", ["s"], ["b"], axis=0),
    ],
    "built and changed": [
        helper.make_node("SequenceConstruct", ["x", "y"], ["s"]),
        helper.make_node("SequenceInsert", ["s", "z", "one"], ["longer"]),
        helper.make_node("SequenceErase", ["longer", "zero"], ["shorter"]),
        helper.make_node("Identity", ["shorter"], ["same"]),
        at("same", "zero", "a"),
        at("same", "one", "b"),
    ],
    "from nothing": [
        helper.make_node("SequenceEmpty", [], ["s"]),
        helper.make_node("SequenceInsert", ["s", "x"], ["one_long"]),
        helper.make_node("SequenceInsert", ["one_long", "z"], ["two_long"]),
        helper.make_node("SequenceErase", ["two_long"], ["again"]),
        at("again", "zero", "a"),
        helper.make_node("SequenceLength", ["two_long"], ["b"]),
    ],
}


def built(nodes, tmp_path):
    inputs = dict.fromkeys("xyz", (np.float32, (2, 5, 3)))
    return save(model(nodes, inputs, ["a", "b"], CONSTANTS), tmp_path / "model.onnx")


@pytest.mark.parametrize("name", CASES)
def test_sequences_fold_away(name, tmp_path):
    path = built(CASES[name], tmp_path)
    feeds = {name: RNG.standard_normal((2, 5, 3)).astype(np.float32) for name in "xyz"}
    typed = onnx.shape_inference.infer_shapes(onnx.load(path)).SerializeToString()
    expected = onnxruntime.InferenceSession(typed).run(["a", "b"], feeds)
    graph = load(path)
    found = evaluate(graph, {value.name: feeds[value.name] for value in graph.inputs})
    for ours, theirs in zip(found.values(), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_position_that_depends_on_data_is_refused(tmp_path):
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"]),
        helper.make_node("ArgMax", ["y"], ["place"], axis=0),
        at("s", "place", "a"),
        helper.make_node("SequenceLength", ["s"], ["b"]),
    ]
    with pytest.raises(DynamicShapeError, match="depends on data"):
        load(built(nodes, tmp_path))


def test_a_position_beyond_the_end_is_refused(tmp_path):
    nodes = [helper.make_node("SplitToSequence", ["x"], ["s"]), at("s", "two", "a"), at("s", "zero", "b")]
    with pytest.raises(ModelError, match="position 2 in a sequence of 2"):
        load(built(nodes, tmp_path))


class Halves(nn.Module):
    """PyTorch's exporter makes sequences of these."""

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, 1)
        first, *_ = x.split([1, 2, 3], 1)
        return left * right + first


def test_chunk_and_split_of_pytorch():
    x = torch.randn(2, 6, 4)
    found = evaluate(from_torch(Halves(), x), {"x": x.numpy()})["output"]
    np.testing.assert_allclose(found, Halves()(x).numpy(), rtol=1e-6)
