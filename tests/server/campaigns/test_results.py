"""What campaigns measured: medians and spread, and the same for spreadsheets."""

import csv
import io
import math
from typing import Any

import pytest

from pock_server.campaigns.measuring import measure
from tests.server.campaigns.fleet import board, boards, cells, go_on, started, work
from tests.server.harness import Person, Server


def test_results_are_medians_and_spread_over_devices_and_seeds(server: Server, person: Person) -> None:
    devices = boards(server, person, 2)
    campaign = started(server, person, seeds=[1, 2])
    times = iter((1.0, 2.0, 3.0, 10.0))
    for _ in range(2):
        go_on(server)
        for device in devices:
            assert work(device, next(times))
    go_on(server)
    (row,) = person.get(f"/campaigns/{campaign}/results").json()["rows"]
    assert row["build"] == "net:v1" and row["device_name"] is None and row["cells"]["succeeded"] == 4
    assert row["step_ms"] == {"n": 4, "median": 2.5, "low": pytest.approx(1.3), "high": pytest.approx(7.9)}
    assert row["peak_bytes"]["median"] == 2500 and row["joules_per_step"] is None
    assert row["loss"] == {"n": 4, "median": 0.5, "low": 0.5, "high": 0.5} and row["accuracy"]["median"] == 0.9
    by_device = person.get(f"/campaigns/{campaign}/results?by=device").json()["rows"]
    assert [(one["device_name"], one["step_ms"]["median"]) for one in by_device] == [("host 0", 2.0), ("host 1", 6.0)]
    for cell in cells(person, campaign):
        person.call("DELETE", f"/runs/{cell['run_id']}")
    assert person.get(f"/campaigns/{campaign}/results").json()["rows"] == [row]


def test_results_say_what_is_trained_where_it_has_a_name(server: Server, person: Person) -> None:
    boards(server, person, 1)
    nameless = started(server, person)
    (row,) = person.get(f"/campaigns/{nameless}/results").json()["rows"]
    assert row["recipe"] is None
    recipe = person.post("/recipes", {"name": "last4", "text": "batch: 4"}).json()["id"]
    campaign = started(server, person, model_id=person.model()["id"], recipe_ids=[recipe], targets=["host"])
    (row,) = person.get(f"/campaigns/{campaign}/results").json()["rows"]
    assert row["recipe"] == "last4:v1"


def test_results_as_csv_compute_nothing(server: Server, person: Person) -> None:
    board(server, person, "=HYPERLINK(1)")
    campaign = started(server, person)
    answer = person.get(f"/campaigns/{campaign}/results?by=device&format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert row["device_name"] == "'=HYPERLINK(1)" and row["total"] == row["pending"] == "1" and row["loss_n"] == "0"


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({}, {}),
        ({"train": None, "eval_after": 5}, {}),
        ({"train": {"step_ms": {"median": math.inf}, "loss": [], "peak_rss_bytes": 10**30, "energy": 3}}, {}),
        ({"train": {"step_ms": [1], "loss": ["x"], "peak_rss_bytes": True, "energy": {"joules_per_step": "1"}}}, {}),
        ({"eval_after": {"accuracy": 0.5, "loss": [2.0]}}, {"accuracy": 0.5, "loss": 2.0}),
        ({"train": {"best_step": 2, "evaluations": [{"step": 1}, {"step": 2, "accuracy": 0.7}]}}, {"accuracy": 0.7}),
        ({"train": {"evaluations": [{"accuracy": 0.7}], "best_step": None}}, {}),
        ({"train": {"evaluations": {"step": 3}, "best_step": 3}}, {}),
        (
            {"train": {"energy": {"joules_per_step": 0.1}}, "eval_before": {"accuracy": 0.1}},
            {"joules_per_step": 0.1, "accuracy": 0.1},
        ),
    ],
)
def test_what_devices_report_is_measured_or_left(told: dict[str, Any], found: dict[str, float]) -> None:
    assert measure(told) == found
