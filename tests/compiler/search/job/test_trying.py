"""Schemes that are tried: what is best when it is trained is taken, within the limits, with its learning rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pockengine.compile import Request, plan_programs, predicted_peak_bytes
from pockengine.errors import DataError, PockError
from pockengine.recipe import Recipe
from pockengine.search import Choice, Space
from pockengine.search.contributions import Work
from pockengine.search.contributions.earlier import earlier_first
from pockengine.search.job import Found, run, trying
from pockengine.search.job.found import EARLIER, GAINS
from pockengine.search.job.trying import best_of, try_schemes
from pockengine.search.rates import Rates
from pockengine.search.report import report_page
from tests.compiler.search.job.test_run import request

pytestmark = pytest.mark.large


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> dict[Choice, float | Exception]:
    """What each scheme comes to, in the order in which they were tried; 1.0 where nothing is said."""
    said: dict[Choice, float | Exception] = {}

    def find(space: Space, choice: Choice, recipe: Recipe, *_: Any) -> tuple[Rates, Recipe]:
        loss = said.setdefault(choice, 1.0)
        if isinstance(loss, Exception):
            raise loss
        return Rates({"everything": 0.01}, 4, 2, 8, 2.0, loss, ()), recipe

    monkeypatch.setattr(trying, "find_rates", find)
    return said


def test_the_best_when_trained_is_taken(losses: dict[Choice, float | Exception]) -> None:
    asked = request(lr_steps=4, tries=True)
    first = run(asked)
    assert first.chosen.method != "tried" and not first.chosen.notes, "of equals the largest gain"
    rows = {one.name: one for one in first.compared}
    assert {"found", GAINS, EARLIER, "full", "head", "bias", "evolved"} <= set(rows)
    assert rows["full"].loss is None and rows["full"].choice not in losses, "it does not fit"
    fitting = [one for one in first.compared if asked.limits.keeps(one.cost)]
    assert {one.choice for one in fitting} == set(losses) and all(one.loss == 1.0 for one in fitting)

    losses[rows["bias"].choice] = 0.5
    other = run(asked)
    assert other.chosen.choice == rows["bias"].choice and other.chosen.method == "tried"
    assert "Note: trained for 4 steps, 'bias' was better than the scheme of the largest gain." in other.recipe
    assert other.rates is not None and other.rates.loss == 0.5
    named = {one.name: one for one in other.compared}
    assert named["found"].loss == 0.5 and named[GAINS].choice == first.chosen.choice
    assert tuple(unit.option for unit in other.units) == other.chosen.choice
    assert "loss when tried" in report_page(other) and "the largest gain" in report_page(other)
    assert Found.from_mapping(other.to_mapping()) == other


def test_trained_for_real(tmp_path: Path) -> None:
    asked = request(lr_steps=3, tries=True, folder=tmp_path)
    found = run(asked)
    assert found.rates is not None and found.rates.loss == min(
        one.loss for one in found.compared if one.loss is not None
    )
    recipe = Recipe.parse(found.recipe)
    assert predicted_peak_bytes(plan_programs(Request(asked.graph, recipe, asked.target, 1))) == (
        found.chosen.cost.peak_bytes
    )
    assert {recipe.optimizer.lr, *(group.lr for group in recipe.optimizer.groups)} == set(found.rates.lr.values())
    stages: list[str] = []
    assert run(replace(asked, progress=lambda stage, done, total: stages.append(stage))) == found
    assert "try" not in stages, "it is known"
    assert run(request(folder=tmp_path)).rates is None, "another search"


def test_what_cannot_be_trained_is_left_out(losses: dict[Choice, float | Exception]) -> None:
    space = Space.of(request().graph, request().base)
    last = (*space.frozen[:-1], space.full[-1])
    schemes = {"a": space.full, "b": last, "c": space.full}
    losses[last] = PockError("diverges")
    seen: list[Sequence[object]] = []
    work = Work(progress=lambda *told: seen.append(told))
    found = try_schemes(space, schemes, {}, {}, 4, work)
    assert list(found) == ["a", "c"] and found["a"] is found["c"] and best_of(found) == "a"
    assert seen[-1] == ("try", 3, 3)
    losses[space.full] = DataError("too few samples")
    with pytest.raises(DataError, match="too few"):
        try_schemes(space, schemes, {}, {}, 4, work)


def test_rates_have_to_be_looked_for() -> None:
    with pytest.raises(PockError, match="give lr_steps"):
        request(tries=True)


def test_earlier_comes_first_after_the_head() -> None:
    space = Space.of(request().graph, request().base, (2,))
    gains = earlier_first(space)
    best = [max(row) for row in gains]
    head = [place for place, unit in enumerate(space.units) if unit.is_weight][-1]
    assert min(best[head:]) > best[0] > best[1] > best[head - 1] > 0
    assert all(
        row[len(unit.shares) :] == (0.0,) * len(unit.ranks) for row, unit in zip(gains, space.units, strict=True)
    )
    assert any(unit.ranks for unit in space.units)
