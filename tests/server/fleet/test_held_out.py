"""Runs that hold out a share of their data: what a device is told, and what its report says."""

from typing import Any

import pytest

from tests.server.campaigns.fleet import go_on
from tests.server.harness import Device, Person, Server, assert_problem

WHOLE = {"share": 0.25, "seed": 0, "every": 0, "patience": 3}


@pytest.fixture
def knowing(server: Server, person: Person) -> Device:
    """A device with an agent of today."""
    return server.device(person, {"target": "host", "agent_version": "0.2.0", "features": ["held-out"]})


def test_the_share_is_in_the_signed_work_and_the_result_in_the_report(
    server: Server, person: Person, knowing: Device
) -> None:
    run = server.run(person, knowing, held_out={"share": 0.25, "patience": 3}).json()
    assert run["held_out"] == WHOLE
    work = knowing.take_work()
    assert work is not None and work["run"]["held_out"] == WHOLE
    assert knowing.post("lease").status_code == 200
    told = {"share": 0.25, "seed": 0, "samples": 5, "of": 20, "by_class": True}
    report = {"train": {"best_step": 40, "stopped_early": True, "ended": "patience", "held_out": told}}
    assert knowing.post("result", state="succeeded", report=report).status_code == 200
    found = person.get(f"/runs/{run['id']}").json()["report"]["train"]
    assert (found["ended"], found["best_step"], found["held_out"]) == ("patience", 40, told)


def test_the_next_try_holds_out_the_same(server: Server, person: Person, knowing: Device) -> None:
    run = server.run(person, knowing, held_out=WHOLE, retries={"transient": 1}, retry_delay_seconds=0).json()
    assert knowing.take_work() is not None
    assert knowing.post("lease").status_code == 200
    assert knowing.post("result", state="failed", failure={"code": 20001, "detail": "for a while"}).status_code == 200
    again = person.get(f"/runs/{run['id']}").json()["retried_by"]
    assert person.get(f"/runs/{again}").json()["held_out"] == WHOLE


def test_each_run_of_a_campaign_holds_out_the_same(server: Server, person: Person, knowing: Device) -> None:
    old = server.device(person, {"target": "host", "agent_version": "0.1.0"})
    order = {"name": "held", "build_ids": [server.built(person)["id"]], "on": "*", "steps": 4, "held_out": WHOLE}
    made = person.post("/campaigns", {**order, "dataset_id": person.dataset()["id"]})
    assert made.status_code == 202 and made.json()["order"]["held_out"] == WHOLE, made.text
    for _ in range(3):
        go_on(server)
    work = knowing.take_work()
    assert work is not None and work["run"]["held_out"] == WHOLE
    cells = person.get(f"/campaigns/{made.json()['id']}/cells").json()["items"]
    (skipped,) = (cell for cell in cells if cell["device_id"] == old.id)
    assert skipped["state"] == "skipped" and "update it" in skipped["failure"]["detail"]


def test_a_campaign_without_training_holds_out_nothing(person: Person) -> None:
    order = {"name": "held", "build_ids": [person.build().json()["id"]], "on": "*", "steps": 4, "held_out": WHOLE}
    answer = person.post("/campaigns", {**order, "entry": "bench"})
    assert_problem(answer, 422, 1006)
    assert "held_out belongs to a training" in answer.json()["detail"]


def test_work_of_before_has_no_such_field(server: Server, person: Person, knowing: Device) -> None:
    assert server.run(person, knowing).json()["held_out"] is None
    work = knowing.take_work()
    assert work is not None and "held_out" not in work["run"]


def test_an_agent_of_before_is_refused(server: Server, person: Person, device: Device) -> None:
    answer = server.run(person, device, held_out=WHOLE)
    assert_problem(answer, 409, 1014)
    assert "cannot hold out a share of its data; update it" in answer.json()["detail"]


@pytest.mark.parametrize(
    "changes",
    [
        {"held_out": {"share": 0}},
        {"held_out": {"share": 1}},
        {"held_out": {"share": "nan"}},
        {"held_out": {"patience": 3}},
        {"held_out": {"share": 0.5, "every": -1}},
        {"held_out": WHOLE, "entry": "bench"},
    ],
    ids=str,
)
def test_what_is_no_share(server: Server, person: Person, knowing: Device, changes: dict[str, Any]) -> None:
    assert_problem(server.run(person, knowing, **changes), 422, 1006)
