"""Lists of devices: searched, sorted and counted by the database; any part of them can be had."""

from typing import Any

import pytest

from pock_server.devices.lists.orders import DeviceSort
from tests.server.fleet.test_choosing_devices import add
from tests.server.harness import Device, Person, Server, assert_problem

GIB = 1 << 30
HOT = {"temperature_c": 84.5, "throttled": True}


def told(target: str, agent: str, gib: int, **health: Any) -> dict[str, Any]:
    return {"target": target, "agent_version": agent, "memory_bytes": gib * GIB, "health": health}


@pytest.fixture(scope="module")
def fleet(shared: Server) -> Person:
    """Five devices that no test changes: one hot, one that tells nothing, one that tells nonsense, one revoked."""
    person = shared.person(workspace="lists of devices")
    pi = "raspberry-pi-4"
    add(shared, person, "bench-a", told(pi, "0.9.0", 4, **HOT), pool="bench", labels={"room": "Attic"})
    add(shared, person, "bench-b", told(pi, "0.10.0", 8, temperature_c=41, throttled=False), pool="bench")
    add(shared, person, "silent", pool="attic")
    add(shared, person, "50%_odd", told("host", "new", 2, temperature_c="hot", throttled="yes"), pool="lab")
    gone = add(shared, person, "gone", told("host", "0.9.0", 1), pool="lab")
    assert person.call("DELETE", f"/devices/{gone}").status_code == 204
    return person


def names(person: Person, **asked: Any) -> list[str]:
    """Names of those that are asked for, in order; there are as many as the answer says."""
    answer = person.get("/devices", params=asked)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["total"] == len(found["items"])
    return [item["name"] for item in found["items"]]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"text": "BENCH"}, ["bench-b", "bench-a"]),
        ({"text": "attic"}, ["silent", "bench-a"]),
        ({"text": "room=att"}, ["bench-a"]),
        ({"text": "raspberry"}, ["bench-b", "bench-a"]),
        ({"text": "%_o"}, ["50%_odd"]),
        ({"text": "b%a"}, []),
        ({"text": " "}, ["gone", "50%_odd", "silent", "bench-b", "bench-a"]),
        ({"text": "bench", "on": "ram>4GiB"}, ["bench-b"]),
        ({"throttled": True}, ["bench-a"]),
        ({"throttled": False, "on": "state=online"}, ["50%_odd", "silent", "bench-b"]),
        ({"resting": True}, []),
        ({"resting": False, "text": "silent"}, ["silent"]),
    ],
)
def test_what_is_asked_for_is_listed(fleet: Person, asked: dict[str, Any], expected: list[str]) -> None:
    assert names(fleet, **asked) == expected


ORDERS = {
    DeviceSort.NEWEST: ["gone", "50%_odd", "silent", "bench-b", "bench-a"],
    DeviceSort.STATE: ["50%_odd", "silent", "bench-b", "bench-a", "gone"],
    DeviceSort.TARGET: ["gone", "50%_odd", "bench-b", "bench-a", "silent"],
    DeviceSort.POOL: ["silent", "bench-b", "bench-a", "gone", "50%_odd"],
    DeviceSort.TEMPERATURE: ["bench-a", "bench-b", "gone", "50%_odd", "silent"],
    DeviceSort.MEMORY: ["bench-b", "bench-a", "50%_odd", "gone", "silent"],
    DeviceSort.AGENT: ["bench-b", "gone", "bench-a", "50%_odd", "silent"],
}
"""Of what is equal the newest comes first, and what is not known last."""


@pytest.mark.parametrize(("sort", "expected"), ORDERS.items(), ids=ORDERS)
def test_each_order(fleet: Person, sort: DeviceSort, expected: list[str]) -> None:
    assert names(fleet, sort=sort) == expected


def test_the_other_way_round_what_is_not_known_stays_last(fleet: Person) -> None:
    reverse = names(fleet, sort=DeviceSort.TEMPERATURE, reverse=True)
    assert reverse == ["bench-b", "bench-a", "gone", "50%_odd", "silent"]
    assert names(fleet, reverse=True) == list(reversed(ORDERS[DeviceSort.NEWEST]))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sort", DeviceSort)
