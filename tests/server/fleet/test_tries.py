"""Runs that are tried again, by class of failure, and runs that wait for a build or another run."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from pock_server.migrations.runner import downgrade, upgrade
from pock_server.runner.claims import Broken
from pock_server.runner.duties import DUTIES, fulfil
from pock_server.runner.sweeper import sweep_all
from pock_server.runs.failures import FailureClass, class_of
from pock_server.runs.waiting import end_wait
from tests.server.harness import Device, Person, Server, assert_problem, sse

UNKNOWN = "018f0000-0000-7000-8000-000000000000"
CODES = {
    "transient": (1000, 1024, 20001, 29_999),
    "crashed": (2001,),
    "disk_full": (2002,),
    "out_of_memory": (2003, 10002),
    "verification": (2004,),
    "device_lost": (2005,),
    "dependency": (2006,),
    "model": (3001, 3999),
    "timeout": (10001,),
    "user": (10003, 10004, 10005),
    "other": (1, 2999, 4000, 99_999),
}


def fail_with(device: Device, code: int) -> str:
    """The device takes its next run, and reports this failure; the run's id."""
    work = device.take_work()
    assert work is not None
    device.post("lease")
    assert device.post("result", state="failed", failure={"code": code, "detail": "Bad luck."}).status_code == 200
    return str(work["run_id"])


def succeed(device: Device) -> str:
    work = device.take_work()
    assert work is not None
    device.post("lease")
    assert device.post("result", state="succeeded").status_code == 200
    return str(work["run_id"])


def get(person: Person, run_id: str) -> dict[str, Any]:
    return dict(person.get(f"/runs/{run_id}").json())


def go_on(server: Server) -> None:
    fulfil(server.services, DUTIES)


def test_each_code_has_a_class() -> None:
    assert set(CODES) == set(FailureClass)
    for kind, codes in CODES.items():
        assert [class_of(code) for code in codes] == [kind] * len(codes)


def test_a_failed_run_is_tried_again_as_often_as_its_class_may_be(
    server: Server, person: Person, device: Device
) -> None:
    first = server.run(person, device, retries={"crashed": 2, "timeout": 1}, priority=7, seed=5).json()
    assert first["retries"] == {"crashed": 2, "timeout": 1} and first["retry"] == 0
    ids = [first["id"]]
    for delay in (30, 60):
        assert fail_with(device, 2001) == ids[-1]
        again = get(person, ids[-1])["retried_by"]
        assert device.take_work() is None, "it waits for its time"
        server.clock.advance(delay - 1)
        assert device.take_work() is None
        server.clock.advance(1)
        ids.append(again)
    assert fail_with(device, 2001) == ids[-1]
    last = get(person, ids[-1])
    assert last["retried_by"] is None and last["retry"] == 2 and last["retry_of"] == ids[-2]
    assert last["retries"] == {"crashed": 0, "timeout": 1}
    for name in ("build_id", "device_id", "dataset_id", "steps", "threads", "seed", "priority", "entry"):
        assert last[name] == first[name]
    assert len(person.get("/runs").json()["items"]) == 3
    assert [run["id"] for run in person.get("/runs?retried=false").json()["items"]] == [ids[-1]]


def test_by_default_only_what_passes_is_tried_again(server: Server, person: Person, device: Device) -> None:
    first = server.run(person, device).json()
    assert first["retries"] == {"transient": 3}
    lost = fail_with(device, 2001)
    assert get(person, lost)["retried_by"] is None
    server.run(person, device, first["build_id"])
    passing = fail_with(device, 20001)
    assert get(person, get(person, passing)["retried_by"])["retries"] == {"transient": 2}


def test_a_policy_may_be_none(server: Server, person: Person, device: Device) -> None:
    server.run(person, device, retries={})
    assert get(person, fail_with(device, 20001))["retried_by"] is None


