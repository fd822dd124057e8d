"""What somebody sends to hurt: it is refused with one sentence, in bounded time, and the service goes on."""

import base64
import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from pock_server.blobs.download import parse_range
from pock_server.datasets.safetensors_header import MAX_HEADER_BYTES, MalformedSafetensors, read_header
from pock_server.http.fields import MAX_FACTS_CHARACTERS
from pock_server.http.problems import Problem
from pock_server.recipes.text import MAX_CHARACTERS, read_recipe
from tests.server.conftest import ServerFactory
from tests.server.fleet.test_runs import start
from tests.server.harness import Device, Person, Server, assert_problem

SECONDS = 20
"""Far above what any of it takes, far below what it would take without a bound."""


def laughs(levels: int) -> str:
    """Ten aliases of the level before on each level."""
    lines = ["l0: &l0 [x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


RECIPES = {
    "aliases": laughs(10),
    "an alias of itself": "a: &a [*a]",
    "a merge": "a: &a {b: 1}\nc: {<<: *a}",
    "lists in lists": "[" * (MAX_CHARACTERS - 1),
    "keys in keys": "? " * (MAX_CHARACTERS // 2),
    "blocks in blocks": "\n".join(" " * n + "a:" for n in range(400)),
    "a number of many digits": "a: " + "1" * (MAX_CHARACTERS - 10),
    "a number to the base of 60": "a: " + ":".join(["1"] * (MAX_CHARACTERS // 2 - 10)),
    "a text of one line": "a: " + "x" * (MAX_CHARACTERS - 10),
    "a Python object": "a: !!python/object/apply:os.system ['true']",
    "bytes": "a: !!binary aGVsbG8=",
    "a set": "a: !!set {b}",
    "no number": "a: .nan",
    "a key that is no text": "1: 2",
}


@pytest.mark.parametrize("text", RECIPES.values(), ids=RECIPES)
def test_recipes(text: str) -> None:
    began = time.monotonic()
    with pytest.raises(Problem, match="The recipe cannot be read"):
        read_recipe(text)
    assert time.monotonic() - began < SECONDS


def test_a_recipe_is_read_before_the_transaction(server: Server, person: Person) -> None:
    """Nobody waits for the reader: the writer's turn is free while it reads."""
    model = person.model()["id"]
    with server.services.database.write():
        answer = person.post("/builds", {"model_id": model, "recipe": laughs(10), "target": "host"})
    assert_problem(answer, 422, 3003)
    assert "alias" in answer.json()["detail"]


def header_of(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


HEADERS = {
    "many tensors": json.dumps({f"{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(2000)}),
    "a tensor of many dimensions": json.dumps(
        {"a": {"dtype": "F32", "shape": [2**52] * 50_000, "data_offsets": [0, 0]}}
    ),
    "nesting": '{"a": ' + "[" * 500_000,
    "a number of many digits": '{"a": ' + "1" * 500_000 + "}",
    "a long name": json.dumps({"a" * 5000: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}),
    "half of a character": '{"\\ud800": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}',
    "a NUL": '{"\\u0000": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}',
    "more than is allowed": "{" + " " * MAX_HEADER_BYTES,
}


@pytest.mark.parametrize("text", HEADERS.values(), ids=HEADERS)
def test_headers_of_datasets(text: str) -> None:
    file = header_of(text.encode())
    began = time.monotonic()
    with pytest.raises(MalformedSafetensors):
        read_header(lambda start, length: file[start : start + length], len(file))
    assert time.monotonic() - began < SECONDS


def test_a_dataset_is_read_outside_of_the_writers_turn(server: Server, person: Person) -> None:
    digest = person.upload(header_of(b"{nonsense"))
    with server.services.database.write():
        assert_problem(person.post("/datasets", {"name": "x", "digest": digest}), 422, 10004)


@pytest.mark.parametrize("depth", [40, 3_000, 200_000])
def test_json_of_any_depth(person: Person, depth: int) -> None:
    body = '{"name": ' + "[" * depth + "]" * depth + "}"
    answer = person.call("POST", "/models", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert person.get("/models").status_code == 200


@pytest.mark.parametrize("length", [255, 300, 5_000])
def test_long_addresses(start_server: ServerFactory, tmp_path: Path, length: int) -> None:
    (tmp_path / "index.html").write_text("the dashboard")
    server = start_server(web_dist=tmp_path)
    person = server.person()
    for path in ("a" * length, "a/" * length, "a" * length + ".js", "v1/" + "a" * length, "%00" * length):
        assert server.client.get(f"/{path}").status_code in (200, 401, 404)
        assert person.get(f"/{path}").status_code == 404
    assert person.get("/models").status_code == 200


RANGES = ["bytes=0-" + "9" * 5_000, "bytes=" + "9" * 5_000 + "-", "bytes=-" + "9" * 5_000, "bytes=" + "0" * 30 + "1-"]


@pytest.mark.parametrize("header", RANGES)
def test_ranges_of_many_digits(person: Person, header: str) -> None:
    assert parse_range(header, 10) is None
    digest = person.upload(b"0123456789")
    assert person.get(f"/blobs/sha256/{digest}", headers={"Range": header}).content == b"0123456789"


def cursor(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


CURSORS = [
    cursor('["2030-01-01T00:00:00+00:00", "\\ud800"]'),
    cursor('["2030-01-01T00:00:00+00:00", "\\u0000"]'),
    cursor(["2030-01-01T00:00:00", "018f0000-0000-7000-8000-000000000000"]),
    cursor(["0001-01-01T00:00:00+14:00", "018f0000-0000-7000-8000-000000000000"]),
    cursor("[" * 100),
    cursor([1, 2]),
    cursor({"a": 1, "b": 2}),
    "é",
    "====",
]


@pytest.mark.parametrize("text", CURSORS)
def test_cursors(person: Person, text: str) -> None:
    assert_problem(person.get("/models", params={"cursor": text}), 422, 1013)
    assert person.get("/models").status_code == 200


@pytest.mark.parametrize("phase", [[], {}, 1, None, ["train"], "\ud800", "x" * 10_000])
@pytest.mark.parametrize("event", ["eval", "step"])
def test_events_of_an_odd_phase(server: Server, person: Person, device: Device, event: str, phase: Any) -> None:
    run = start(server, person, device)
    events = [{"event": event, "phase": phase, "step": 1, "loss": 1.0, "samples": 8}]
    body = json.dumps({"fence": device.work["fence"], "first_seq": 0, "events": events})
    path = f"/runs/{device.work['run_id']}/events"
    answer = device.call("POST", path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 422), answer.text
    assert person.get(f"/runs/{run}").json()["state"] == "running"


def test_facts_are_small(device: Device) -> None:
    facts = {"cpu": "x" * (MAX_FACTS_CHARACTERS - 20)}
    assert device.call("POST", "/heartbeat", json={"state": "idle", "facts": facts}).status_code == 200
    many = {f"{n}": n for n in range(MAX_FACTS_CHARACTERS // 2)}
    assert_problem(device.call("POST", "/heartbeat", json={"state": "idle", "facts": many}), 422, 1006)
