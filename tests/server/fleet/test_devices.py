"""Enrolment, sessions, heartbeats, and what happens to copies and revoked devices."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pock_server.auth.schemas import Scope
from pock_server.devices.fleet import Fleet
from pock_server.devices.tables import DeviceRecord
from tests.server.conftest import ServerFactory
from tests.server.harness import Device, Person, Server, assert_problem

JSON = {"Content-Type": "application/json"}


def new_device(server: Server) -> Device:
    return Device(server.client, Ed25519PrivateKey.generate())


def new_token(person: Person, **body: object) -> str:
    answer = person.post("/enrollment-tokens", body)
    assert answer.status_code == 201
    return str(answer.json()["token"])


def test_enrolment(server: Server, person: Person) -> None:
    device = new_device(server)
    answer = device.enrol(new_token(person, pool="lab"), {"target": "raspberry-pi-4", "agent_version": "0.1.0"})
    assert answer.status_code == 201
    assert base64.b64decode(answer.json()["server_public_key"])
    assert (answer.json()["heartbeat_seconds"], answer.json()["poll_seconds"]) == (15, 25)
    shown = person.get(f"/devices/{device.id}").json()
    assert (shown["name"], shown["pool"], shown["target"]) == ("board", "lab", "raspberry-pi-4")
    assert (shown["state"], shown["agent_version"], shown["current_run_id"]) == ("online", "0.1.0", None)
    assert person.get("/devices").json()["items"] == [shown]
    assert_problem(server.person(workspace="other").get(f"/devices/{device.id}"), 404, 1005)
    assert server.person(workspace="other").get("/devices").json()["items"] == []


def test_token_name_wins(server: Server, person: Person) -> None:
    device = new_device(server)
    device.enrol(new_token(person, name="kitchen"))
    assert person.get(f"/devices/{device.id}").json()["name"] == "kitchen"


def test_used_token(server: Server, person: Person) -> None:
    token = new_token(person)
    assert new_device(server).enrol(token).status_code == 201
    assert_problem(new_device(server).enrol(token), 401, 1017)


def test_expired_token(server: Server, person: Person) -> None:
    token = new_token(person, ttl_seconds=60)
    server.clock.advance(60)
    assert_problem(new_device(server).enrol(token), 401, 1016)


@pytest.mark.parametrize("token", ["", "nonsense", "pt_" + "0" * 32 + "_" + "0" * 64])
def test_unknown_token(shared: Server, token: str) -> None:
    assert_problem(new_device(shared).enrol(token), 401, 1015)


def test_token_with_wrong_secret_is_unknown_and_not_used_up(server: Server, person: Person) -> None:
    token = new_token(person)
    assert_problem(new_device(server).enrol(token[:-1] + ("0" if token[-1] != "0" else "1")), 401, 1015)
    assert new_device(server).enrol(token).status_code == 201


def test_token_lives_fifteen_minutes_at_most(person: Person) -> None:
    assert_problem(person.post("/enrollment-tokens", {"ttl_seconds": 901}), 422, 1006)


def test_refused_enrolment_leaves_the_token_usable(server: Server, person: Person) -> None:
    token = new_token(person)
    body = {"token": token, "name": "x", "public_key": "short"}
    assert_problem(server.client.post("/v1/enroll", json=body), 422, 1006)
    assert new_device(server).enrol(token).status_code == 201


def test_session_needs_the_devices_signature(server: Server, device: Device) -> None:
    thief = new_device(server)
    thief.id = device.id
    assert_problem(thief.open_session(counter=99), 401, 1018)
    assert_problem(device.open_session(issued_at="2031-01-01T00:00:00Z"), 401, 1018)
    device.id = "018f0000-0000-7000-8000-000000000000"
    assert_problem(device.open_session(), 401, 1018)


def test_new_session_ends_the_old_one(device: Device) -> None:
    old = device.token
    assert device.open_session().status_code == 200
    assert device.call("POST", "/heartbeat", json={"state": "idle"}).status_code == 200
    device.token = old
    assert_problem(device.call("POST", "/heartbeat", json={"state": "idle"}), 401, 1023)


def test_session_expires(server: Server, device: Device) -> None:
    server.clock.advance(server.services.settings.session_seconds)
    assert_problem(device.call("GET", "/work"), 401, 1023)
    assert device.open_session().status_code == 200


def test_repeated_counter_quarantines_the_device(server: Server, person: Person, device: Device) -> None:
    device.open_session(counter=5)
    server.clock.advance(1)
    for counter in (5, 4, 1):
        assert_problem(device.open_session(counter=counter), 409, 1019)
    assert_problem(device.open_session(counter=6), 409, 1019)
    assert_problem(device.call("GET", "/work"), 401, 1023)
    assert person.get(f"/devices/{device.id}").json()["state"] == "quarantined"
    assert_problem(person.post("/runs", _run_body(person, device)), 404, 1005)


def _run_body(person: Person, device: Device) -> dict[str, object]:
    unknown = "018f0000-0000-7000-8000-000000000000"
    return {"build_id": unknown, "device_id": device.id, "dataset_id": unknown, "steps": 1}


def test_two_holders_of_one_key_cannot_both_work(server: Server, device: Device) -> None:
    copy = Device(server.client, device.private_key, id=device.id, counter=device.counter)
    assert device.open_session().status_code == 200
    server.clock.advance(1)
    assert_problem(copy.open_session(), 409, 1019)


@pytest.mark.parametrize("later", [0, 60, 3600, 10_000_000])
def test_overheard_session_requests_change_nothing(server: Server, device: Device, later: float) -> None:
    sent = []
    server.client.event_hooks["request"].append(lambda request: sent.append(request.content))
    for _ in range(3):
        assert device.open_session().status_code == 200
        server.clock.advance(1)
    server.clock.advance(later)
    for body in tuple(sent):
        assert_problem(server.client.post("/v1/agent/session", content=body, headers=JSON), 425, 1025)
    assert device.open_session().status_code == 200


@pytest.mark.parametrize("seconds", [-601, 601, -10_000_000, 10_000_000])
def test_session_requests_are_fresh(server: Server, device: Device, seconds: float) -> None:
    signed_at = server.clock.now() + timedelta(seconds=seconds)
    refused = device.open_session(counter=99, signed_at=signed_at)
    assert_problem(refused, 425, 1025)
    assert refused.json()["retryable"] and server.clock.now().isoformat() in refused.json()["detail"]
    assert device.open_session(counter=2).status_code == 200


@pytest.mark.parametrize("text", ["now", "2030", "9999-99-99T00:00:00Z", "0001-01-01T00:00:00+14:00"])
def test_moments_that_are_none(device: Device, text: str) -> None:
    assert_problem(device.open_session(issued_at=text), 422, 1006)


def test_one_of_many_requests_at_once_gets_the_session(server: Server, device: Device) -> None:
    copies = [Device(server.client, device.private_key, id=device.id, counter=device.counter) for _ in range(8)]
    moment = device.now()  # signed later with the same counter, it would be the word of another holder of the key
    with ThreadPoolExecutor(len(copies)) as pool:
        answers = list(pool.map(lambda copy: copy.open_session(signed_at=moment).status_code, copies))
    assert sorted(answers) == [200] + [425] * 7


def test_one_of_many_devices_at_once_gets_in(server: Server, person: Person) -> None:
    token = new_token(person)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: new_device(server).enrol(token).status_code, range(8)))
    assert sorted(answers) == [201] + [401] * 7


def test_credentials_do_not_cross_interfaces(server: Server, person: Person, device: Device) -> None:
    assert_problem(Person(server.client, device.token).get("/devices"), 401, 1001)
    device.token = person.key
    assert_problem(device.call("GET", "/work"), 401, 1001)


def test_device_goes_offline_after_three_missed_heartbeats(server: Server, person: Person, device: Device) -> None:
    server.clock.advance(45)
    assert person.get(f"/devices/{device.id}").json()["state"] == "online"
    server.clock.advance(1)
    assert person.get(f"/devices/{device.id}").json()["state"] == "offline"
    beat = device.call("POST", "/heartbeat", json={"state": "idle", "facts": {"celsius": 40.5, "target": "host"}})
    assert beat.json() == {"heartbeat_seconds": 15, "cancel": []}
    shown = person.get(f"/devices/{device.id}").json()
    assert (shown["state"], shown["facts"]["celsius"], shown["target"]) == ("online", 40.5, "host")


def test_heartbeats_slow_down_with_the_fleet(start_server: ServerFactory) -> None:
    server = start_server(heartbeats_per_second=0.1)
    person = server.person()
    devices = [server.device(person) for _ in range(2)]
    server.clock.advance(5)  # the fleet is counted anew
    assert devices[0].call("POST", "/heartbeat", json={"state": "idle"}).json()["heartbeat_seconds"] == 20


@pytest.mark.parametrize(
    "text", ['{"x": NaN}', '{"x": 1e999}', '{"x": "\\ud800"}', '{"x": "\\u0000"}', "[" * 40 + "]" * 40]
)
def test_facts_that_cannot_be_stored_are_refused(device: Device, text: str) -> None:
    body = '{"state": "idle", "facts": {"y": ' + text + "}}"
    answer = device.call("POST", "/heartbeat", content=body, headers={"Content-Type": "application/json"})
    assert_problem(answer, 422, 1006)
    json.loads(answer.text)


def test_revoked_device_is_out(server: Server, person: Person, device: Device) -> None:
    assert_problem(server.person(workspace="other").call("DELETE", f"/devices/{device.id}"), 404, 1005)
    for _ in range(2):
        assert person.call("DELETE", f"/devices/{device.id}").status_code == 204
    assert_problem(device.call("GET", "/work"), 401, 1023)
    assert_problem(device.open_session(), 401, 1020)
    assert person.get(f"/devices/{device.id}").json()["state"] == "revoked"


def test_admin_scope_is_not_needed_to_enrol(server: Server) -> None:
    admin = server.person(Scope.DEVICES_ADMIN)
    assert new_device(server).enrol(new_token(admin)).status_code == 201
    with server.services.database.read() as session:
        assert session.query(DeviceRecord).count() == 1


def test_sightings_are_written_together(server: Server, person: Person) -> None:
    ids = [server.device(person).id for _ in range(3)]
    fleet = Fleet(server.services.database, server.clock, server.services.settings)  # nobody writes in its background
    server.clock.advance(60)
    before = last_seen(person, ids)
    for device_id in ids:
        fleet.saw(device_id)
    changed = [now != then for now, then in zip(last_seen(person, ids), before, strict=True)]
    assert changed == [True, False, False], "the first after a pause is written at once, the others wait for company"
    server.clock.advance(1)
    fleet.saw(ids[0])
    first, second, third = last_seen(person, ids)
    assert second == third != before[1] and first > second, "each with its own moment"


def test_a_sighting_never_goes_back(server: Server, person: Person, device: Device) -> None:
    server.clock.advance(60)
    server.services.fleet.saw(device.id)
    latest = last_seen(person, [device.id])
    server.clock.advance(-30)
    server.services.fleet.saw(device.id)
    server.services.fleet.write_down()
    assert last_seen(person, [device.id]) == latest


def last_seen(person: Person, device_ids: list[str]) -> list[str]:
    return [person.get(f"/devices/{device_id}").json()["last_seen_at"] for device_id in device_ids]
