"""Every operator set from 13 to the newest: the same networks, written by PyTorch's older exporter and converted."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import version_converter
from torch import nn

from pockengine.errors import PockError
from pockengine.frontends.onnx.file import from_proto
from pockengine.frontends.onnx.importer import OLDEST_OPSET, import_model
from pockengine.interp import evaluate

NEWEST = onnx.defs.onnx_opset_version()


class Pictures(nn.Module):
    """What changed between operator sets: batch norm, resize, pad, split, squeeze, clip, reductions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.group = nn.GroupNorm(2, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.relu6(self.norm(self.conv(nn.functional.pad(x, (1, 0, 1, 0), mode="reflect"))))
        a, b = self.group(x).chunk(2, dim=1)
        x = nn.functional.interpolate(a * torch.sigmoid(b), scale_factor=2, mode="bilinear", align_corners=False)
        spread = x.sum(3, keepdim=True).std(2, keepdim=True)
        x = x.clamp(-1, 1).mean((2, 3), keepdim=True) + x.amax((2, 3), keepdim=True) + spread
        return x.squeeze(-1).squeeze(-1)


class Words(nn.Module):
    """Embedding, layer norm, softmax, gather, where, cumulative positions, GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 16)
        self.norm = nn.LayerNorm(16)
        self.mixed = nn.Linear(16, 48)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = (x != 0)[:, None, :]
        hidden = self.norm(self.table(x) + self.table(torch.cumsum(mask[:, 0].long(), 1).clamp(max=31)))
        q, k, v = self.mixed(hidden).split(16, dim=-1)
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(~mask, -1e9)
        hidden = hidden + nn.functional.gelu(torch.softmax(scores, -1) @ v)
        return self.head(hidden[:, 0]).log_softmax(-1)


def inputs(kind: type[nn.Module]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    if kind is Words:
        return torch.randint(0, 32, (2, 7), generator=generator)
    return torch.randn(2, 3, 9, 9, generator=generator)


@pytest.fixture(scope="module", params=[Pictures, Words], ids=["pictures", "words"])
def network(request, tmp_path_factory):
    """(file of operator set 13, example input, PyTorch's output)."""
    torch.manual_seed(0)
    module, example = request.param().eval(), inputs(request.param)
    path = tmp_path_factory.mktemp("opsets") / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (example,), path, dynamo=False, opset_version=OLDEST_OPSET, input_names=["x"])
    with torch.no_grad():
        return onnx.load(path), example.numpy(), module(example).numpy()


@pytest.mark.parametrize("opset", range(OLDEST_OPSET, NEWEST + 1))
def test_opset(network, opset):
    proto, example, expected = network
    converted = version_converter.convert_version(proto, opset) if opset != OLDEST_OPSET else proto
    assert converted.opset_import[0].version == opset
    graph = import_model(from_proto(converted), "model")
    (found,) = evaluate(graph, {"x": example}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_older_than_the_oldest(network):
    proto, _, _ = network
    old = onnx.ModelProto()
    old.CopyFrom(proto)
    old.opset_import[0].version = OLDEST_OPSET - 1
    with pytest.raises(PockError, match=f"export it again with opset {OLDEST_OPSET}"):
        import_model(from_proto(old), "old")


def test_runtime_agrees(network):
    """The oracle itself: ONNX Runtime computes what PyTorch does from the file."""
    proto, example, expected = network
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    np.testing.assert_allclose(session.run(None, {"x": example})[0], expected, rtol=1e-4, atol=1e-5)
