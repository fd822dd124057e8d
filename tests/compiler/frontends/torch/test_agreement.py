"""An imported module that computes something else than the module is refused, and the place is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pockengine.errors import ModelError
from pockengine.frontends import from_torch
from pockengine.frontends.operators import registry
from pockengine.frontends.torch import agreement
from pockengine.frontends.torch.kernels import KERNELS
from pockengine.interp import evaluate, run_node
from pockengine.ir import Graph, Value
from pockengine.ops import Emitter, get
from tests.compiler.records import graph_of, inputs_of


class Block(nn.Module):
    """Two layers, and between them the functions that the tests tamper with."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)
        self.inner = nn.Sequential(nn.Softplus(), nn.LayerNorm(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.inner(self.first(x))))


X = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))


def tamper(monkeypatch: pytest.MonkeyPatch, operator: str, wrong: Callable[[Emitter, Value], Value]) -> None:
    """Let an ONNX operator be translated to another function of its first input."""

    def convert(c: Any) -> list[Value]:
        c.read.update(c.attributes)
        return [wrong(c.e, c.operands[0])]

    monkeypatch.setitem(registry._CONVERTERS, operator, convert)


def sine(e: Emitter, x: Value) -> Value:
    return e.op("sin", x)


def test_a_wrong_translation_is_refused_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tamper(monkeypatch, "LayerNormalization", sine)
    with pytest.raises(ModelError) as caught:
        from_torch(Block(), (X,))
    words = ["Block", "'output'", "is off by", "'layer_norm' in 'inner.1'", "node_layer_norm", "line"]
    assert [word for word in words if word not in str(caught.value)] == []


def test_it_names_the_first_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    for operator in ("Softplus", "Tanh"):
        tamper(monkeypatch, operator, sine)
    with pytest.raises(ModelError, match="the two part at 'softplus' in 'inner.0'"):
        from_torch(Block(), (X,))


class Wavering(nn.Module):
    """A branch that depends on data: the exporter writes down the one that it is not told to take."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        scale = 2.0 if torch.compiler.is_exporting() else 3.0
        return torch.relu(self.layer(x)) * scale


def test_an_export_that_is_another_function_is_refused() -> None:
    with pytest.raises(ModelError, match=r"'output' is off by .* part at 'mul' \(test_agreement.py, line \d+\)"):
        from_torch(Wavering(), (X,))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(6, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(x) * self.calls


def test_a_module_that_never_computes_the_same_is_refused_as_such() -> None:
    with pytest.raises(ModelError, match="Counting gives other outputs each time"):
        from_torch(Counting(), (X,))


class Indices(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"best": x.argmax(-1), "scaled": x * 2}


def test_integers_must_be_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    from_torch(Indices(), (X,))
    tamper(monkeypatch, "ArgMax", lambda e, x: e.reshape(e.op("argmax", e.op("neg", x), axis=1), (4,)))
    with pytest.raises(ModelError, match="'best' differs in 4 of 4 elements"):
        from_torch(Indices(), (X,))


def test_roundings_are_not_differences() -> None:
    """A deep network that amplifies rounding: float32 programs disagree, and are as far from float64 as each other."""

    class Chaos(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(18):
                x = 3.9 * x * (1 - x)
            return x

    x = torch.rand(4, 6, generator=torch.Generator().manual_seed(2))
    graph = from_torch(Chaos(), (x,))
    found = evaluate(graph, {"x": x.numpy()})["output"]
    exact = evaluate(graph, {"x": x.double().numpy()})["output"]
    assert np.abs(found - exact).max() > 1e-4


def test_large_models_are_compared_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    tamper(monkeypatch, "Tanh", sine)
    monkeypatch.setattr(agreement, "MOST_OPERATIONS", 10)
    assert isinstance(from_torch(Block(), (X,)), Graph)
    with pytest.raises(ModelError, match="'tanh'"):
        from_torch(Block(), (X,), verify=True)


def test_parts_stay_in_their_modes() -> None:
    module = Block()
    module.inner.eval()
    with agreement.evaluating(module):
        assert not module.training and not module.first.training
    assert module.training and module.first.training and not module.inner.training


@pytest.mark.parametrize("name", KERNELS)
def test_pytorchs_kernels_compute_what_the_references_do(name: str) -> None:
    for sample in get(name).samples:
        graph = graph_of(get(name), sample)
        arrays = inputs_of(graph, sample)
        (node,), inputs = graph.nodes, [arrays[value.name] for value in graph.inputs]
        for found, wanted in zip(run_node(node, inputs, KERNELS), run_node(node, inputs), strict=True):
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
