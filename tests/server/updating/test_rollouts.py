"""Rollouts: who is offered a release when, what devices tell of it, and when a rollout stops."""

import base64
import json
from dataclasses import dataclass
from typing import Any

import pytest

from pock_server.devices.tables import DeviceRecord
from pock_server.rollouts import duty
from pock_server.runner.duties import DUTIES, fulfil
from pock_server.signing import verify
from tests.server.harness import Device, Person, Server, assert_problem
from tests.server.updating.agent_files import agent_file, facts_of_agent, released

NEW = "0.2.0"
UNKNOWN = "018f0000-0000-7000-8000-000000000000"


@dataclass
class Fleet:
    """A person, devices whose agents replace themselves, and a release for them."""

    server: Server
    person: Person
    devices: list[Device]
    release: str

    def create(self, **changes: Any) -> Any:
        order = {"release_id": self.release, "on": "*", "healthy_seconds": 60, "check_in_seconds": 30, **changes}
        return self.person.post("/rollouts", order)

    def begin(self, **changes: Any) -> str:
        made = self.create(**changes)
        assert made.status_code == 201, made.text
        self.step()
        return str(made.json()["id"])

    def step(self, seconds: float = 0) -> None:
        """What the leading process does a while later, all devices being there."""
        for _ in range(2):
            self.server.clock.advance(seconds / 2)
            for device in self.devices:
                self.sign_of_life(device)
            self.server.services.fleet.write_down()
            fulfil(self.server.services, [one for one in DUTIES if one.name == "rollout"])

    def sign_of_life(self, device: Device, **body: Any) -> None:
        answer = device.call("POST", "/heartbeat", json={"state": "idle", **body})
        if answer.status_code == 401:
            device.open_session()
            device.call("POST", "/heartbeat", json={"state": "idle", **body})

    def offered(self) -> list[Device]:
        return [one for one in self.devices if "pock-update" in self.poll(one).headers]

    def poll(self, device: Device, update: str = "none") -> Any:
        return device.call("GET", f"/work?wait=0&update={update}")

    def tell(self, device: Device, rollout: str, state: str, version: str = NEW, detail: str = "") -> Any:
        body = {"rollout_id": rollout, "state": state, "version": version, "detail": detail}
        return device.call("POST", "/update", json=body)

    def install(self, device: Device, rollout: str) -> None:
        """What a device does whose update goes well."""
        self.tell(device, rollout, "installing", "0.1.0")
        self.sign_of_life(device, facts=facts_of_agent(NEW))
        assert self.tell(device, rollout, "started").json()["state"] == "installing"

    def show(self, rollout: str) -> Any:
        return self.person.get(f"/rollouts/{rollout}").json()

    def states(self, rollout: str) -> dict[str, str]:
        rows = self.person.get(f"/rollouts/{rollout}/devices", params={"limit": 200}).json()["items"]
        return {row["device_id"]: row["state"] for row in rows}


@pytest.fixture
def fleet(server: Server, person: Person) -> Fleet:
    devices = [server.device(person, facts_of_agent("0.1.0")) for _ in range(5)]
    release = person.post("/agent-releases", released(server, person, agent_file(NEW))).json()
    return Fleet(server, person, devices, release["id"])


def test_stage_after_stage_each_once_the_one_before_has_lasted(fleet: Fleet) -> None:
    rollout = fleet.begin(stages=[40, 100])
    (canary,) = fleet.offered()
    fleet.install(canary, rollout)
    fleet.step(40)
    assert fleet.offered() == [] and fleet.show(rollout)["devices"] == {"installing": 1, "pending": 4}
    fleet.step(60)
    assert fleet.states(rollout)[canary.id] == "healthy" and fleet.show(rollout)["stage"] == 1
    (second,) = fleet.offered()  # 40 percent of five are two
    fleet.install(second, rollout)
    fleet.step(120)
    assert len(fleet.offered()) == 3
    for device in fleet.offered():
        fleet.install(device, rollout)
    fleet.step(120)
    done = fleet.show(rollout)
    assert (done["state"], done["devices"]) == ("succeeded", {"healthy": 5}) and done["finished_at"]


