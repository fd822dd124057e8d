"""Several real processes on one PostgreSQL: what one writes wakes those who wait on another, and one sweeps for all.

A request here gives up long before a process would look at the database without having been rung.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.server.databases import Databases
from tests.server.harness import FAKE_WORKER, Device, Person
from tests.server.operating.test_live import COMMAND, command, next_event

pytestmark = pytest.mark.parametrize("engine_name", ["postgresql"], indirect=True)
SECONDS = 12
"""Less than the time after which a process looks at the database unasked."""


@dataclass
class Process:
    """A `pock-server serve` and a client of it."""

    child: "subprocess.Popen[str]"
    log: Path
    client: httpx.Client

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def children(self) -> list[psutil.Process]:
        found = psutil.Process(self.child.pid).children()
        return [process for process in found if "spawn_main" in " ".join(process.cmdline())]


Start = Callable[..., Process]


@pytest.fixture
def folder(tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder that all processes share; the environment has their settings."""
    monkeypatch.setenv("POCK_DATABASE_URL", databases.make(tmp_path))
    monkeypatch.setenv("POCK_WORKER_COMMAND", json.dumps([sys.executable, str(FAKE_WORKER)]))
    monkeypatch.setenv("POCK_SWEEP_SECONDS", "0.3")
    monkeypatch.setenv("POCK_SANDBOX", "off")
    monkeypatch.setenv("POCK_COMPILER_CACHE_DIR", str(tmp_path / "compiler"))
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def one(*options: str, **environment: str) -> Process:
            path = folder / f"log-{time.monotonic_ns()}"
            arguments = [*COMMAND, "serve", "--port", "0", "--data-dir", str(folder), "--json", *options]
            with path.open("w") as log:
                child = subprocess.Popen(
                    arguments, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **environment}
                )
            stack.callback(child.wait, 60)
            stack.callback(child.terminate)
            assert child.stdout is not None
            line = child.stdout.readline()
            assert line, path.read_text()
            client = httpx.Client(base_url=json.loads(line)["url"], timeout=httpx.Timeout(30, read=SECONDS))
            return Process(child, path, stack.enter_context(client))

        yield one


@pytest.fixture
def key(folder: Path) -> str:
    made = command("create-key", folder=folder)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def person_of(process: Process, key: str) -> Person:
    return Person(process.client, key)  # type: ignore[arg-type]


def until(probe: Callable[[], Any], seconds: float = 60) -> Any:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if found := probe():
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def built(person: Person, **changes: Any) -> str:
    """The id of a build that succeeded."""

    def ask() -> Any:
        answer = person.build(name="succeed", **changes)
        return answer.json() if answer.status_code in (200, 202) else None  # 503: no worker has described it yet

    build_id = str(until(ask)["id"])
    until(lambda: person.get(f"/builds/{build_id}").json()["state"] == "succeeded")
    return build_id


def enrolled(process: Process, person: Person) -> Device:
    device = Device(process.client, Ed25519PrivateKey.generate())  # type: ignore[arg-type]
    assert device.enrol(person.post("/enrollment-tokens", {}).json()["token"]).status_code == 201
    assert device.open_session().status_code == 200
    return device


