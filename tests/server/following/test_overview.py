"""The overview counts truly, and names what needs somebody."""

from typing import Any

import pytest

from pock_server.clock import new_id
from pock_server.regressions.tables import RegressionRecord
from pock_server.rollouts.tables import RolloutRecord
from tests.server.harness import Device, Person, Server
from tests.server.updating.agent_files import agent_file, released

DAY = 86_400


def concerns(person: Person) -> dict[str, list[str]]:
    """Names of what needs somebody, by why."""
    found = person.get("/overview").json()["concerns"]
    assert all(each["count"] >= len(each["items"]) > 0 for each in found)
    return {each["concern"]: [item["name"] for item in each["items"]] for each in found}


def test_an_empty_workspace_has_nothing(server: Server) -> None:
    answer = server.person(workspace="empty").get("/overview")
    assert answer.status_code == 200
    assert answer.json() == {"models": 0, "datasets": 0, "devices": {}, "builds": {}, "runs": {}, "concerns": []}


@pytest.mark.in_process("others would be counted, too")
def test_counts_are_of_all_rows(server: Server, person: Person, device: Device) -> None:
    build = server.built(person)
    for _ in range(3):
        server.run(person, device, build_id=build["id"])
    person.post(f"/runs/{person.get('/runs').json()['items'][0]['id']}/cancel")
    person.build(model_id=build["model_id"], recipe={"batch": 3})
    found = person.get("/overview").json()
    assert (found["models"], found["datasets"]) == (1, 1)
    assert found["devices"] == {"online": 1}
    assert found["builds"] == {"succeeded": 1, "queued": 1}
    assert found["runs"] == {"queued": 2, "cancelled": 1}
    assert server.person(workspace="others").get("/overview").json()["runs"] == {}


def fail(device: Device, detail: str) -> None:
    assert device.take_work() is not None
    device.post("lease")
    device.post("result", state="failed", failure={"code": 2003, "detail": detail})


def test_what_failed_in_the_last_day_is_told_with_why(server: Server, person: Person, device: Device) -> None:
    build = server.built(person)
    server.run(person, device, build_id=build["id"])
    fail(device, "The model needs 3.6 MB.")
    (found,) = person.get("/overview").json()["concerns"]
    assert (found["concern"], found["count"]) == ("run_failed", 1)
    assert found["items"][0]["name"] == "net on board"
    assert found["items"][0]["detail"] == "The model needs 3.6 MB."
    server.clock.advance(DAY - 1)
    assert "run_failed" in concerns(person)
    server.clock.advance(2)
    assert "run_failed" not in concerns(person)


def test_of_many_the_newest_five_are_named(server: Server, person: Person, device: Device) -> None:
    build = server.built(person)
    for number in range(1, 8):
        server.run(person, device, build_id=build["id"])
        fail(device, f"reason {number}")
        server.clock.advance(1)
    (found,) = person.get("/overview").json()["concerns"]
    assert found["count"] == 7
    assert [item["detail"] for item in found["items"]] == [f"reason {number}" for number in (7, 6, 5, 4, 3)]


@pytest.mark.parametrize(
    ("health", "throttled"),
    [
        ({"throttled": True}, True),
        ({"throttled": False}, False),
        ({"throttled": None}, False),
        ({"throttled": {"a": [1]}}, False),
        ({"throttled": "yes, hot"}, False),
        ([], False),
        ("hot", False),
        (None, False),
    ],
    ids=str,
)
def test_a_device_that_is_slowed_down_is_told_whatever_it_writes(
    server: Server, person: Person, health: Any, throttled: bool
) -> None:
    server.device(person, {"health": health})
    assert ("device_throttled" in concerns(person)) == throttled


def test_a_run_on_a_hot_device_is_told_though_it_ended_well(server: Server, person: Person, device: Device) -> None:
    build = server.built(person)
    for throttled in (True, False, None):
        server.run(person, device, build_id=build["id"])
        assert device.take_work() is not None
        device.post("lease")
        answer = device.post("result", state="succeeded", report={"health": {"throttled": throttled}})
        assert answer.status_code in (200, 204), answer.text
    found = person.get("/overview").json()
    assert [(each["concern"], each["count"]) for each in found["concerns"]] == [("run_throttled", 1)]


def test_devices_that_are_gone_for_long_or_quarantined_are_told(server: Server, person: Person) -> None:
    lost, copied = server.device(person), server.device(person)
    server.clock.advance(600)
    assert concerns(person) == {}, "ten minutes are not long"
    copied.open_session(counter=1)
    server.clock.advance(3600)
    found = person.get("/overview").json()
    assert [each["concern"] for each in found["concerns"]] == ["device_quarantined", "device_offline"]
    assert [each["items"][0]["id"] for each in found["concerns"]] == [copied.id, lost.id]
    server.clock.advance(31 * DAY)
    person = server.person()
    assert "device_offline" not in concerns(person), "given up"
    assert person.get("/overview").json()["devices"] == {"offline": 1, "quarantined": 1}


def test_slower_steps_and_stopped_rollouts_are_told(server: Server, person: Person) -> None:
    release = person.post("/agent-releases", released(server, person, agent_file("0.2.0")))
    assert release.status_code == 201, release.text
    now = server.clock.now()
    workspace = person.get("/me").json()["workspace"]["id"]
    common = {"workspace_id": workspace, "created_at": now}
    with server.services.database.write() as unit:
        numbers = dict.fromkeys(("canary", "stage", "healthy_seconds", "check_in_seconds", "max_failed", "attempt"), 1)
        texts = {"release_id": release.json()["id"], "version": "0.2.0", "selector": "*", "stages": [100]}
        reason = "2 of 3 devices failed."
        unit.session.add(RolloutRecord(id=new_id(now), state="stopped", reason=reason, **texts, **numbers, **common))
        fields = dict.fromkeys(("since_id", "found_id", "series", "model_name", "target"), "x")
        ratio = {"ratio": 1.06, "interval_low": 1.052, "interval_high": 1.071, "p_value": 0.001}
        kind = {"device_kind": "Raspberry Pi 4", "threads": 4, "build_name": "net", "build_version": 3}
        unit.session.add(RegressionRecord(id=new_id(now), **fields, **ratio, **kind, **common))
    found = person.get("/overview").json()["concerns"]
    assert [(each["concern"], each["items"][0]["detail"]) for each in found] == [
        ("rollout_stopped", "2 of 3 devices failed."),
        ("regression", "1.06 times as slow as before (95 %: 1.05 to 1.07)"),
    ]
    server.clock.advance(8 * DAY)
    assert list(concerns(person)) == ["rollout_stopped"]