def test_the_offer_is_signed_for_one_device_and_names_the_release(fleet: Fleet) -> None:
    rollout = fleet.begin()
    (canary,) = fleet.offered()
    envelope = canary.call("GET", "/update").json()
    payload = base64.b64decode(envelope["payload"])
    with fleet.server.services.database.read() as session:
        key = fleet.server.services.keys.current(session).signer.public_key
    assert verify(key, envelope["signature"], b"pock-agent-offer\n" + payload)
    said = json.loads(payload)
    assert (said["device_id"], said["rollout_id"], said["action"]) == (canary.id, rollout, "install")
    assert said["release"] == fleet.person.get(f"/agent-releases/{fleet.release}").json()["document"]
    others = [one for one in fleet.devices if one is not canary]
    assert all(one.call("GET", "/update").status_code == 204 for one in others)


def test_a_device_that_rests_shows_why_it_does_not_ask_for_the_offer(fleet: Fleet) -> None:
    rollout = fleet.begin(canary=2)
    resting, working = fleet.offered()
    pending = next(one for one in fleet.devices if one not in (resting, working))
    why = {"reason": "the owner's policy.toml: only at 22:00-06:30", "until": "2030-01-01T22:00:00Z"}
    for device in (resting, pending):
        fleet.sign_of_life(device, resting=why)
    path = f"/rollouts/{rollout}/devices"
    shown = {row["device_id"]: row for row in fleet.person.get(path, params={"state": "offered"}).json()["items"]}
    assert shown.keys() == {resting.id, working.id} and shown[working.id]["resting"] is None
    assert {**why, "since": shown[resting.id]["resting"]["since"]} == shown[resting.id]["resting"]
    others = fleet.person.get(path, params={"state": "pending"}).json()["items"]
    assert all(row["resting"] is None for row in others), "nothing was offered to them yet"
    fleet.sign_of_life(resting)
    fleet.install(resting, rollout)
    assert all(row["resting"] is None for row in fleet.person.get(path).json()["items"])


def test_only_who_is_offered_the_file_may_fetch_it(fleet: Fleet) -> None:
    fleet.begin()
    (canary,) = fleet.offered()
    (file,) = {file["sha256"] for file in fleet.person.get("/agent-releases").json()["items"][0]["files"].values()}
    assert canary.call("GET", f"/blobs/sha256/{file}").content == agent_file(NEW)
    other = next(one for one in fleet.devices if one is not canary)
    assert_problem(other.call("GET", f"/blobs/sha256/{file}"), 404, 1005)


def test_an_offer_comes_before_work_once_and_agents_of_before_hear_nothing(fleet: Fleet) -> None:
    fleet.begin()
    (canary,) = fleet.offered()
    assert fleet.server.run(fleet.person, canary).status_code == 202
    assert fleet.poll(canary).status_code == 204
    assert canary.poll().status_code == 200  # it does not say that it knows updates
    rollout = fleet.poll(canary).headers["pock-update"]
    assert fleet.poll(canary, rollout).status_code in (200, 204)


def test_too_many_failures_stop_it_and_what_was_offered_is_withdrawn(fleet: Fleet) -> None:
    rollout = fleet.begin(canary=3, max_failed=1)
    first, second, third = fleet.offered()
    fleet.tell(first, rollout, "failed", detail="no room")
    fleet.step()
    assert fleet.show(rollout)["state"] == "running"
    fleet.tell(second, rollout, "rolled_back", "0.1.0", "it crashed")
    fleet.step()
    stopped = fleet.show(rollout)
    assert (stopped["state"], stopped["reason"]) == ("stopped", "2 of the devices failed, and 1 may")
    assert fleet.offered() == [] and fleet.states(rollout)[third.id] == "pending"
    assert fleet.person.post(f"/rollouts/{rollout}/resume").json()["reason"] == ""
    fleet.step()
    assert [one.id for one in fleet.offered()] == [third.id]


def test_a_device_that_comes_up_again_and_again_has_not_lasted(fleet: Fleet) -> None:
    rollout = fleet.begin()
    (canary,) = fleet.offered()
    fleet.install(canary, rollout)
    for _ in range(3):
        fleet.step(50)
        fleet.tell(canary, rollout, "started")
    assert fleet.states(rollout)[canary.id] == "installing"
    fleet.tell(canary, rollout, "rolled_back", "0.1.0", "signal 9 ended it, 3 times")
    fleet.step()
    assert fleet.show(rollout)["state"] == "stopped"


