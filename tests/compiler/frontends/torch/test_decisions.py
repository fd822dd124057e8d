"""What a module's Python decides by the contents of tensors: imported as the example decides, NaN where the data
decides otherwise, refused where training changes what it depends on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pockengine as pock
from pockengine import from_torch
from pockengine.errors import ModelError
from pockengine.interp import evaluate
from tests.sweeps import some

Expression = Callable[["Deciding", Tensor, Tensor], Tensor]
LENGTHS = torch.tensor([2, 1, 2])
OTHERS = torch.tensor([2, 2, 1])


class Deciding(nn.Module):
    probability: Tensor

    def __init__(self, expression: Expression) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("probability", torch.tensor([0.0, 1.0]))
        self.expression = expression

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.expression(self, x, lengths)


def _split(m: Deciding, x: Tensor, lengths: Tensor) -> Tensor:
    return torch.stack([part.mean(0) for part in m.fc(x).split(lengths.tolist())])


def _branch(m: Deciding, x: Tensor, lengths: Tensor) -> Tensor:
    return m.fc(x) if (lengths[1] == 1).any() else x * 2


def _membership(m: Deciding, x: Tensor, lengths: Tensor) -> Tensor:
    return m.fc(x) if 1 in lengths[:2] else x * 2


DECIDED: dict[str, Expression] = {
    "a branch": _branch,
    "a branch not taken": lambda m, x, lengths: x * 2 if (lengths[1] > 1).any() else m.fc(x),
    "membership": _membership,
    "a comparison": lambda m, x, lengths: m.fc(x) if torch.equal(lengths[:1], lengths[2:]) else x * 2,
    "sizes of parts": _split,
    "a size": lambda m, x, lengths: m.fc(x)[torch.arange(lengths[1].item())],
    "the end of a slice": lambda m, x, lengths: m.fc(x)[: lengths[1]],
    "a number": lambda m, x, lengths: m.fc(x) * int(lengths[1]) if int(lengths[1]) else x,
    "whole numbers chosen by a mask": lambda m, x, lengths: m.fc(x) * lengths[lengths == 1],
}


def test_whoever_imports_is_told() -> None:
    with pytest.warns(UserWarning, match=r"line \d+ of test_decisions.py \('return .*any\(\)") as told:
        pock.from_torch(Deciding(_branch), (torch.randn(3, 4), LENGTHS))
    assert Path(told[0].filename).name == Path(__file__).name and len(told) == 1


def test_nobody_is_told_where_nothing_is_decided(recwarn: pytest.WarningsRecorder) -> None:
    pock.from_torch(Deciding(lambda m, x, lengths: m.fc(x) * lengths[:, None]), (torch.randn(3, 4), LENGTHS))
    assert not [warning for warning in recwarn if "contents of tensors" in str(warning.message)]


@pytest.mark.parametrize("name", some(DECIDED, 2))
def test_a_decision_by_inputs_is_the_examples_and_nothing_is_wrong_in_silence(name: str) -> None:
    torch.manual_seed(0)
    module, x = Deciding(DECIDED[name]), torch.randn(5, 4)
    with pytest.warns(UserWarning, match="the contents of tensors decide"):
        graph = from_torch(module, (x, LENGTHS))
    found = evaluate(graph, {"x": x.numpy(), "lengths": LENGTHS.numpy(), **graph.data})["output"]
    np.testing.assert_allclose(found, module(x, LENGTHS).detach().numpy(), rtol=1e-5, atol=1e-6)
    others = OTHERS if name != "whole numbers chosen by a mask" else torch.tensor([1, 1, 3])
    assert np.isnan(evaluate(graph, {"x": x.numpy(), "lengths": others.numpy(), **graph.data})["output"]).all()


def test_a_decision_by_a_buffer_is_taken() -> None:
    torch.manual_seed(0)
    module = Deciding(lambda m, x, lengths: m.fc(x) if m.probability[1] > 0 else x)
    x = torch.randn(5, 4)
    with pytest.warns(UserWarning, match="the contents of tensors decide"):
        graph = from_torch(module, (x, LENGTHS))
    found = evaluate(graph, {"x": x.numpy(), "lengths": LENGTHS.numpy(), **graph.data})["output"]
    np.testing.assert_allclose(found, module(x, LENGTHS).detach().numpy(), rtol=1e-5, atol=1e-6)


def _learned(m: Deciding, x: Tensor, lengths: Tensor) -> Tensor:
    scores = torch.zeros(5)
    scores[1:] = m.fc(x)[1:, 0]
    if scores.sum() > -1e9:
        return x * 2
    return x


@pytest.mark.parametrize("by", [_learned, lambda m, x, lengths: x * 2 if m.fc.weight.abs().max() > 0 else x])
def test_a_decision_by_parameters_is_refused_with_its_line(by: Expression) -> None:
    with pytest.raises(ModelError, match=r"line \d+ of test_decisions.py \('.*'\) decides by what .* parameters"):
        from_torch(Deciding(by), (torch.randn(5, 4), LENGTHS))


def test_what_is_fixed_decides_without_a_condition() -> None:
    torch.manual_seed(0)
    module, x = Deciding(DECIDED["the end of a slice"]), torch.randn(5, 4)
    graph = from_torch(module, (x, LENGTHS), fixed=["lengths"])
    assert [value.name for value in graph.inputs] == ["x"]
    assert "where" not in {node.op for node in graph.nodes}
    found = evaluate(graph, {"x": x.numpy(), **graph.data})["output"]
    np.testing.assert_allclose(found, module(x, LENGTHS).detach().numpy(), rtol=1e-5, atol=1e-6)


class Sizes(nn.Module):
    """Returns sizes beside its tensors."""

    def forward(self, x: Tensor) -> dict[str, object]:
        return {"doubled": x * 2, "size": x.shape, "rows": x.shape[0], "halves": (x / 2, 0.5, "half")}


def test_numbers_and_texts_among_what_a_module_returns_are_no_outputs() -> None:
    x = torch.randn(3, 2)
    graph = from_torch(Sizes(), (x,))
    assert list(graph.outputs) == ["doubled", "halves.0"]
    found = evaluate(graph, {"x": x.numpy()})
    np.testing.assert_allclose(found["doubled"], (x * 2).numpy())
    np.testing.assert_allclose(found["halves.0"], (x / 2).numpy())