def test_a_device_that_is_lost_gets_its_run_again(server: Server, person: Person, device: Device) -> None:
    server.run(person, device, retries={"device_lost": 1}, retry_delay_seconds=0)
    for _ in range(3):
        device.take_work()
        device.post("lease")
        server.clock.advance(server.services.settings.lease_seconds + 1)
        sweep_all(server.services)
    (again, first) = person.get("/runs").json()["items"]
    assert first["failure"]["code"] == 2005 and first["retried_by"] == again["id"]
    server.clock.advance(1)
    device.open_session()
    assert succeed(device) == again["id"]


def test_nothing_is_tried_again_on_a_device_that_was_revoked(server: Server, person: Person, device: Device) -> None:
    run_id = server.run(person, device, retries={"device_lost": 5}).json()["id"]
    person.call("DELETE", f"/devices/{device.id}")
    assert get(person, run_id)["failure"]["code"] == 2005
    assert len(person.get("/runs").json()["items"]) == 1


@pytest.mark.in_process("breaks a transaction of the service")
def test_a_failure_and_its_next_try_are_written_together_or_not_at_all(
    server: Server, person: Person, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = server.run(person, device, retries={"crashed": 1}).json()["id"]
    device.take_work()
    device.post("lease")
    commit: Callable[[Session], None] = Session.commit

    def broken(session: Session) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(Session, "commit", broken)
    assert device.post("result", state="failed", failure={"code": 2001, "detail": "x"}).status_code == 500
    monkeypatch.setattr(Session, "commit", commit)
    assert get(person, run_id)["state"] == "running" and len(person.get("/runs").json()["items"]) == 1
    for _ in range(2):
        assert device.post("result", state="failed", failure={"code": 2001, "detail": "x"}).status_code == 200
    assert len(person.get("/runs").json()["items"]) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"retries": {"luck": 1}},
        {"retries": {"crashed": 11}},
        {"retries": {"crashed": -1}},
        {"retries": {"dependency": 1}},
        {"retry_delay_seconds": -1},
        {"retry_delay_seconds": 1e9},
        {"after": {}},
        {"after": {"build_id": UNKNOWN, "run_id": UNKNOWN}},
    ],
)
def test_no_other_policies(server: Server, person: Person, device: Device, changes: dict[str, Any]) -> None:
    assert_problem(server.run(person, device, **changes), 422, 1006)


def test_a_run_waits_for_its_build(server: Server, person: Person, device: Device) -> None:
    build_id = person.build().json()["id"]
    refused = server.run(person, device, build_id)
    assert_problem(refused, 409, 1014)
    assert "`after`" in refused.json()["detail"]
    run = server.run(person, device, build_id, after={"build_id": build_id}).json()
    assert run["state"] == "waiting" and run["after"] == {"build_id": build_id, "run_id": None}
    go_on(server)
    assert device.take_work() is None and get(person, run["id"])["state"] == "waiting"
    server.clock.advance(2 * server.services.settings.queue_deadline_seconds)
    sweep_all(server.services)
    server.finish_build()
    go_on(server)
    assert get(person, run["id"])["state"] == "queued", "its wait for the device begins now"
    device.open_session()
    assert succeed(device) == run["id"]
    go_on(server)
    states = [data["state"] for _, kind, data in sse(person.get(f"/runs/{run['id']}/events").text) if kind == "state"]
    assert states == ["waiting", "queued", "leased", "running", "succeeded"]


@pytest.mark.parametrize("how", ["failed", "cancelled", "deleted"])
def test_a_run_whose_build_comes_to_nothing_fails_with_a_sentence(
    server: Server, person: Person, device: Device, how: str
) -> None:
    mine = server.built(person)["id"]
    other = person.build(recipe={"batch": 4}).json()["id"]
    run_id = server.run(person, device, mine, after={"build_id": other}, retries={"user": 1}).json()["id"]
    if how == "failed":
        server.finish_build(Broken(3002, "Gelu is not supported."))
    else:
        person.post(f"/builds/{other}/cancel")
    if how == "deleted":
        person.call("DELETE", f"/builds/{other}")
    go_on(server)
    failure = get(person, run_id)["failure"]
    assert failure["code"] == 2006
    endings = {
        "failed": f"The build {other}, which this run waited for, failed: Gelu is not supported.",
        "cancelled": f"The build {other}, which this run waited for, was cancelled.",
        "deleted": "The build that this run waited for was deleted.",
    }
    assert failure["detail"] == endings[how]
    assert len(person.get("/runs").json()["items"]) == 1