def test_a_device_that_is_never_heard_of_again_failed(fleet: Fleet) -> None:
    rollout = fleet.begin()
    (canary,) = fleet.offered()
    fleet.tell(canary, rollout, "installing", "0.1.0")
    fleet.devices.remove(canary)
    fleet.step(600 + 60 - 10)
    assert fleet.states(rollout)[canary.id] == "installing"
    fleet.step(60)
    assert fleet.states(rollout)[canary.id] == "failed" and fleet.show(rollout)["state"] == "stopped"


def test_devices_that_are_away_hold_up_no_stage_but_a_canary_has_to_last(fleet: Fleet) -> None:
    away = fleet.devices.pop()
    with fleet.server.services.database.write() as unit:
        unit.session.get_one(DeviceRecord, away.id).last_seen_at = None
    rollout = fleet.begin(canary=4, stages=[100])
    for device in fleet.offered():
        fleet.install(device, rollout)
    fleet.step(120)
    assert fleet.states(rollout)[away.id] == "offered" and fleet.show(rollout)["state"] == "running"


def test_who_cannot_take_part_is_told_apart(fleet: Fleet) -> None:
    old = fleet.server.device(fleet.person, {"agent_version": "0.1.0", "machine": "aarch64"})
    other = fleet.server.device(fleet.person, facts_of_agent("0.1.0", "riscv64"))
    has_it = fleet.server.device(fleet.person, facts_of_agent(NEW))
    rollout = fleet.begin(canary=10)
    states = fleet.states(rollout)
    assert (states[old.id], states[other.id], states[has_it.id]) == ("unsupported", "unsupported", "healthy")
    rows = fleet.person.get(f"/rollouts/{rollout}/devices", params={"state": "unsupported"}).json()["items"]
    details = {row["device_id"]: row["detail"] for row in rows}
    assert "does not replace itself; update it by hand" in details[old.id]
    assert details[other.id] == "the release has no file for linux-riscv64"
    assert all("pock-update" not in fleet.poll(one).headers for one in (old, other, has_it))


def test_a_canary_that_nobody_can_take_stops_it(fleet: Fleet) -> None:
    rollout = fleet.begin()
    (canary,) = fleet.offered()
    fleet.tell(canary, rollout, "unsupported", "0.1.0", "installed by pip")
    fleet.step()
    assert fleet.show(rollout)["reason"] == "no device of the canary runs it"


def test_pause_resume_and_cancel(fleet: Fleet) -> None:
    rollout = fleet.begin()
    (canary,) = fleet.offered()
    assert fleet.person.post(f"/rollouts/{rollout}/pause").json()["state"] == "paused"
    fleet.step()
    assert fleet.offered() == [] and fleet.states(rollout)[canary.id] == "pending"
    fleet.person.post(f"/rollouts/{rollout}/resume")
    fleet.step()
    assert fleet.offered() == [canary]
    assert fleet.person.post(f"/rollouts/{rollout}/cancel").json()["state"] == "cancelled"
    fleet.step()
    assert fleet.offered() == []
    assert_problem(fleet.person.post(f"/rollouts/{rollout}/resume"), 409, 1014)


def test_a_repeat_changes_nothing(fleet: Fleet) -> None:
    rollout = fleet.begin(canary=2)
    for device in fleet.offered():
        fleet.install(device, rollout)
    states = {"pause": "paused", "resume": "running", "roll-back": "reverting", "cancel": "cancelled"}
    for verb, state in states.items():
        answers = [fleet.person.post(f"/rollouts/{rollout}/{verb}") for _ in range(2)]
        assert [one.json().get("state") for one in answers] == [state] * 2, (verb, [one.text for one in answers])
    entries = fleet.person.get("/audit").json()["items"]
    actions = sorted(entry["action"] for entry in entries if entry["action"].startswith("rollout."))
    assert actions == [f"rollout.{verb}" for verb in ("cancel", "create", "pause", "resume", "roll_back")]


