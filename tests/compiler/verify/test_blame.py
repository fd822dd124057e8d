"""A kernel and a pass that are broken on purpose: `verify` names the value, its node, the passes and the kernel."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.c.backend import CBackend
from pockengine.codegen.native.library import NativeModel
from pockengine.ir import Array, Graph, Node
from pockengine.plan.pipeline import PIPELINE, Pipeline
from pockengine.plan.program import Lowered
from pockengine.recipe import Recipe
from pockengine.targets import Target
from pockengine.verify import Report, verify
from pockengine.verify.culprit import Culprit, Wrong

from .test_verify import Block, X

RECIPE = Recipe("mse", {"name": "sgd", "lr": 0.1})


def found(report: Report) -> Culprit:
    assert not report.agrees and report.culprit is not None and report.first == report.culprit.sentence()
    assert json.loads(json.dumps(report.to_mapping()))["culprit"]["value"] == report.culprit.value
    return report.culprit


def test_a_wrong_kernel_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lower = CBackend.lower
    broken: set[str] = set()

    def wrong(self: CBackend, node: Node, target: Target, threads: int) -> Lowered:
        lowered = lower(self, node, target, threads)
        if node.phase != "forward":
            return lowered
        calls = []
        for call in lowered.calls:
            source = call.kernel.source.replace("= pock_tanh(", "= 1.1f * pock_tanh(")
            broken.update({call.kernel.symbol} if source != call.kernel.source else ())
            calls.append(dataclasses.replace(call, kernel=dataclasses.replace(call.kernel, source=source)))
        return dataclasses.replace(lowered, calls=tuple(calls))

    monkeypatch.setattr(CBackend, "lower", wrong)
    culprit = found(verify(Block(), (X,), RECIPE, steps=1, dump=tmp_path))
    assert culprit.wrong is Wrong.KERNEL and set(culprit.kernels) <= broken
    assert "tanh" in culprit.operator and culprit.phase == "forward" and culprit.error == pytest.approx(0.1, rel=1e-3)
    assert culprit.passes[-1] == "fuse" and culprit.node.startswith("node_")
    assert culprit.file is not None and "1.1f * pock_tanh(" in Path(culprit.file).read_text()
    assert f"its kernel '{culprit.kernels[0]}'" in culprit.sentence() and "→ fuse" in culprit.sentence()


def test_a_wrong_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(graph: Graph, context: object) -> Graph:
        nodes = (dataclasses.replace(node, op="sigmoid") if node.op == "tanh" else node for node in graph.nodes)
        return graph.with_(nodes=tuple(nodes))

    algebra = tuple(
        dataclasses.replace(one, apply=wrong) if one.name == "push_scale" else one for one in PIPELINE.algebra
    )
    pipeline: Pipeline = dataclasses.replace(PIPELINE, algebra=algebra)
    monkeypatch.setattr(CBackend, "pipeline", pipeline)
    culprit = found(verify(Block(), (X,), RECIPE, steps=1))
    assert culprit.wrong is Wrong.PASS and culprit.passes[-1] == "push_scale"
    assert culprit.operator == "sigmoid" and culprit.node == "node_tanh" and culprit.kernels and culprit.file is None
    assert "the pass 'push_scale' changes what the step computes" in culprit.sentence()


def test_a_wrong_run_of_right_kernels_is_told_from_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the plan overwrote a weight: what `step` leaves is another, though each kernel is right."""
    step = NativeModel.step

    def wrong(self: NativeModel, batch: list[Array]) -> float:
        loss = step(self, batch)
        weight = np.empty((3, 6), np.float32)
        self.get("head.weight", weight)
        self.set("head.weight", weight + np.float32(0.5))
        return loss

    monkeypatch.setattr(NativeModel, "step", wrong)
    report = verify(Block(), (X,), RECIPE, steps=1)
    assert report.wrong == ("head.weight",) and report.culprit is None
    assert "what differs is where the memory plan puts a value, or how the program runs its kernels" in str(
        report.first
    )
