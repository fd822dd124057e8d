"""What one of the databases could not store is refused on both, wherever it stands in a request."""

import json
from typing import Any

import pytest

from tests.server.fleet.test_runs import start
from tests.server.harness import Device, Person, Server, assert_problem

TEXTS = {"NUL": "a\0b", "half a character": "\ud800"}
NUMBERS = (2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30)


def leaves(value: Any, kind: type) -> list[tuple[Any, ...]]:
    """Ways to all values of a kind in a JSON value."""
    if isinstance(value, dict):
        return [(key, *rest) for key, item in value.items() for rest in leaves(item, kind)]
    if isinstance(value, list):
        return [(index, *rest) for index, item in enumerate(value) for rest in leaves(item, kind)]
    return [()] if type(value) is kind else []


def changed(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    """A copy of the value with a new leaf."""
    if not way:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[way[0]] = changed(value[way[0]], way[1:], new)
    return copy


def requests(server: Server, person: Person, device: Device) -> list[tuple[Any, str, Any]]:
    """Who sends what where; all of it is good."""
    run_id = start(server, person, device)
    model, dataset, build = (
        person.model()["id"],
        person.dataset()["id"],
        server.built(person, recipe={"batch": 9})["id"],
    )
    fence, digest = device.work["fence"], person.upload(b"more")
    order = {"build_id": build, "device_id": device.id, "dataset_id": dataset, "steps": 1, "threads": 1, "seed": 1}
    event = {"event": "step", "phase": "train", "step": 1, "loss": 1.0, "ms": 1.0}
    failure = {"code": 2001, "detail": "a fault"}
    report = {"train": {"entry": "train", "steps": 1}, "health": {"note": "warm"}}
    return [
        (person, "/models", {"name": "net", "digest": digest, "external": {"w.bin": digest}}),
        (person, "/datasets", {"name": "d", "digest": digest}),
        (person, "/builds", {"model_id": model, "recipe": {"batch": 1, "x": ["y"]}, "target": "host", "threads": 1}),
        (person, "/builds", {"model_id": model, "recipe": "batch: 2", "target": "host", "name": "n", "priority": 1}),
        (person, "/uploads", {"digest": "0" * 64, "size": 1}),
        (person, "/enrollment-tokens", {"name": "n", "pool": "p", "ttl_seconds": 5}),
        (person, "/runs", {**order, "deadline_seconds": 5, "queue_deadline_seconds": 5}),
        (device, "/heartbeat", {"state": "busy", "run_id": run_id, "fence": fence, "facts": {"a": {"b": ["c", 1]}}}),
        (device, f"/runs/{run_id}/lease", {"fence": fence}),
        (device, f"/runs/{run_id}/events", {"fence": fence, "first_seq": 2, "events": [event]}),
        (device, f"/runs/{run_id}/result", {"fence": fence, "state": "failed", "failure": failure, "report": report}),
    ]


def send(who: Any, path: str, body: Any) -> Any:
    return who.call("POST", path, content=json.dumps(body), headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_texts(server: Server, person: Person, device: Device, text: str) -> None:
    for who, path, body in requests(server, person, device):
        for way in leaves(body, str):
            assert_problem(send(who, path, changed(body, way, text)), 422, 1006)
        assert_problem(send(who, path, {**body, text: 1}), 422, 1006)


def test_numbers(server: Server, person: Person, device: Device) -> None:
    for who, path, body in requests(server, person, device):
        for way in leaves(body, int):
            for number in NUMBERS:
                answer = send(who, path, changed(body, way, number))
                assert answer.status_code < 500, (path, way, number, answer.text)
                if not -(2**63) <= number < 2**64:
                    assert_problem(answer, 422, 1006)


@pytest.mark.in_process("sends a header that no client puts on a wire")
def test_in_paths_and_queries(server: Server, person: Person, device: Device) -> None:
    for path in (
        "/models/%00",
        "/models?cursor=%00",
        "/builds?state=%00",
        "/runs?device_id=a%00b",
        "/blobs/sha256/%00",
    ):
        assert_problem(person.get(path), 422, 1006)
    assert_problem(person.post("/models", {}, headers={"Idempotency-Key": "a\0b"}), 422, 1006)
