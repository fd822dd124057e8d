"""`verify`: a module that trains as PyTorch trains it, and faults put into the compiler, each found and named."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from torch import Tensor, nn

import pockengine as pock
from pockengine.errors import ModelError
from pockengine.ops import registry
from pockengine.recipe import Recipe
from pockengine.verify import Report, Verdict, verify


class Block(nn.Module):
    """Attention-like: `key` has a bias that changes nothing, whose gradient is what rounding leaves of zero."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value = (nn.Linear(6, 6) for _ in range(3))
        self.act, self.head = nn.Sequential(nn.Tanh()), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        return self.head(self.act(scores.softmax(-1) @ self.value(x)).mean(1))


X = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(1))


def break_gradient(monkeypatch: pytest.MonkeyPatch, op: str, factor: float) -> None:
    """Let the gradient of an op be off by a factor."""
    record = registry.get(op)
    rule = record.vjps[0]
    assert rule is not None
    wrong = dataclasses.replace(record, vjps=(lambda e, n, d: e.mul(rule(e, n, d), factor), *record.vjps[1:]))
    monkeypatch.setitem(registry._REGISTRY, op, wrong)


def test_a_module_that_trains_alike() -> None:
    """Also with AdamW, which makes whole steps of the rounding in `key.bias`: float64 decides there."""
    report = verify(Block(), (X,), Recipe(optimizer={"name": "adamw", "lr": 0.01, "eps": 1e-12}))
    assert report.agrees and report.first is None
    verdicts = {change.name: change.verdict for change in report.changes}
    assert verdicts.pop("key.bias") is Verdict.ROUNDING
    assert set(verdicts.values()) == {Verdict.SAME}
    assert {change.name for change in report.changes} == dict(Block().named_parameters()).keys()
    assert report.sentence().startswith("Block trains as PyTorch does: 3 steps, 8 tensors")
    assert json.loads(json.dumps(report.to_mapping()))["agrees"] is True


def test_a_wrong_gradient_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    break_gradient(monkeypatch, "tanh", 1.1)
    report = verify(Block(), (X,), Recipe(optimizer="adamw", update=[{"params": "*.weight"}]), steps=1)
    assert not report.agrees
    assert "head.weight" not in report.wrong and {"value.weight", "query.weight"} <= set(report.wrong)
    assert report.first is not None and "backward part" in report.first
    # What is wrong is the gradient of what tanh reads: the product before it.
    assert "'matmul'" in report.first or "'__matmul__'" in report.first, report.first
    assert "does not train as PyTorch does" in report.sentence()


def test_a_wrong_update_is_told_from_a_wrong_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    record = registry.get("sgd")
    expand = record.expand
    assert expand is not None

    def wrong(e, inputs, attrs):
        return expand(e, [inputs[0], e.mul(inputs[1], 2.0), *inputs[2:]], attrs)

    monkeypatch.setitem(registry._REGISTRY, "sgd", dataclasses.replace(record, expand=wrong))
    report = verify(Block(), (X,), Recipe(optimizer={"name": "sgd", "lr": 0.1}), steps=1)
    assert all(change.agrees for change in report.gradients)
    assert not any(change.agrees for change in report.changes if change.name == "head.weight")
    assert "the reference backend trains as the compiled program does" in str(report.first)
    assert "optimizer's update" in str(report.first) and report.culprit is None


def test_importing_verifies_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pock.from_torch(Block(), (X,), verify=True).outputs
    break_gradient(monkeypatch, "tanh", 0.5)
    assert pock.from_torch(Block(), (X,)).outputs
    with pytest.raises(ModelError, match=r"Block does not train as PyTorch does: .* backward part"):
        pock.from_torch(Block(), (X,), verify=True)


class Doubled(torch.autograd.Function):
    """x, whose gradient is doubled."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 2.0 * gradient


class Pooled(nn.Module):
    """The rows that `lengths` counts, one group after the other, each summed: a shape that depends on contents."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.head = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        parts = torch.split(Doubled.apply(self.fc(x)), lengths.tolist(), dim=1)
        return self.head(sum(part.sum(1).tanh() for part in parts))


def test_what_importing_needs_to_be_told() -> None:
    arguments, recipe = (X, torch.tensor([2, 3])), Recipe(optimizer={"name": "sgd", "lr": 0.1})
    report = verify(Pooled(), arguments, recipe, functions={Doubled: lambda x: 2.0 * x}, fixed=["lengths"])
    assert report.agrees, report.sentence()
    report = verify(Pooled(), arguments, recipe, functions={Doubled: lambda x: x}, fixed=["lengths"], steps=1)
    assert report.wrong == ("fc.weight", "fc.bias")
    graph = pock.from_torch(Block(), (X,))
    with pytest.raises(ModelError, match="given a graph and how to import one"):
        verify(Block(), (X,), recipe, graph=graph, fixed=["x"])


def test_a_report_counts_what_differs() -> None:
    from pockengine.verify import Change

    bad = Change("w", 1.0, 2.0, 0.5, Verdict.DIFFERENT)
    report = Report("Net", "PyTorch", 1, ((1.0, 1.5, Verdict.DIFFERENT),), (), (bad,))
    assert report.sentence() == (
        "Net does not train as PyTorch does: 1 of 1 tensors differ ('w'), the loss of step 1 is 1 and should be 1.5"
    )