def test_pages_and_parts_are_the_whole(fleet: Person, sort: DeviceSort, reverse: bool) -> None:
    whole = names(fleet, sort=sort, reverse=reverse)
    asked = {"sort": sort, "reverse": reverse, "limit": 2}
    paged: list[str] = []
    cursor: dict[str, Any] | None = {}
    while cursor is not None:
        page = fleet.get("/devices", params={**asked, **cursor}).json()
        assert page["total"] == len(whole)
        paged += [item["name"] for item in page["items"]]
        cursor = {"cursor": page["next_cursor"]} if page["next_cursor"] else None
    parts = [fleet.get("/devices", params={**asked, "offset": start}).json()["items"] for start in range(0, 6, 2)]
    assert paged == [item["name"] for part in parts for item in part] == whole


def test_the_last_heard_comes_first(server: Server, person: Person) -> None:
    early = server.device(person)
    server.clock.advance(30)
    late = server.device(person)
    listed = person.get("/devices", params={"sort": "seen"}).json()["items"]
    assert [item["id"] for item in listed] == [late.id, early.id]


def test_totals_count_what_is_asked_for(fleet: Person) -> None:
    assert fleet.get("/device-totals").json() == {
        "total": 5,
        "states": {"online": 4, "revoked": 1},
        "throttled": 1,
        "resting": 0,
        "pools": [{"name": "attic", "count": 1}, {"name": "bench", "count": 2}, {"name": "lab", "count": 2}],
        "targets": [{"name": "host", "count": 2}, {"name": "raspberry-pi-4", "count": 2}],
        "agent_versions": [
            {"name": "0.10.0", "count": 1},
            {"name": "0.9.0", "count": 2},
            {"name": "new", "count": 1},
        ],
    }
    some = fleet.get("/device-totals", params={"on": "pool=lab"}).json()
    assert (some["total"], some["states"], some["throttled"]) == (1, {"online": 1}, 0)
    assert fleet.get("/device-totals", params={"text": "no such device"}).json()["total"] == 0


def test_a_workspace_counts_and_finds_its_own(shared: Server, fleet: Person) -> None:
    stranger = shared.person(workspace="another of lists")
    assert stranger.get("/device-totals").json()["total"] == 0
    page = fleet.get("/devices", params={"sort": "name", "limit": 2}).json()
    assert_problem(stranger.get("/devices", params={"sort": "name", "cursor": page["next_cursor"]}), 422, 1013)


def test_a_token_finds_the_device_that_it_let_in(server: Server, person: Person, device: Device) -> None:
    token = person.post("/enrollment-tokens", {"name": "new"}).json()
    assert names(person, token_id=token["id"]) == []
    add(server, person, "another")
    new = Device(server.client, device.private_key)
    assert new.enrol(token["token"]).status_code == 201
    assert names(person, token_id=token["id"]) == ["new"]


def test_long_lists_leave_the_facts_out(server: Server, person: Person) -> None:
    device = server.device(person, told("host", "0.1.0", 2, **HOT))
    (full,) = person.get("/devices").json()["items"]
    (short,) = person.get("/devices", params={"facts": False}).json()["items"]
    assert full["facts"]["health"] == HOT
    assert short == {**full, "facts": {}}
    shown = (short["id"], short["temperature_c"], short["throttled"], short["memory_bytes"])
    assert shown == (device.id, 84.5, True, 2 * GIB)


def test_the_present_run_is_named_by_its_build(server: Server, person: Person, device: Device) -> None:
    server.run(person, device, build_id=server.built(person, name="last-four")["id"])
    assert person.get(f"/devices/{device.id}").json()["current_run_name"] is None
    assert device.take_work() is not None
    device.post("lease")
    shown = person.get(f"/devices/{device.id}").json()
    assert (shown["state"], shown["current_run_name"]) == ("busy", "last-four")
    assert person.get("/devices").json()["items"] == [shown]


@pytest.mark.parametrize(
    "health", [None, [], "hot", {"temperature_c": 1e300, "throttled": 1}, {"temperature_c": True}], ids=repr
)
def test_nonsense_is_no_temperature(server: Server, person: Person, health: Any) -> None:
    device = server.device(person, {"health": health})
    shown = person.get(f"/devices/{device.id}").json()
    assert (shown["temperature_c"], shown["throttled"]) == (None, None)
