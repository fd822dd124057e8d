"""The real command on a real socket: start-up, live streams, long polls, shutdown, and the other commands."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.server.databases import Databases
from tests.server.harness import FAKE_WORKER, Device, Person

COMMAND = (sys.executable, "-m", "pock_server.cli")


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    options = ("--data-dir", str(folder)) if arguments[0] != "openapi" else ()
    return subprocess.run([*COMMAND, *arguments, *options], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, databases: Databases) -> Iterator[Path]:
    """The data folder; the environment names its database."""
    made = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("POCK_DATABASE_URL", databases.make_empty(made))
        yield made


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {
        **os.environ,
        "POCK_WORKER_COMMAND": json.dumps([sys.executable, str(FAKE_WORKER)]),
        "POCK_SWEEP_SECONDS": "0.2",
        "POCK_SANDBOX": "off",  # the fake worker is no part of what confined builds may read
    }
    arguments = [*COMMAND, "serve", "--port", "0", "--data-dir", str(folder), "--json"]
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    with child:
        yield child
        child.kill()


@pytest.fixture(scope="module")
def url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return str(json.loads(process.stdout.readline())["url"])


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=30) as found:
        yield found


@pytest.fixture(scope="module")
def person(client: httpx.Client, folder: Path) -> Person:
    made = command("create-key", "--scopes", "all", folder=folder)
    assert made.returncode == 0, made.stderr
    found = Person(client, made.stdout.strip())  # type: ignore[arg-type]
    ends = time.monotonic() + 30
    while found.get("/targets").status_code == 503:  # the worker describes its compiler first
        assert time.monotonic() < ends
        time.sleep(0.05)
    return found


def test_serves_from_the_announced_address(client: httpx.Client, person: Person) -> None:
    assert client.get("/readyz").json()["status"] == "ok"
    assert person.get("/devices").json() == {"items": [], "next_cursor": None, "total": 0}


def test_stream_is_live_and_resumes(client: httpx.Client, person: Person) -> None:
    build_id = person.build(name="hang").json()["id"]
    headers = {"Authorization": f"Bearer {person.key}"}
    kinds: list[tuple[str, str]] = []
    with client.stream("GET", f"/v1/builds/{build_id}/events", headers=headers) as stream:
        lines = stream.iter_lines()
        while not kinds or kinds[-1][0] != "log":  # its first line may be one of the other stream
            kinds.append(next_event(lines))
    last = len(kinds)
    person.post(f"/builds/{build_id}/cancel")
    again = {**headers, "Last-Event-ID": str(last)}
    with client.stream("GET", f"/v1/builds/{build_id}/events", headers=again) as stream:
        rest = [line for line in stream.iter_lines() if line.startswith(("id:", "data:"))]
    assert rest[0] == f"id: {last + 1}" or rest[1] == f"id: {last + 1}"
    assert json.loads(rest[-1].removeprefix("data: ") if rest[-1].startswith("data") else rest[-2][6:]) == {
        "state": "cancelled"
    }


def next_event(lines: Iterator[str]) -> tuple[str, str]:
    """Kind and first line of text or state of the next event."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line and fields:
            break
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
    data = json.loads(fields["data"])
    return fields["event"], str(data.get("text", data.get("state", ""))).split("\n")[0]


def test_long_poll_waits_and_wakes(client: httpx.Client, person: Person, folder: Path) -> None:
    build_id = person.build(model_id=person.model(b"poll")["id"], name="succeed").json()["id"]
    while person.get(f"/builds/{build_id}").json()["state"] != "succeeded":
        time.sleep(0.05)
    made = command("create-token", "--name", "bench", "--json", folder=folder)
    device = Device(client, Ed25519PrivateKey.generate())  # type: ignore[arg-type]
    assert device.enrol(json.loads(made.stdout)["token"]).status_code == 201
    assert person.get(f"/devices/{device.id}").json()["name"] == "bench"
    device.open_session()
    assert device.call("GET", "/work?wait=0.2").status_code == 204
    dataset = person.dataset()["id"]
    answers: list[Any] = []
    poll = threading.Thread(target=lambda: answers.append(device.call("GET", "/work?wait=20")))
    poll.start()
    time.sleep(0.3)
    body = {"build_id": build_id, "device_id": device.id, "dataset_id": dataset, "steps": 1}
    asked = time.monotonic()
    assert person.post("/runs", body).status_code == 202
    poll.join(timeout=15)
    assert answers[0].status_code == 200
    # The server looks again every five seconds in any case; a wake-up by the bell is what is tested.
    assert time.monotonic() - asked < 4


def test_more_writers_than_threads_at_once(url: str, person: Person) -> None:
    async def write_all() -> list[int]:
        limits = httpx.Limits(max_connections=150)
        async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
            headers = {"Authorization": f"Bearer {person.key}"}
            calls = [client.post("/v1/enrollment-tokens", json={}, headers=headers) for _ in range(150)]
            return [answer.status_code for answer in await asyncio.gather(*calls)]

    assert set(asyncio.run(write_all())) == {201}


def test_commands_refuse_with_one_sentence(folder: Path, url: str) -> None:
    wrong = command("create-key", "--scopes", "everything", folder=folder)
    assert wrong.returncode == 2 and "unknown scope everything" in wrong.stderr and "Traceback" not in wrong.stderr
    port = url.rsplit(":", 1)[1]
    taken = command("serve", "--port", port, folder=folder)
    assert taken.returncode == 2 and "choose another one with --port" in taken.stderr


def test_openapi_command_prints_the_document_and_leaves_nothing(client: httpx.Client, folder: Path) -> None:
    before = sorted(folder.iterdir())
    printed = command("openapi", folder=folder)
    assert json.loads(printed.stdout) == client.get("/openapi.json").json()
    assert sorted(folder.iterdir()) == before


def test_stops_in_spite_of_open_streams(
    process: subprocess.Popen[str], client: httpx.Client, person: Person, folder: Path
) -> None:
    build_id = person.build(model_id=person.model(b"stop")["id"], name="hang").json()["id"]
    headers = {"Authorization": f"Bearer {person.key}"}
    with client.stream("GET", f"/v1/builds/{build_id}/events", headers=headers) as stream:
        next_event(stream.iter_lines())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) in (0, -signal.SIGTERM)
    assert "timeout graceful shutdown exceeded" not in (folder / "log").read_text()
