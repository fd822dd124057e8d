"""Tuning by the fleet: what becomes of a build that asks for it, whom devices' words convince, and who may not be
believed."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pock_server.runner.claims import Broken, Built, claim_next, finish
from pock_server.runner.duties import DUTIES, fulfil
from pock_server.runner.workplace import load_task
from pock_server.tuning.packs import key_of
from tests.server.artifacts import SUMMARY
from tests.server.harness import Device, Person, Server, assert_problem, make_artifact

HOST = {"target": "host", "agent_version": "1.0.0"}
NAMES = ("one", "two")


def inputs(name: str) -> dict[str, str]:
    return {"family": "matmul", "device": "x86_64 skylake", "sizes": "1,2,3", "body": name}


def pack(names: Sequence[str] = NAMES, candidates: int = 3, least_ms: float = 0.001) -> list[dict[str, Any]]:
    """What a worker says of trials."""
    ways = [{"choice": {"tile": number}, "text": f"tile {number}", "nbytes": 64} for number in range(candidates)]
    return [
        {"key": key_of(told), "family": "matmul", "inputs": told, "least_ms": least_ms, "candidates": ways}
        for told in map(inputs, names)
    ]


Times = Callable[[int, int], float]


def report(times: Times, names: Sequence[str] = NAMES, **changes: Any) -> dict[str, Any]:
    """What a device says of a pack: a candidate's milliseconds by its workload and number."""
    trials = [
        {"workload": index, "candidate": number, "wrong": 0, "overrun": False, "ms": [times(index, number)] * 7}
        for index in range(len(names))
        for number in range(3)
    ]
    for place, change in changes.items():
        trials[int(place[1:])].update(change)
    return {"train": {"entry": "bench", "trials": trials}, "health": {"emulated": False, "max_temperature_c": 51.5}}


def second_wins(index: int, number: int) -> float:
    """The candidate 1 is quickest."""
    return (1.0, 0.5, 0.8)[number]


class Fleet:
    """A workspace with devices; what a service's leader and workers do, one step at a time."""

    def __init__(self, server: Server, person: Person, devices: int) -> None:
        self.server, self.person = server, person
        self.devices = [server.device(person, HOST) for _ in range(devices)]
        for device in self.devices:
            device.call("POST", "/heartbeat", json={"state": "idle"})

    def do(self) -> None:
        fulfil(self.server.services, DUTIES)

    def ask(self, unknown: int = 2, **changes: Any) -> dict[str, Any]:
        """A build for the fleet's knowledge, and the worker that finds so many unknown workloads."""
        answer = self.person.build(tune="fleet", **changes)
        assert answer.status_code == 202, answer.text
        counted = {"workloads": 4, "hits": 4 - unknown, "by_model": unknown, "to_try": unknown, "unknown": []}
        self.built({**SUMMARY, "tuning": counted})
        return dict(self.person.get(f"/builds/{answer.json()['id']}").json())

    def built(self, summary: dict[str, Any], listed: Any = None) -> Any:
        """What the runner's next claim is told; its build succeeds."""
        services = self.server.services
        claim = claim_next(services)
        assert claim is not None
        task, made = load_task(services, claim), make_artifact(services, claim.build_id)
        if listed is not None:
            digest, size = services.blobs.put_bytes(json.dumps(listed).encode())
            made.members["trials.json"] = {"sha256": digest, "size": size}
        finish(services, claim, Built(made.digest, made.size, made.members, made.executable, made.inputs, summary))
        return task

    def packed(self, listed: Any = None, left: int = 0) -> Any:
        """The pack is asked for, built and offered; the worker's task."""
        self.do()
        task = self.built({**SUMMARY, "left": left}, pack() if listed is None else listed)
        self.do()
        self.do()
        return task

    def run(self, device: Device, told: dict[str, Any], state: str = "succeeded") -> None:
        """The device does its next work."""
        work = device.take_work()
        assert work is not None and work["run"]["entry"] == "bench" and work["data"]["train"] is None
        assert device.post("lease").status_code == 200
        failure = {} if state == "succeeded" else {"failure": {"code": 2001, "detail": "it crashed"}}
        assert device.post("result", state=state, report=told, **failure).status_code == 200
        self.do()

    def busy(self) -> list[Device]:
        """The devices that have something to do."""
        found = self.person.get("/runs").json()["items"]
        waiting = {run["device_id"] for run in found if run["state"] == "queued"}
        return [device for device in self.devices if device.id in waiting]

    def entries(self, **filters: Any) -> dict[str, Any]:
        found = self.person.get("/tuning", params=filters).json()["items"]
        return {one["inputs"]["body"]: one for one in found}

    def job(self) -> dict[str, Any]:
        return dict(self.person.get("/tuning/jobs").json()["items"][0])

    def distrusted(self) -> dict[str, str]:
        return {one["device_id"]: one["reason"] for one in self.person.get("/tuning/devices").json()["items"]}


