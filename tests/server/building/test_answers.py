"""Who answers questions on a model: a recipe that was asked for before is not planned again."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from pock_server.worker import answer as answering
from pock_server.worker.lines import Lines
from pockengine.check import Estimate, estimate
from tests.e2e.small_model import RECIPE, make_files


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