def test_roll_back_reaches_who_took_it(fleet: Fleet) -> None:
    rollout = fleet.begin(canary=2)
    taken = fleet.offered()
    for device in taken:
        fleet.install(device, rollout)
    fleet.step(120)
    assert fleet.person.post(f"/rollouts/{rollout}/roll-back").json()["state"] == "reverting"
    fleet.step()
    assert fleet.offered() == taken
    for device in taken:
        assert json.loads(base64.b64decode(device.call("GET", "/update").json()["payload"]))["action"] == "revert"
        fleet.tell(device, rollout, "rolled_back", "0.1.0", "the service took it back")
    fleet.step()
    done = fleet.show(rollout)
    assert (done["state"], done["devices"]) == ("reverted", {"rolled_back": 2, "pending": 3})


def test_a_final_release_is_not_taken_back(server: Server, person: Person) -> None:
    server.device(person, facts_of_agent("0.1.0"))
    order = released(server, person, agent_file("0.9.0"), "0.9.0", revert=False)
    fleet = Fleet(server, person, [], person.post("/agent-releases", order).json()["id"])
    rollout = fleet.begin()
    answer = person.post(f"/rollouts/{rollout}/roll-back")
    assert_problem(answer, 409, 1014)
    assert "as final" in answer.json()["detail"]


def test_two_rollouts_do_not_meet_on_a_device(fleet: Fleet) -> None:
    rollout = fleet.begin()
    answer = fleet.create()
    assert_problem(answer, 409, 1014)
    assert rollout in answer.json()["detail"]
    fleet.person.post(f"/rollouts/{rollout}/cancel")
    assert fleet.create().status_code == 201


def test_what_is_asked_for_has_to_be_possible(fleet: Fleet) -> None:
    for changes, status in (
        ({"on": "pool=nowhere"}, 422),
        ({"on": "ram>="}, 422),
        ({"stages": [50, 10, 100]}, 422),
        ({"stages": [10, 50]}, 422),
        ({"stages": []}, 422),
        ({"release_id": UNKNOWN}, 404),
    ):
        assert fleet.create(**changes).status_code == status
    fleet.server.clock.advance(91 * 86_400)
    later = Fleet(fleet.server, fleet.server.person(), [], fleet.release)
    assert_problem(later.create(), 409, 1014)


def test_a_release_with_rollouts_stays(fleet: Fleet) -> None:
    fleet.begin()
    assert_problem(fleet.person.call("DELETE", f"/agent-releases/{fleet.release}"), 409, 1014)


def test_what_other_devices_and_workspaces_tell_changes_nothing(fleet: Fleet) -> None:
    rollout = fleet.begin()
    stranger = fleet.server.person(workspace="another")
    foreign = fleet.server.device(stranger, facts_of_agent("0.1.0"))
    assert_problem(fleet.tell(foreign, rollout, "failed"), 404, 1005)
    assert_problem(stranger.get(f"/rollouts/{rollout}"), 404, 1005)
    assert_problem(stranger.get(f"/rollouts/{rollout}/devices"), 404, 1005)
    (canary,) = fleet.offered()
    waiting = next(one for one in fleet.devices if one is not canary)
    assert fleet.tell(waiting, rollout, "failed").json()["state"] == "pending"
    assert fleet.tell(canary, rollout, "started", "0.7.0").json()["state"] == "offered"
    assert_problem(fleet.tell(canary, rollout, "failed", detail="x" * 501), 422, 1006)


def test_a_device_that_was_sent_away_is_not_waited_for(fleet: Fleet) -> None:
    rollout = fleet.begin(canary=5)
    gone = fleet.devices.pop()
    fleet.person.call("DELETE", f"/devices/{gone.id}")
    for device in fleet.devices:
        fleet.install(device, rollout)
    fleet.step(120)
    assert fleet.show(rollout)["state"] == "succeeded"


def test_a_step_taken_twice_changes_nothing(fleet: Fleet) -> None:
    rollout = fleet.begin()
    before = fleet.show(rollout), fleet.states(rollout)
    workspace = fleet.person.get("/me").json()["workspace"]["id"]
    for _ in range(3):
        duty.do(fleet.server.services, workspace, rollout)
    assert (fleet.show(rollout), fleet.states(rollout)) == before