@pytest.fixture
def fleet(server: Server, person: Person) -> Callable[[int], Fleet]:
    return lambda devices: Fleet(server, person, devices)


def test_two_devices_agree_and_a_later_build_is_told(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(2)
    build = here.ask()
    assert build["tune"] == "fleet" and here.job()["state"] == "building"
    assert here.packed().tuning.without == ()
    assert here.job() | {"state": "measuring", "trying": 2, "packs": 1} == here.job()
    assert [one["id"] for one in here.person.get("/builds").json()["items"]] == [build["id"]]
    assert len(here.busy()) == 2
    runs = here.person.get("/runs", params={"part_of": here.job()["id"]}).json()["items"]
    assert [(run["priority"], run["dataset_id"], run["entry"]) for run in runs] == [(-100, None, "bench")] * 2
    job = here.job()
    assert runs[0]["longer_work"] == {"kind": "tuning", "id": job["id"], "name": job["build_name"]}
    here.run(here.devices[0], report(second_wins))
    assert not here.entries(known=True)
    here.run(here.devices[1], report(lambda index, number: 3 * second_wins(index, number)))
    known = here.entries(known=True)
    assert {name: one["choice"] for name, one in known.items()} == {name: {"tile": 1} for name in NAMES}
    assert (known["one"]["devices"], known["one"]["source"], known["one"]["choice_text"]) == (2, "fleet", "tile 1")
    assert known["one"]["ms"] == pytest.approx(1.0) and known["one"]["model_ms"] == pytest.approx(2.0)
    measured = known["one"]["provenance"]["measurements"]
    assert {one["device_id"] for one in measured} == {device.id for device in here.devices}
    assert measured[0]["max_temperature_c"] == 51.5 and measured[0]["agent"] and measured[0]["measured_at"]
    assert here.job() | {"state": "succeeded", "tried": 2, "decided": 2, "trying": 0} == here.job()
    again = here.person.build(tune="fleet", model_id=build["model_id"]).json()
    assert again["id"] != build["id"]
    task = here.built(SUMMARY)
    head, *lines = map(json.loads, task.tuning.lines)
    assert head == {"format": "pock-tuning", "version": 1} and task.tuning.without is None
    assert [(one["inputs"]["body"], one["result"]["choice"], one["result"]["by"]) for one in lines] == [
        (name, {"tile": 1}, "fleet") for name in sorted(NAMES)
    ]
    same = here.person.build(tune="fleet", model_id=build["model_id"]).json()
    assert same["id"] == again["id"], "nothing was learned since"


def test_a_build_that_does_not_ask_is_as_before(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(1)
    assert here.person.build().json()["tune"] == "off"
    assert here.built(SUMMARY).tuning is None
    assert here.person.get("/tuning/jobs").json()["items"] == []


def test_one_stable_device_is_enough_where_there_is_no_other(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(1)
    here.ask()
    here.packed()
    here.run(here.devices[0], report(second_wins, t1={"ms": [0.1, 0.9] * 4}))
    assert {name: one["devices"] for name, one in here.entries(known=True).items()} == {"two": 1}
    assert here.job() | {"state": "succeeded", "decided": 1} == here.job()


def test_a_device_that_lies_about_times_is_outvoted(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(3)
    here.ask()
    here.packed()
    liar, *honest = sorted(here.devices, key=lambda device: device not in here.busy())
    here.run(liar, report(lambda index, number: (1.0, 0.9, 0.05)[number]))
    here.run(honest[0], report(second_wins))
    assert not here.entries(known=True) and here.busy() == [honest[1]], "a third device decides"
    here.run(honest[1], report(second_wins))
    known = here.entries(known=True)
    assert [one["choice"] for one in known.values()] == [{"tile": 1}] * 2
    assert {one["device_id"] for one in known["one"]["provenance"]["measurements"]} == {one.id for one in honest}
    assert not here.distrusted()


@pytest.mark.parametrize("number", [0, 1])
def test_a_device_that_computes_wrong_numbers_is_caught(number: int, fleet: Callable[[int], Fleet]) -> None:
    here = fleet(3)
    here.ask()
    here.packed()
    broken, *others = sorted(here.devices, key=lambda device: device not in here.busy())
    wrong: Any = {f"t{number}": {"wrong": 3}}
    here.run(broken, report(second_wins, **wrong))
    here.run(others[0], report(second_wins))
    assert "other numbers" in here.distrusted()[broken.id] and not here.entries(known=True)
    (told,) = here.person.get("/tuning/devices").json()["items"]
    assert told["device_name"] == here.person.get(f"/devices/{broken.id}").json()["name"]
    here.run(others[1], report(second_wins))
    assert {one["devices"] for one in here.entries(known=True).values()} == {2}
    here.ask(model_id=here.person.model(b"another model", "other")["id"])
    here.packed(pack(("three",)))
    assert broken not in here.busy()
    assert here.person.call("DELETE", f"/tuning/devices/{broken.id}").status_code == 204
    assert not here.distrusted()


def test_a_candidate_that_is_wrong_everywhere_is_no_device_s_fault(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(2)
    here.ask()
    here.packed()
    for device in here.devices:
        here.run(device, report(second_wins, t1={"wrong": 3}))
    assert not here.distrusted()
    assert here.entries(known=True)["one"]["choice"] == {"tile": 2}
    assert here.entries()["one"]["provenance"]["rejected"] == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"t0": {"ms": [1e-9] * 7}}, "no processor"),
        ({"t0": {"ms": [9e5] * 7}}, "in all"),
        ({"t0": {"ms": [-1.0]}}, "greater than 0"),
        ({"t0": {"workload": 7}}, "other trials"),
        ({"t0": {"wrong": "none"}}, "integer"),
    ],
)
def test_what_cannot_be_is_not_believed(changes: Any, said: str, fleet: Callable[[int], Fleet]) -> None:
    here = fleet(1)
    here.ask()
    here.packed()
    here.run(here.devices[0], report(second_wins, **changes))
    assert said in here.distrusted()[here.devices[0].id]
    assert not here.entries(known=True)


def test_a_device_that_fails_or_is_emulated_convinces_nobody(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(2)
    here.ask()
    here.packed()
    emulated = report(second_wins)
    emulated["health"]["emulated"] = True
    here.run(here.devices[0], emulated)
    here.run(here.devices[1], {}, state="failed")
    assert not here.entries(known=True) and not here.distrusted()
    assert here.job() | {"state": "succeeded", "decided": 0} == here.job()


def test_the_next_pack_does_not_try_what_was_tried(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(1)
    here.ask()
    here.packed(pack(("one",)), left=1)
    here.run(here.devices[0], report(second_wins, ("one",)))
    assert here.job() | {"state": "building", "packs": 1, "decided": 1} == here.job()
    task = here.packed(pack(("two",)))
    assert task.tuning.without == (key_of(inputs("one")),) and len(task.tuning.lines) == 2
    here.run(here.devices[0], report(second_wins, ("two",)))
    assert here.job() | {"state": "succeeded", "packs": 2, "tried": 2, "decided": 2} == here.job()


@pytest.mark.parametrize(
    ("outcome", "state"),
    [(Broken(2008, "Nothing is left."), "succeeded"), (Broken(2001, "It crashed."), "failed")],
)
def test_a_pack_that_is_not_built_ends_the_search(outcome: Broken, state: str, fleet: Callable[[int], Fleet]) -> None:
    here = fleet(1)
    here.ask()
    here.do()
    here.server.finish_build(outcome)
    here.do()
    assert here.job()["state"] == state


@pytest.mark.parametrize(
    "listed",
    [[], {}, pack() * 2, [{**pack()[0], "key": "0" * 64}], [{**pack()[0], "candidates": []}], "x" * (5 << 20)],
    ids=["nothing", "object", "twice", "wrong key", "no candidates", "large"],
)
def test_a_pack_of_a_hostile_model_is_refused(listed: Any, fleet: Callable[[int], Fleet]) -> None:
    here = fleet(1)
    here.ask()
    here.packed(listed)
    assert here.job()["state"] == "failed" and "trials" in here.job()["failure"]["detail"]


def test_without_a_device_it_waits_and_gives_up(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(2)
    here.server.clock.advance(600)  # nobody is there any more
    here.ask()
    here.packed()
    assert here.job()["state"] == "measuring" and not here.busy()
    here.server.clock.advance(here.server.services.settings.tuning_patience_seconds + 1)
    here.do()
    assert here.job() | {"state": "succeeded", "decided": 0, "tried": 2} == here.job()


def test_a_device_does_no_more_than_its_daily_share(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(1)
    settings = here.server.services.settings
    assert settings.tuning_seconds_per_day < 3_700 and settings.tuning_patience_seconds >= 86_400
    here.ask()
    here.packed(pack(("one",)), left=1)
    device = here.devices[0]
    assert device.take_work() is not None and device.post("lease").status_code == 200
    here.server.clock.advance(3_700)
    device.open_session()
    device.call("POST", "/heartbeat", json={"state": "idle"})
    assert device.post("result", state="succeeded", report=report(second_wins, ("one",))).status_code == 200
    here.do()
    here.packed(pack(("two",)))
    assert not here.busy()
    here.server.clock.advance(86_400)
    device.open_session()
    device.call("POST", "/heartbeat", json={"state": "idle"})
    here.do()
    assert here.busy() == [device]


def test_dropping_a_device_makes_what_rested_on_it_unknown(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(2)
    here.ask()
    here.packed()
    for device in here.devices:
        here.run(device, report(second_wins))
    assert len(here.entries(known=True)) == 2
    assert here.person.call("DELETE", f"/tuning/devices/{here.devices[0].id}").status_code == 204
    assert {one["devices"] for one in here.entries(known=True).values()} == {1}, "the other one's word is stable"
    assert here.person.call("DELETE", f"/tuning/devices/{here.devices[1].id}").status_code == 204
    assert not here.entries(known=True) and len(here.entries(known=False)) == 2


def test_entries_travel_as_files(fleet: Callable[[int], Fleet], server: Server) -> None:
    here = fleet(0)
    entry = {
        "inputs": inputs("one"),
        "choice": {"tile": 2},
        "ms": 0.5,
        "model_ms": 1.0,
        "provenance": {"of": "a lab"},
    }
    body = {"target": "host", "entries": [entry, {**entry, "inputs": inputs("two")}]}
    assert here.person.post("/tuning", body).json() == {"added": 2, "kept": 0}
    assert here.person.post("/tuning", body).json() == {"added": 0, "kept": 2}
    found = here.entries(known=True, target="host", family="matmul")["one"]
    assert (found["choice"], found["source"], found["key"]) == ({"tile": 2}, "import", key_of(inputs("one")))
    assert not here.entries(target="raspberry-pi-4")
    assert server.person(workspace="other").get("/tuning").json()["items"] == []
    assert_problem(here.person.post("/tuning", {**body, "target": "toaster"}), 422, 10003)
    poor = {**body, "entries": [{**entry, "inputs": {"family": "matmul"}}]}
    assert_problem(here.person.post("/tuning", poor), 422, 1006)
    here.person.build(tune="fleet")
    assert len(here.built(SUMMARY).tuning.lines) == 3


def test_a_search_can_be_cancelled(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(1)
    here.ask()
    here.packed()
    job = here.job()["id"]
    assert here.person.post(f"/tuning/jobs/{job}/cancel").json()["state"] == "cancelled"
    assert here.person.post(f"/tuning/jobs/{job}/cancel").json()["state"] == "cancelled"
    here.do()
    assert here.person.get(f"/tuning/jobs/{job}").json()["state"] == "cancelled"


def test_a_model_goes_with_its_trials(fleet: Callable[[int], Fleet]) -> None:
    here = fleet(1)
    build = here.ask()
    here.packed(left=5)
    delete = f"/models/{build['model_id']}"
    assert_problem(here.person.call("DELETE", delete), 409, 1014)
    assert here.person.call("DELETE", f"/builds/{build['id']}").status_code == 204
    assert_problem(here.person.call("DELETE", delete), 409, 1014)
    here.run(here.devices[0], report(second_wins))
    here.do()
    here.server.finish_build(Broken(2001, "It crashed."))
    assert here.person.call("DELETE", delete).status_code == 204
    here.do()
    assert here.person.get("/runs").json()["items"] == [] and len(here.entries(known=True)) == 2
