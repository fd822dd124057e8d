"""Work and clocks that are wrong: what a device cannot believe at the moment is done later."""

import pytest

from pock_server.runs import leases
from tests.server.harness import Device, Person, Server, assert_problem, sse

WHY = "the work expired; check this device's clock"


def test_what_is_declined_waits_and_costs_no_attempt(server: Server, person: Person, device: Device) -> None:
    run = server.run(person, device).json()["id"]
    for _ in range(server.services.settings.max_attempts + 2):
        work = device.take_work()
        assert work is not None and work["attempt"] == 1
        for _ in range(2):  # a repeat changes nothing, as long as nobody leased it anew
            answer = device.post("decline", reason=WHY)
            if answer.status_code == 409:
                assert_problem(answer, 409, 1021)
            else:
                assert answer.json() == {"state": "queued"}
    found = person.get(f"/runs/{run}").json()
    assert (found["state"], found["attempt"]) == ("queued", 0)
    assert person.get(f"/devices/{device.id}").json()["current_run_id"] is None
    device.take_work()
    assert device.post("lease").status_code == 200
    assert_problem(device.post("decline", reason=WHY), 409, 1014)
    assert device.post("result", state="succeeded", report={}).json() == {"state": "succeeded"}
    assert device.post("decline", reason=WHY).json() == {"state": "succeeded"}
    told = [data for _, kind, data in sse(person.get(f"/runs/{run}/events").text) if kind == "state"]
    assert {"state": "queued", "reason": f"declined: {WHY}"} in told


def test_others_decline_nothing(server: Server, person: Person, device: Device) -> None:
    server.run(person, device)
    work = device.take_work()
    other = server.device(person)
    other.work = {**(work or {})}
    assert_problem(other.post("decline", reason=WHY), 404, 1005)
    assert_problem(device.post("decline", reason=WHY, fence=7), 409, 1021)
    assert_problem(device.post("decline", reason=""), 422, 1006)


def test_nothing_is_declined_for_ever(
    server: Server, person: Person, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_OFFERS", 3)
    run = server.run(person, device).json()["id"]
    states = []
    while device.take_work() is not None:
        states.append(device.post("decline", reason=WHY).json()["state"])
    assert states == ["queued", "queued", "failed"]
    failure = person.get(f"/runs/{run}").json()["failure"]
    assert failure["code"] == 2004 and WHY in failure["detail"]


def test_a_clock_set_back_does_not_age_work(server: Server, person: Person, device: Device) -> None:
    """The agent takes the latest time that it was ever told for the present one."""
    build = server.built(person)["id"]
    server.run(person, device, build_id=build)
    server.clock.advance(1800)
    first = device.take_work()
    assert first is not None
    device.post("lease")
    device.post("result", state="succeeded", report={})
    server.clock.advance(-1800)
    server.run(person, device, build_id=build)
    second = device.take_work()
    assert second is not None
    assert first["issued_at"] <= second["issued_at"] < first["expires_at"] <= second["expires_at"]
