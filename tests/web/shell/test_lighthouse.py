"""The audit by Lighthouse goes to every view that the page has, and reads Lighthouse's report."""

import re
from typing import Any

import pytest

from benchmarks.page.furnished import VIEWS
from benchmarks.page.lighthouse import main, slowdown, summary, verdict_of
from tests.web.conftest import WEB


def audited(score: float | None, weight: int) -> dict[str, Any]:
    """A report in which an audit of accessibility has this score and weight."""
    reference = [{"id": "label", "weight": weight}]
    return {
        "environment": {"benchmarkIndex": 1533},
        "categories": {
            "performance": {"score": 0.99, "auditRefs": []},
            "accessibility": {"score": 0.94, "auditRefs": reference},
            "best-practices": {"score": 1, "auditRefs": []},
        },
        "audits": {"label": {"title": "Form elements do not have labels", "score": score, "displayValue": ""}},
    }


def test_every_view_of_the_page_is_audited() -> None:
    table = (WEB / "src" / "views" / "table_of_views.ts").read_text()
    known = {pattern.replace(":id", "*") for pattern in re.findall(r'pattern: "([^"]*)"', table)}
    paths = (address.partition("?")[0].strip("/") for address in VIEWS.values())
    assert known and {re.sub(r"{\w+}", "*", path) for path in paths} == known


@pytest.mark.parametrize(
    ("score", "weight", "faults"), [(0, 7, ["Form elements do not have labels"]), (0, 0, []), (None, 7, []), (1, 7, [])]
)
def test_a_verdict_tells_scores_and_what_cost_points(score: float | None, weight: int, faults: list[str]) -> None:
    verdict = verdict_of("run", "desktop", audited(score, weight))
    assert verdict.scores == {"performance": 99, "accessibility": 94, "best-practices": 100}
    assert verdict.faults == faults
    assert not verdict.good


def test_the_table_has_a_row_for_each_view() -> None:
    verdicts = [verdict_of(view, form, audited(1, 1)) for form in ("desktop", "phone") for view in ("runs", "run")]
    machine, _, head, _, *rows = summary(verdicts).splitlines()
    assert machine == "The machine's index was 1533; a phone was taken to be 4.0 times slower."
    assert head == "| view | desktop | phone |"
    assert rows == ["| runs | 99 / 94 / 100 | 99 / 94 / 100 |", "| run | 99 / 94 / 100 | 99 / 94 / 100 |"]


@pytest.mark.parametrize(("index", "times"), [(2000, 6), (1300, 3), (800, 2), (475, 1.5), (150, 1), (20, 1)])
def test_a_phone_is_the_same_one_on_every_machine(index: float, times: float) -> None:
    assert slowdown(index) == pytest.approx(times, abs=0.01)


def test_a_view_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--views", "runs,cellar"])
    assert "there is no view 'cellar'; there are: sign-in; overview;" in capsys.readouterr().err
