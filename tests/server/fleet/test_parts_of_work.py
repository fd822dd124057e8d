"""Runs that are parts of longer works: their order, their earliest time, and who looks after them."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from pock_server.migrations.runner import downgrade, upgrade
from pock_server.runner.duties import Duty, fulfil
from pock_server.runner.sweeper import sweep_all
from pock_server.runs.schemas import Entry, RunIn
from pock_server.runs.service import request_run
from tests.server.harness import Device, Person, Server, assert_problem

WORK = "01900000-0000-7000-8000-000000000001"


def build(server: Server, person: Person) -> str:
    """The one build of these tests."""
    built = person.get("/builds").json()["items"]
    return str(built[0]["id"] if built else server.built(person)["id"])


def ask(server: Server, person: Person, device: Device, delay: float | None = None, **changes: Any) -> str:
    """A run of the longer work `WORK`; `delay`: seconds before which it must not begin."""
    chosen = {"build_id": build(server, person), "dataset_id": person.dataset()["id"], "device_id": device.id}
    order = RunIn(**{**chosen, "steps": 1, **changes})
    now = server.clock.now()
    not_before = None if delay is None else now + timedelta(seconds=delay)
    workspace_id = person.get("/me").json()["workspace"]["id"]
    with server.services.database.write() as unit:
        return request_run(unit, workspace_id, order, server.services.settings, now, WORK, not_before).id


def test_highest_priority_comes_first_then_the_oldest(server: Server, person: Person, device: Device) -> None:
    runs = [
        server.run(person, device, build(server, person), priority=priority).json()["id"] for priority in (0, -5, 7, 7)
    ]
    places = [person.get(f"/runs/{run}").json()["queue_position"] for run in runs]
    assert places == [3, 4, 1, 2]
    taken = []
    for _ in runs:
        work = device.take_work()
        assert work is not None
        taken.append(work["run_id"])
        device.post("lease")
        device.post("result", state="succeeded")
    assert taken == [runs[2], runs[3], runs[0], runs[1]]


@pytest.mark.parametrize("priority", [-101, 101, "high"])
def test_no_other_priorities(server: Server, person: Person, device: Device, priority: object) -> None:
    assert_problem(server.run(person, device, build(server, person), priority=priority), 422, 1006)


def test_a_run_waits_for_its_time_and_its_deadline_counts_from_there(
    server: Server, person: Person, device: Device
) -> None:
    later = ask(server, person, device, delay=100, queue_deadline_seconds=50)
    assert device.take_work() is None
    server.clock.advance(99)
    sweep_all(server.services)
    assert device.take_work() is None
    server.clock.advance(2)
    work = device.take_work()
    assert work is not None and work["run_id"] == later


def test_a_run_that_waits_for_its_time_holds_up_no_other(server: Server, person: Person, device: Device) -> None:
    ask(server, person, device, delay=100, priority=100)
    now = ask(server, person, device)
    work = device.take_work()
    assert work is not None and work["run_id"] == now


def test_runs_of_one_work_are_listed(server: Server, person: Person, device: Device) -> None:
    part = ask(server, person, device)
    server.run(person, device, build(server, person))
    assert [run["id"] for run in person.get(f"/runs?part_of={WORK}").json()["items"]] == [part]
    assert person.get(f"/runs/{part}").json()["part_of"] == WORK


def test_only_a_benchmark_needs_no_dataset(server: Server, person: Person, device: Device) -> None:
    for entry in (Entry.TRAIN, Entry.EVAL):
        answer = server.run(person, device, build(server, person), dataset_id=None, entry=entry)
        assert_problem(answer, 422, 1006)
        assert "dataset_id is missing" in answer.json()["detail"]
    run = server.run(person, device, build(server, person), dataset_id=None, entry="bench").json()
    assert run["dataset"] is None and run["dataset_id"] is None
    work = device.take_work()
    assert work is not None and work["data"] == {"train": None, "eval": None}
    assert person.get("/runs").json()["items"][0]["id"] == run["id"]
    device.post("lease")
    assert device.post("result", state="succeeded").json() == {"state": "succeeded"}


def test_a_work_that_cannot_be_dealt_with_holds_up_no_other(server: Server) -> None:
    done = []

    def deal(_services: object, workspace_id: str, row_id: str) -> None:
        if row_id == "bad":
            raise ValueError("broken")
        done.append((workspace_id, row_id))

    duty = Duty("thing", lambda session, now: [("w", "bad"), ("w", "good")], deal)
    fulfil(server.services, (duty, duty))
    assert done == [("w", "good")] * 2


def test_downgrade_keeps_all_but_runs_without_a_dataset(server: Server, person: Person, device: Device) -> None:
    kept = server.run(person, device, build(server, person), save_weights=True).json()["id"]
    server.run(person, device, build(server, person), dataset_id=None, entry="bench")
    engine = server.services.database.engine
    downgrade(engine, "0019")
    with engine.begin() as connection:
        assert [row.id for row in connection.execute(text("SELECT id FROM runs"))] == [kept]
        assert connection.scalar(text("SELECT count(*) FROM events")) >= 1
    with pytest.raises(Exception, match=r"(?i)not.null"), engine.begin() as connection:
        connection.execute(text("UPDATE runs SET dataset_id = NULL"))
    upgrade(engine)
    assert person.get(f"/runs/{kept}").json()["state"] == "queued"