def test_a_run_waits_for_the_last_try_of_another(server: Server, person: Person, device: Device) -> None:
    build_id = server.built(person)["id"]
    other = server.device(person)
    retries = {"crashed": 1}
    first = server.run(person, device, build_id, retries=retries, retry_delay_seconds=0).json()["id"]
    second = server.run(person, other, build_id, after={"run_id": first}).json()["id"]
    fail_with(device, 2001)
    for _ in range(2):
        go_on(server)
        assert get(person, second)["state"] == "waiting"
    again = succeed(device)
    assert get(person, second)["after"]["run_id"] == again
    go_on(server)
    assert get(person, second)["state"] == "queued"


def test_a_run_waits_for_its_own_build_as_well(server: Server, person: Person, device: Device) -> None:
    first = server.run(person, device).json()["id"]
    build_id = person.build(recipe={"batch": 4}).json()["id"]
    runs = [server.run(person, device, build_id, after={"run_id": first}).json()["id"] for _ in range(2)]
    assert succeed(device) == first
    go_on(server)
    assert get(person, runs[0])["state"] == "waiting"
    assert get(person, runs[0])["after"] == {"build_id": build_id, "run_id": None}
    server.finish_build()
    go_on(server)
    assert [get(person, run)["state"] for run in runs] == ["queued", "queued"]


def test_a_process_that_found_the_run_earlier_lets_it_wait_on(server: Server, person: Person, device: Device) -> None:
    """Two processes lead for a moment: what one found, the other has dealt with."""
    first = server.run(person, device).json()["id"]
    build_id = person.build(recipe={"batch": 4}).json()["id"]
    run_id = server.run(person, device, build_id, after={"run_id": first}).json()["id"]
    with server.services.database.read() as session:
        workspace_id = session.execute(text("SELECT workspace_id FROM runs")).scalars().first()
    assert succeed(device) == first
    for _ in range(3):
        end_wait(server.services, str(workspace_id), run_id)
        assert get(person, run_id)["state"] == "waiting"


def test_data_that_does_not_fit_what_was_built_fails_the_run(server: Server, person: Person, device: Device) -> None:
    build_id = person.build().json()["id"]
    wrong = server.run(person, device, build_id, after={"build_id": build_id}).json()["id"]
    services = server.services
    with services.database.write() as unit:
        unit.session.execute(text("UPDATE datasets SET tensors = '[]'"))
    server.finish_build()
    go_on(server)
    assert get(person, wrong)["failure"]["code"] == 10004


def test_what_waits_can_be_cancelled_and_goes_with_its_device(server: Server, person: Person, device: Device) -> None:
    build_id = person.build().json()["id"]
    after = {"build_id": build_id}
    runs = [server.run(person, device, build_id, after=after).json()["id"] for _ in range(2)]
    assert person.post(f"/runs/{runs[0]}/cancel").json()["state"] == "cancelled"
    person.call("DELETE", f"/devices/{device.id}")
    assert get(person, runs[1])["state"] == "failed"
    server.finish_build()
    go_on(server)
    assert [get(person, run)["state"] for run in runs] == ["cancelled", "failed"]


def test_what_is_awaited_is_of_the_workspace(server: Server, person: Person, device: Device) -> None:
    stranger = server.person(workspace="others")
    foreign = stranger.build().json()["id"]
    assert_problem(server.run(person, device, after={"build_id": foreign}), 404, 1005)
    assert_problem(server.run(person, device, after={"run_id": UNKNOWN}), 404, 1005)


def test_downgrade_cancels_what_waits(server: Server, person: Person, device: Device) -> None:
    build_id = person.build().json()["id"]
    run_id = server.run(person, device, build_id, after={"build_id": build_id}).json()["id"]
    engine = server.services.database.engine
    downgrade(engine, "0021")
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT state FROM runs")) == "cancelled"
    upgrade(engine)
    assert get(person, run_id)["state"] == "cancelled"
