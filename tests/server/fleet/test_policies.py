"""Policies of devices and pools: set, shown, signed for the devices; pauses of runs, and devices that rest."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pock_agent.policy.rules import parse
from pock_server.policies.schemas import Policy
from pock_server.runner.sweeper import sweep_all
from pock_server.signing import verify
from tests.server.harness import Device, Person, Server, assert_problem, sse

KNOWS = {"features": ["policies"], "agent_version": "0.2.0"}
NIGHT = {"hours": ["22:00-06:30"], "charging": True}
WHY = {"reason": "the owner's policy.toml: only at 22:00-06:30", "until": "2030-01-01T22:00:00Z"}


@pytest.fixture
def device(server: Server, person: Person) -> Device:
    return server.device(person, KNOWS)


def beat(device: Device, **body: Any) -> dict[str, Any]:
    answer = device.call("POST", "/heartbeat", json={"state": "idle", **body})
    assert answer.status_code == 200, answer.text
    return {"policy": None, **answer.json()}


def renew(device: Device, paused: Any = None) -> Any:
    """A renewal of the lease, in a new session where the old one has ended."""
    answer = device.post("lease", paused=paused)
    if answer.status_code == 401:
        assert device.open_session().status_code == 200
        answer = device.post("lease", paused=paused)
    return answer


def opened(device: Device, envelope: dict[str, str]) -> dict[str, Any]:
    """What is signed, once the signature holds."""
    raw = base64.b64decode(envelope["payload"])
    assert verify(device.pinned["server_public_key"], envelope["signature"], b"pock-policy\n" + raw)
    assert not verify(device.pinned["server_public_key"], envelope["signature"], raw)
    return dict(json.loads(raw))


def test_a_device_gets_its_own_policy_and_its_pool_s(person: Person, device: Device) -> None:
    assert beat(device, policy="")["policy"] is None
    path = f"/devices/{device.id}/policy"
    nothing = {"policy": None, "version": "none", "pool": "default", "pool_policy": None, "pool_version": "none"}
    empty = {**nothing, "known": True, "resting": None}
    assert person.get(path).json() == empty
    made = person.call("PUT", path, json=NIGHT)
    assert made.status_code == 200 and made.json()["known"] is False
    assert made.json()["policy"] == {
        **NIGHT,
        "max_temperature_celsius": None,
        "max_minutes_per_day": None,
        "max_joules_per_day": None,
        "metered": "allow",
        "unknown": "allow",
    }
    person.call("PUT", "/pools/policy?pool=default", json={"max_minutes_per_day": 90})
    first = opened(device, beat(device, policy="")["policy"])
    assert first["policies"] == {"device": NIGHT, "pool": {"max_minutes_per_day": 90}}
    assert (first["device_id"], first["counter"], first["type"]) == (device.id, 1, "pock-policy")
    assert person.get(path).json()["known"] is False
    assert beat(device, policy=first["digest"])["policy"] is None
    assert person.get(path).json()["known"] is True
    assert person.call("DELETE", path).status_code == 204
    second = opened(device, beat(device, policy=first["digest"])["policy"])
    assert second["policies"] == {"device": None, "pool": {"max_minutes_per_day": 90}} and second["counter"] == 2
    assert person.call("DELETE", "/pools/policy?pool=default").status_code == 204
    assert_problem(person.call("DELETE", "/pools/policy?pool=default"), 404, 1005)
    last = opened(device, beat(device, policy=second["digest"])["policy"])
    assert last["policies"] == {"device": None, "pool": None} and last["counter"] == 3
    assert beat(device, policy=last["digest"])["policy"] is None
    assert beat(device, policy="")["policy"] is None  # as good as none at all
    assert person.get(path).json() == empty


def test_it_goes_with_the_pool(person: Person, device: Device) -> None:
    person.call("PUT", "/pools/policy?pool=kitchen", json={"charging": True})
    assert beat(device, policy="")["policy"] is None
    person.call("PATCH", f"/devices/{device.id}", json={"pool": "kitchen"})
    assert opened(device, beat(device, policy="")["policy"])["policies"]["pool"] == {"charging": True}
    assert person.get("/pools/policy?pool=kitchen").json()["policy"]["charging"] is True
    assert_problem(person.get("/pools/policy?pool=attic"), 404, 1005)


HOSTILE = (
    *("lab/left", "/", "a//b", "a/", "../devices", "..", ".", "policy", "kitchen/policy", "100%", "%2e%2e%2f", "%"),
    *(
        "a?pool=other",
        "a&pool=other",
        "#left",
        "a+b c",
        " ",
        "küche",
        "キッチン",
        "\u202eevil",
        "a;b",
        "'\"--",
        "x" * 200,
    ),
)
"""Names of pools."""


def test_a_pool_of_any_name_has_a_policy(person: Person, device: Device) -> None:
    person.call("PUT", "/pools/policy", params={"pool": "other"}, json={"max_minutes_per_day": 1})
    for minute, pool in enumerate(HOSTILE):
        where = {"params": {"pool": pool}}
        moved = person.call("PATCH", f"/devices/{device.id}", json={"pool": pool})
        assert moved.status_code == 200 and moved.json()["pool"] == pool
        assert_problem(person.get("/pools/policy", **where), 404, 1005)
        made = person.call("PUT", "/pools/policy", **where, json={"max_minutes_per_day": minute})
        assert made.status_code == 200 and made.json()["pool"] == pool
        assert opened(device, beat(device, policy="")["policy"])["policies"]["pool"] == {"max_minutes_per_day": minute}
    for minute, pool in enumerate(HOSTILE):
        where = {"params": {"pool": pool}}
        assert person.get("/pools/policy", **where).json()["policy"]["max_minutes_per_day"] == minute, pool
        assert person.call("DELETE", "/pools/policy", **where).status_code == 204
        assert_problem(person.get("/pools/policy", **where), 404, 1005)


def test_what_no_pool_can_be_called_has_none(person: Person) -> None:
    for where in ({}, *({"pool": name} for name in ("", "a\0b", "a\nb", "x" * 201))):
        for method, body in (("GET", None), ("PUT", {"charging": True}), ("DELETE", None)):
            assert_problem(person.call(method, "/pools/policy", params=where, json=body), 422, 1006)


def test_agents_of_before_are_not_told_and_not_asked(server: Server, person: Person) -> None:
    old = server.device(person, {"agent_version": "0.1.0"})
    assert_problem(refused := person.call("PUT", f"/devices/{old.id}/policy", json=NIGHT), 409, 1014)
    assert "has agent 0.1.0, which cannot follow policies" in refused.json()["detail"]
    person.call("PUT", "/pools/policy?pool=default", json=NIGHT)
    assert beat(old)["policy"] is None


@pytest.mark.parametrize(
    "rules",
    [
        {"speed": 1},
        {"hours": []},
        {"hours": ["22:00"]},
        {"hours": ["25:00-06:00"]},
        {"hours": ["06:00-06:00"]},
        {"hours": ["22:00-06:00"] * 25},
        {"max_minutes_per_day": 1441},
        {"max_minutes_per_day": -1},
        {"max_temperature_celsius": "hot"},
        {"metered": "sometimes"},
        {"unknown": None},
        [],
    ],
)
def test_bad_rules(rules: Any, person: Person, device: Device) -> None:
    assert_problem(person.call("PUT", f"/devices/{device.id}/policy", json=rules), 422, 1006)
    assert_problem(person.call("PUT", "/pools/policy?pool=default", json=rules), 422, 1006)


def test_every_policy_of_the_service_is_one_that_agents_read() -> None:
    rules = {**NIGHT, "max_temperature_celsius": 70, "max_minutes_per_day": 5, "max_joules_per_day": 1e9}
    order = Policy.model_validate({**rules, "metered": "never", "unknown": "forbid"})
    found = parse(order.model_dump(exclude_defaults=True))
    assert set(Policy.model_fields) == {*rules, "metered", "unknown"}
    assert found.charging and found.unknown_forbids and not found.metered and len(found.hours) == 1
    assert (found.max_temperature_celsius, found.max_minutes_per_day, found.max_joules_per_day) == (70, 5, 1e9)


def test_a_device_that_rests_says_why(server: Server, person: Person, device: Device) -> None:
    beat(device, resting=WHY)
    since = server.clock.now()
    server.clock.advance(60)
    beat(device, resting={**WHY, "reason": "hot", "until": None})
    rest = person.get(f"/devices/{device.id}").json()["resting"]
    assert (rest["reason"], rest["until"]) == ("hot", None) and rest["since"].startswith(since.isoformat()[:19])
    beat(device)
    assert person.get(f"/devices/{device.id}").json()["resting"] is None
    for bad in (
        {"reason": ""},
        {"reason": "x" * 1001},
        {"reason": "x\0"},
        {"reason": "x", "until": "2030-01-01T00:00:00"},
    ):
        assert_problem(device.call("POST", "/heartbeat", json={"state": "idle", "resting": bad}), 422, 1006)


def test_a_run_waits_no_longer_for_a_device_that_rests(server: Server, person: Person, device: Device) -> None:
    run = server.run(person, device, queue_deadline_seconds=100).json()
    beat(device, resting=WHY)
    server.clock.advance(101)
    sweep_all(server.services)
    assert person.get(f"/runs/{run['id']}").json()["failure"]["code"] == 10001


@pytest.fixture
def run(server: Server, person: Person, device: Device) -> dict[str, Any]:
    """A run of 100 s that has begun."""
    made: dict[str, Any] = server.run(person, device, deadline_seconds=100).json()
    assert device.take_work() is not None and device.post("lease").status_code == 200
    return made


def test_a_pause_is_shown_and_its_time_does_not_count(
    server: Server, person: Person, device: Device, run: dict[str, Any]
) -> None:
    path = f"/runs/{run['id']}"
    server.clock.advance(50)
    device.post("lease", paused=WHY)
    began = server.clock.now()
    shown = person.get(path).json()
    assert shown["state"] == "running"
    assert shown["paused"]["reason"] == WHY["reason"] and shown["paused"]["until"].startswith("2030-01-01T22:00:00")
    assert shown["paused"]["since"].startswith(began.isoformat()[:19])
    for _ in range(30):
        server.clock.advance(1000)
        assert renew(device, WHY).json()["cancel"] is False
        sweep_all(server.services)
    assert person.get(f"/devices/{device.id}").json()["current_run_id"] == run["id"]
    renew(device)
    assert person.get(path).json()["paused"] is None
    server.clock.advance(100 + 120 - 50 - 1)  # what was left, and two minutes more as ever
    renew(device)
    sweep_all(server.services)
    assert person.get(path).json()["state"] == "running"
    server.clock.advance(2)
    sweep_all(server.services)
    assert person.get(path).json()["failure"]["code"] == 10001
    events = [(kind, data) for _, kind, data in sse(person.get(f"{path}/events").text) if kind != "state"]
    assert [kind for kind, _ in events] == ["paused", "resumed"]
    assert events[0][1]["reason"] == WHY["reason"]


def test_a_paused_device_that_falls_silent_loses_the_run_later(
    server: Server, person: Person, device: Device, run: dict[str, Any]
) -> None:
    """It may restart in peace, but does not hold the run for ever."""
    path = f"/runs/{run['id']}"
    device.post("lease", paused=WHY)
    server.clock.advance(3590)
    sweep_all(server.services)
    assert person.get(path).json()["state"] == "running"
    server.clock.advance(20)
    sweep_all(server.services)
    again = person.get(path).json()
    assert (again["state"], again["paused"]) == ("queued", None)
    assert_problem(renew(device, WHY), 409, 1021)


def test_pauses_are_bounded(server: Server, person: Person, device: Device, run: dict[str, Any]) -> None:
    """Two pauses of four days: beyond seven in all, time passes."""
    path = f"/runs/{run['id']}"
    for days in (4, 4):
        for hour in range(days * 24):
            renew(device, WHY)
            server.clock.advance(3600)
            if hour % 6 == 5:  # to sweep takes long
                sweep_all(server.services)
        renew(device)
    assert person.get(path).json()["failure"]["code"] == 10001


@pytest.mark.parametrize("end", ["cancel", "succeed", "fail"])
def test_nothing_is_left_of_a_pause(
    end: str, server: Server, person: Person, device: Device, run: dict[str, Any]
) -> None:
    device.post("lease", paused=WHY)
    if end == "cancel":
        assert person.post(f"/runs/{run['id']}/cancel").json()["paused"] is None
        assert device.post("lease", paused=WHY).json()["cancel"] is True
    else:
        assert device.post("result", state=f"{end}ed", report={}).status_code == 200
    assert person.get(f"/runs/{run['id']}").json()["paused"] is None


def test_bad_pauses(device: Device, run: dict[str, Any]) -> None:
    for bad in ({"reason": ""}, {"reason": "x" * 1001}, {"until": None}, {"reason": "x", "until": "soon"}, "x"):
        assert_problem(device.post("lease", paused=bad), 422, 1006)


def test_who_names_the_rules_that_they_saw_overwrites_no_others(person: Person, device: Device) -> None:
    """Of a device and of a pool alike; who names none writes over whatever is there, as before."""
    for path, own in ((f"/devices/{device.id}/policy", {}), ("/pools/policy", {"pool": "kitchen"})):

        def put(rules: dict[str, Any], expected: str | None, path: str = path, own: dict[str, str] = own) -> Any:
            return person.call(
                "PUT", path, params=own if expected is None else {**own, "expected": expected}, json=rules
            )

        def said(path: str = path, own: dict[str, str] = own) -> Any:
            return person.get(path, params=own).json()

        first = put(NIGHT, "none").json()["version"]
        assert said()["version"] == first
        assert put(NIGHT, "none").json()["version"] == first  # repeated
        assert_problem(put({"charging": True}, "none"), 409, 1028)
        second = put({"charging": True}, first).json()["version"]
        assert second != first
        assert_problem(put({"max_minutes_per_day": 5}, first), 409, 1028)
        assert said()["policy"]["charging"] is True and said()["policy"]["max_minutes_per_day"] is None
        assert_problem(person.call("DELETE", path, params={**own, "expected": first}), 409, 1028)
        third = put({}, None).json()["version"]
        assert third not in (first, second, "none")
        for bad in ("", "no", third[:-1], third + "0", third.upper() + "G"):
            assert_problem(put(NIGHT, bad), 422, 1006)
        assert person.call("DELETE", path, params={**own, "expected": third}).status_code == 204
        assert_problem(put(NIGHT, third), 409, 1028)
    shown = person.get(f"/devices/{device.id}/policy").json()
    assert (shown["version"], shown["pool_version"]) == ("none", "none")
    changes = person.get("/audit?action=policy.set").json()["items"]
    assert len(changes) == 6


@pytest.mark.parametrize("engine_name", ["postgresql"], indirect=True)
def test_of_many_who_saw_the_same_rules_one_changes_them(person: Person) -> None:
    """At the same moment, over as many connections; SQLite lets one write at a time."""
    where = {"pool": "kitchen"}
    seen = person.call("PUT", "/pools/policy", params=where, json=NIGHT).json()["version"]

    def change(minutes: int) -> int:
        rules = {"max_minutes_per_day": minutes}
        answer = person.call("PUT", "/pools/policy", params={**where, "expected": seen}, json=rules)
        return int(answer.status_code)

    with ThreadPoolExecutor(8) as threads:
        answers = sorted(threads.map(change, range(8)))
    assert answers == [200] + [409] * 7
