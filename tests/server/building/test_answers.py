"""Who answers questions on a model: a recipe that was asked for before is not planned again."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pock_server.worker import answer as answering
from pock_server.worker.lines import Lines
from pockengine.check import Estimate, estimate
from tests.e2e.small_model import RECIPE, make_files


@pytest.fixture(autouse=True)
def given_way(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """By how much who answers has given way: not this process, which goes on with other tests."""
    steps: list[int] = []
    monkeypatch.setattr(os, "nice", steps.append)
    return steps


def _answers(folder: Path, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    asked = "\n".join(json.dumps({"number": number, **one}) for number, one in enumerate(questions))
    told = io.StringIO()
    answering.answer(folder, Lines(told), io.StringIO(asked))
    answers = [json.loads(line) for line in told.getvalue().splitlines()]
    assert [one["event"] for one in answers] == ["answered"] * len(questions)
    return [one["content"] for one in answers]


def test_a_recipe_is_planned_once_for_each_target_and_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    made = make_files(tmp_path)
    made.model.rename(tmp_path / "model" / "model.onnx")
    planned: list[object] = []

    def counted(*given: Any) -> Estimate:
        planned.append(given)
        return estimate(*given)

    monkeypatch.setattr(answering, "estimate", counted)
    first: dict[str, Any] = {
        "ask": "estimate", "recipe": RECIPE, "target": "raspberry-pi-4", "threads": None, "memory": None,
    }  # fmt: skip
    others = [
        {**first, "target": "raspberry-pi-5"},
        {**first, "threads": 1},
        {**first, "memory": 64 << 20},
        {**first, "recipe": {**RECIPE, "update": "full"}},
        {**first, "target": "h100"},
    ]
    told = _answers(tmp_path, [first, *others, first, *others])
    assert len(planned) == 1 + len(others)
    assert told[: 1 + len(others)] == told[1 + len(others) :]
    assert len({json.dumps(one, sort_keys=True) for one in told}) >= 4


def test_an_approximation_is_near_what_is_planned(tmp_path: Path, given_way: list[int]) -> None:
    (tmp_path / "model").mkdir()
    make_files(tmp_path).model.rename(tmp_path / "model" / "model.onnx")
    about: dict[str, Any] = {"recipe": RECIPE, "target": "raspberry-pi-4", "threads": None, "memory": None}
    recipes = [
        {**RECIPE, "update": "full"},
        {**RECIPE, "update": [{"params": "head.*"}, {"params": "point.weight", "channels": 0.5}]},
        {**RECIPE, "update": [{"params": "head.bias"}], "lora": {"params": "head.weight", "rank": 2}},
    ]
    for recipe, target in zip(recipes, ("raspberry-pi-4", "h100", "host"), strict=True):
        about = {**about, "target": target}
        learning = {"ask": "approximate", **about, "recipe": recipe}
        *before, told = _answers(tmp_path, [learning] * 60)
        assert told["learned"] == 1 and told["takes"] is not None
        assert [one["learned"] for one in before] == sorted(one["learned"] for one in before)
        (planned,) = _answers(tmp_path, [{**about, "ask": "estimate", "recipe": recipe}])
        takes = told["takes"]
        for name in ("predicted_peak_bytes", "arena_bytes", "param_bytes", "step_ms"):
            assert takes[name] == pytest.approx(planned[name], rel=0.05), name
        for name in ("state_bytes", "input_bytes", "runtime_bytes", "trained_parameters"):
            assert takes[name] == pytest.approx(planned[name], abs=64), name
    third = {**RECIPE, "update": [{"params": "point.weight", "channels": 0.3}]}
    told = _answers(tmp_path, [{"ask": "approximate", **about, "recipe": third}] * 60)[-1]
    assert told == {"learned": 1, "takes": None}, "the space has no such share"
    assert given_way == [10] * 4, "once a process, and only for approximations"