def listeners(url: str) -> list[int]:
    """Backends of the connections that wait for rings."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        return [row[0] for row in connection.execute(query)]


def test_what_one_process_writes_wakes_those_who_wait_on_another(start: Start, key: str) -> None:
    first, second = start(), start(POCK_RUNNER="none")
    here, there = person_of(first, key), person_of(second, key)
    order = {"build_id": built(here), "dataset_id": here.dataset()["id"], "steps": 1}
    device = enrolled(first, here)
    url = os.environ["POCK_DATABASE_URL"]
    until(lambda: len(listeners(url)) == 2)

    def poll_beside(act: Callable[[], Any]) -> Any:
        answers: list[Any] = []
        poll = threading.Thread(target=lambda: answers.append(device.call("GET", "/work?wait=25")))
        poll.start()
        time.sleep(0.5)
        act()
        poll.join()
        return answers[0]

    answer = poll_beside(lambda: there.post("/runs", {**order, "device_id": device.id}))
    assert answer.status_code == 200
    device.work = json.loads(base64.b64decode(answer.json()["payload"]))
    assert device.post("lease").status_code == device.post("result", state="succeeded").status_code == 200

    # A connection that was lost: what was announced meanwhile is found when it is back.
    def lose_and_ask() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for pid in listeners(url):
                connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        there.post("/runs", {**order, "device_id": device.id})

    assert poll_beside(lose_and_ask).status_code == 200

    # A stream on the one, the other cancels; the child of the build's runner ends, too.
    build_id = there.build(name="hang", recipe={"batch": 3}).json()["id"]
    headers = {"Authorization": f"Bearer {key}"}
    with second.client.stream("GET", f"/v1/builds/{build_id}/events", headers=headers) as stream:
        lines = stream.iter_lines()
        until(lambda: next_event(lines)[0] == "log")
        worker = next(p for p in psutil.Process(first.child.pid).children(True) if "fake_worker" in str(p.cmdline()))
        assert there.post(f"/builds/{build_id}/cancel").status_code == 200
        until(lambda: next_event(lines) == ("state", "cancelled"))
    until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, SECONDS)


def test_another_process_leads_when_the_leader_is_killed(start: Start, key: str) -> None:
    first = start()
    until(lambda: "this process leads" in first.log.read_text())
    second = start()
    person = person_of(second, key)
    order = {"build_id": built(person), "dataset_id": person.dataset()["id"], "steps": 1}
    device = enrolled(second, person)
    assert "this process leads" not in second.log.read_text()
    first.kill()
    run = person.post("/runs", {**order, "device_id": device.id, "queue_deadline_seconds": 1}).json()
    until(lambda: person.get(f"/runs/{run['id']}").json()["state"] == "failed")
    assert "this process leads" in second.log.read_text()


def test_processes_behind_one_socket(start: Start, key: str, folder: Path) -> None:
    service = start("--workers", "3")
    person = person_of(service, key)
    children = service.children()
    assert len(children) == 3
    build_id = built(person)
    device = enrolled(service, person)
    order = {"build_id": build_id, "device_id": device.id, "dataset_id": person.dataset()["id"], "steps": 1}
    children[0].kill()
    children[0].wait()

    def asks(path: str) -> int:
        try:  # a new connection each time: any of the processes takes it
            return httpx.get(f"{service.client.base_url}{path}", timeout=SECONDS).status_code
        except httpx.TransportError:
            return 0

    assert [asks("/healthz") for _ in range(20)] == [200] * 20
    until(lambda: len(service.children()) == 3 and children[0] not in service.children())
    # Whichever process the poll waits on and whichever takes the request, the poll is answered.
    answers: list[Any] = []
    poll = threading.Thread(target=lambda: answers.append(device.call("GET", "/work?wait=25")))
    poll.start()
    time.sleep(0.5)
    with httpx.Client(base_url=service.client.base_url, timeout=SECONDS) as other:
        assert Person(other, key).post("/runs", order).status_code == 202  # type: ignore[arg-type]
    poll.join()
    assert answers[0].status_code == 200
    remaining = service.children()
    service.child.send_signal(signal.SIGTERM)
    assert service.child.wait(60) == 0
    assert [process for process in remaining if process.is_running()] == []
    assert service.child.stdout is not None and service.child.stdout.read() == ""


def test_processes_end_with_their_parent(start: Start) -> None:
    service = start("--workers", "2")
    children = service.children()
    service.kill()
    until(lambda: not any(process.is_running() for process in children))


def test_several_processes_need_postgresql(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POCK_DATABASE_URL")
    refused = command("serve", "--workers", "2", folder=folder)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1 and "POCK_DATABASE_URL" in refused.stderr


def test_metrics_of_several_processes_add_up(start: Start) -> None:
    process = start("--workers", "2", POCK_RUNNER="none")
    for _ in range(30):
        with httpx.Client(base_url=process.client.base_url, timeout=30) as client:  # a connection of its own each
            assert client.get("/readyz").status_code == 200

    def of_all(name: str) -> list[float]:
        lines = httpx.get(f"{process.client.base_url}/metrics", timeout=30).text.splitlines()
        return [float(line.split()[-1]) for line in lines if line.startswith(name)]

    for _ in range(4):  # whichever process answers
        assert of_all('pock_http_requests_total{operation="readyz"') == [30.0]
    assert until(lambda: of_all("pock_leader") == [1.0])
