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


@pytest.mark.parametrize(
    "health",
    [None, [], "hot", 7, {"max_temperature_c": "80", "throttled": {"a": [1] * 50}}, {"max_temperature_c": [80]}],
)
def test_a_list_keeps_of_health_only_what_it_knows(server: Server, person: Person, device: Device, health: Any) -> None:
    run_id = start(server, person, device)
    report = {"train": {"steps": 3, "loss": [3.0, 2.0, 1.0], "kernels": [1] * 99}, "health": health}
    device.post("result", state="succeeded", report=report)
    (brief,) = (run["report"] for run in person.get("/runs").json()["items"] if run["id"] == run_id)
    if brief is not None:  # else the report as a whole was refused
        assert brief["health"] == {} and brief["train"]["loss"] == [3.0, 1.0] and "kernels" not in brief["train"]


def test_a_list_says_how_hot_a_device_became(server: Server, person: Person, device: Device) -> None:
    run_id = start(server, person, device)
    health = {"max_temperature_c": 84.5, "throttled": True, "samples": [{"celsius": 1}] * 50}
    device.post("result", state="succeeded", report={"train": {"steps": 3}, "health": health})
    (brief,) = (run["report"] for run in person.get("/runs").json()["items"] if run["id"] == run_id)
    assert brief["health"] == {"max_temperature_c": 84.5, "throttled": True}
