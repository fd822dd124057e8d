"""Lists of runs: searched by words, and with reports that are short whatever a device sent."""

from __future__ import annotations

from typing import Any

import pytest

from pock_server.auth.schemas import Scope
from tests.server.fleet.test_runs import start
from tests.server.harness import Device, Person, Server


def test_runs_are_found_by_words(server: Server, person: Person, device: Device) -> None:
    """Each word in another of its names; what stands for any characters elsewhere stands for itself here."""
    run = server.run(person, device).json()
    known = {key: run[key]["name"] for key in ("model", "build", "dataset")}

    def found(text: str) -> list[str]:
        answer = person.get("/runs", params={"text": text})
        assert answer.status_code == 200, answer.text
        return [one["id"] for one in answer.json()["items"]]

    for text in (*known.values(), run["device_name"].upper(), run["id"][-8:], "queued", f" · {known['model'][:3]} "):
        assert run["id"] in found(text), text
    assert run["id"] in found(f"{known['model']} {run['device_name']} QUEUED {known['dataset']}")
    for text in (f"{known['model']} nowhere", "%", "_____", "*", "\\", "' OR 1=1 --", "succeeded", "\u2603" * 60):
        assert found(text) == [], text
    assert person.get("/runs", params={"text": "a" * 201}).status_code == 422
    assert run["id"] in found(" ".join([known["model"]] * 60)[:200])


def test_runs_of_another_workspace_are_not_found(server: Server, person: Person, device: Device) -> None:
    run = server.run(person, device).json()
    stranger = server.person(Scope.READ, workspace="others")
    assert stranger.get("/runs", params={"text": run["device_name"]}).json()["items"] == []


def _briefly(server: Server, person: Person, device: Device, report: dict[str, Any]) -> dict[str, Any]:
    """What a list says of a run whose device sent this report."""
    run_id = start(server, person, device)
    assert device.post("result", state="succeeded", report=report).status_code == 200
    (found,) = (run["report"] for run in person.get("/runs").json()["items"] if run["id"] == run_id)
    return dict(found)


@pytest.mark.parametrize(
    "health",
    [
        {},
        {"max_temperature_c": "80", "throttled": {"a": [1] * 50}},
        {"max_temperature_c": [80], "throttled": 1},
        {"max_temperature_c": True, "throttled": "yes"},
        {"max_temperature_c": 1e30, "throttled": None},
    ],
    ids=["none", "texts", "lists", "truths", "huge"],
)
def test_a_list_keeps_of_health_only_what_it_knows(
    server: Server, person: Person, device: Device, health: dict[str, Any]
) -> None:
    assert _briefly(server, person, device, {"train": {"steps": 3}, "health": health})["health"] == {}


def test_a_list_stays_short_whatever_a_device_sent(server: Server, person: Person, device: Device) -> None:
    train = {
        "steps": 3,
        "loss": [3.0, 2.0, 1.0],
        "kernels": [{"name": "k", "ms": 1.0}] * 99,
        "step_ms": {"median": 2.5, "samples": [2.5] * 99},
        "notes": ["a long text"] * 1000,
        "deep": {"a": {"b": {"c": "x" * 2000}}},
    }
    told = _briefly(server, person, device, {"train": train, "health": {}})["train"]
    assert told["loss"] == [3.0, 1.0] and told["step_ms"]["median"] == 2.5
    assert not told.keys() & {"notes", "deep"} and not told["kernels"] and len(str(told)) < 2000


def test_a_list_says_how_hot_a_device_became(server: Server, person: Person, device: Device) -> None:
    health = {"max_temperature_c": 84.5, "throttled": True, "samples": [{"celsius": 1}] * 50}
    told = _briefly(server, person, device, {"train": {"steps": 3}, "health": health})
    assert told["health"] == {"max_temperature_c": 84.5, "throttled": True}
