"""The agent against the real `pock-server` process, over its public API; only the compiler is a fake."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pock_agent import cli
from pock_agent.connection.service import Service
from pock_agent.disk.counters import Counters
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.identity import Identity, load_key
from pock_agent.errors import NotWelcome
from pock_agent.life import agent
from tests.agent import fake_model
from tests.agent.driver import FAST, spawn

ROOT = Path(__file__).parents[3]
SERVER = [sys.executable, "-c", "from pock_server.cli import main; main()"]
QUICK = {
    "POCK_WORKER_COMMAND": json.dumps([sys.executable, "-m", "tests.agent.fake_build_worker"]),
    "POCK_SANDBOX": "off",  # the fake worker needs the tests' own files
    "POCK_HEARTBEAT_SECONDS": "0.1",
    "POCK_LEASE_SECONDS": "2",
    "POCK_SWEEP_SECONDS": "0.2",
}


@dataclass
class Person:
    """Someone with an API key."""

    url: str
    key: str
    log: Path = Path(os.devnull)

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """One request; the JSON answer, or the bytes of any other."""
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + "/v1" + path, content, method=method)
        request.add_header("Authorization", f"Bearer {self.key}")
        request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        with urllib.request.urlopen(request, timeout=20) as answer:
            raw = answer.read()
            return json.loads(raw) if raw and "json" in (answer.headers.get("Content-Type") or "") else raw

    def upload(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        upload = self.call("POST", "/uploads", {"digest": digest, "size": len(content)})
        if not upload["complete"]:
            octets = {"Upload-Offset": "0", "Content-Type": "application/octet-stream"}
            self.call("PATCH", f"/uploads/{upload['id']}", content, octets)
        return digest

    def dataset(self, told: object) -> str:
        digest = self.upload(fake_model.dataset(told))
        return str(self.call("POST", "/datasets", {"name": "told", "digest": digest})["id"])

    def build(self) -> str:
        wait_for(self.can_build, "the worker to describe its compiler")
        model = self.call("POST", "/models", {"name": "net", "digest": self.upload(b"a model")})
        order = {"model_id": model["id"], "recipe": {"batch": 2}, "target": "host"}
        build = str(self.call("POST", "/builds", order)["id"])
        wait_for(lambda: self.call("GET", f"/builds/{build}")["state"] == "succeeded", "the build")
        return build

    def can_build(self) -> bool:
        try:
            return bool(self.call("GET", "/targets")["items"])
        except urllib.error.HTTPError as error:
            assert error.code == 503
            return False

    def token(self) -> str:
        return str(self.call("POST", "/enrollment-tokens", {})["token"])

    def run(self, build: str, device: str, told: object = None, **changes: Any) -> str:
        data = self.dataset(told or {})
        order = {"build_id": build, "device_id": device, "dataset_id": data, "eval_dataset_id": data, "steps": 5}
        return str(self.call("POST", "/runs", {**order, "save_weights": True, **changes})["id"])

    def state(self, run: str) -> Any:
        return self.call("GET", f"/runs/{run}")


def wait_for(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A running service and someone who may do everything there."""
    folder = tmp_path_factory.mktemp("service")
    environment = {
        **os.environ,
        **QUICK,
        "POCK_DATA_DIR": str(folder),
        "POCK_COMPILER_CACHE_DIR": str(folder / "compiler"),
    }
    made = subprocess.run(
        [*SERVER, "create-key"], env=environment, cwd=ROOT, check=True, capture_output=True, text=True
    )
    with (folder / "log").open("wb") as log:
        arguments = [*SERVER, "serve", "--port", "0", "--json"]
        server = subprocess.Popen(arguments, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=log)
    assert server.stdout is not None
    try:
        yield Person(json.loads(server.stdout.readline())["url"], made.stdout.strip(), folder / "log")
    finally:
        server.terminate()
        server.communicate(timeout=20)


@pytest.fixture(scope="module")
def build(person: Person) -> str:
    return person.build()


@pytest.fixture
def state(person: Person, tmp_path: Path) -> StateDirectory:
    """A newly enrolled device."""
    folder = tmp_path / "state"
    assert cli.main(["enroll", person.url, person.token(), "--state-dir", str(folder)]) == 0
    return StateDirectory(folder)


def device_of(state: StateDirectory) -> str:
    return str(agent.status(state.root)["device_id"])


def test_a_run_from_the_order_to_the_weights(person: Person, build: str, state: StateDirectory) -> None:
    run = person.run(build, device_of(state))
    assert agent.run(state, FAST, once=True)
    found = person.state(run)
    assert (found["state"], found["attempt"]) == ("succeeded", 1)
    assert found["report"]["train"]["loss"] == [1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert [found["report"][phase]["accuracy"] for phase in ("eval_before", "eval_after")] == [0.25, 0.75]
    assert found["report"]["health"]["planned_peak_bytes"] == 5000
    steps = person.call("GET", f"/runs/{run}/steps")["items"]
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5]
    weights = person.call("GET", f"/blobs/sha256/{found['weights_digest']}")
    assert weights == b"trained " + b"parameters" * 100
    device = person.call("GET", f"/devices/{device_of(state)}")
    assert (device["target"], device["facts"]["emulated"]) == ("host", False)


@pytest.mark.parametrize("entry", ["eval", "bench"])
def test_the_other_entries(entry: str, person: Person, build: str, state: StateDirectory) -> None:
    run = person.run(build, device_of(state), entry=entry, save_weights=False)
    assert agent.run(state, FAST, once=True)
    report = person.state(run)["report"]
    assert report["eval_before" if entry == "eval" else "train"]["entry"] == entry


def test_a_failure_reaches_the_person(person: Person, build: str, state: StateDirectory) -> None:
    run = person.run(build, device_of(state), {"train": {"exit": 3, "stderr": "label 10 is out of range"}})
    assert not agent.run(state, FAST, once=True)
    found = person.state(run)
    assert (found["state"], found["failure"]["code"]) == ("failed", 10004)
    assert "label 10 is out of range" in found["failure"]["detail"]


def test_a_token_works_once(person: Person, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = person.token()
    assert cli.main(["enroll", person.url, token, "--state-dir", str(tmp_path / "a")]) == 0
    assert cli.main(["enroll", person.url, token, "--state-dir", str(tmp_path / "b")]) == 2
    assert "used" in capsys.readouterr().err


def test_killed_while_training_the_run_is_finished_in_the_same_attempt(
    person: Person, build: str, state: StateDirectory, flag: Path
) -> None:
    run = person.run(build, device_of(state), {"train": {"hang_while": str(flag)}, "eval": {}, "eval_loaded": {}})
    process = spawn(state.root)
    wait_for(lambda: (person.state(run)["progress"] or {}).get("step") == 5, "the steps")
    process.kill()
    process.communicate()
    flag.unlink()
    assert agent.run(state, FAST, once=True)
    found = person.state(run)
    assert (found["state"], found["attempt"]) == ("succeeded", 1)
    assert len(person.call("GET", f"/runs/{run}/steps")["items"]) == 5


def test_one_search_finds_the_life_of_a_run_in_everyones_logs(
    person: Person, build: str, state: StateDirectory, flag: Path
) -> None:
    data = person.dataset({"train": {"hang_while": str(flag)}, "eval": {}, "eval_loaded": {}})
    order = {"build_id": build, "device_id": device_of(state), "dataset_id": data, "steps": 5, "save_weights": True}
    run = person.call("POST", "/runs", order, {"X-Request-Id": "from-a-person"})
    assert run["request_id"] == "from-a-person"
    process = spawn(state.root)
    wait_for(lambda: (person.state(run["id"])["progress"] or {}).get("step") == 5, "the steps")
    process.kill()
    first = process.communicate()[1].decode()
    flag.unlink()
    second = spawn(state.root).communicate(timeout=30)[1].decode()
    assert "by request from-a-person" in first and "by request from-a-person" in second  # after the restart, too

    def lines() -> list[dict[str, Any]]:
        parsed = [json.loads(line) for line in person.log.read_text().splitlines()]
        return [line for line in parsed if line.get("request_id") == "from-a-person"]

    wait_for(lambda: any(line.get("route") == "/v1/agent/runs/{run_id}/result" for line in lines()), "the last line")
    calls = {line["route"] for line in lines() if line["logger"] == "pock_server.access"}
    assert calls >= {
        "/v1/runs",
        "/v1/agent/work",
        "/v1/agent/runs/{run_id}/lease",
        "/v1/agent/runs/{run_id}/events",
        "/v1/agent/blobs/sha256/{digest}",
        "/v1/agent/heartbeat",
    }
    moves = [line["message"].split(": ")[1] for line in lines() if line["logger"] == "pock_server.facts"]
    assert moves == ["queued -> leased", "leased -> running", "running -> succeeded"]
    assert all(line["run_id"] == run["id"] for line in lines() if "/runs/" in line.get("route", ""))


def test_a_cancelled_run_stops_on_the_device(person: Person, build: str, state: StateDirectory, flag: Path) -> None:
    run = person.run(build, device_of(state), {"train": {"hang_while": str(flag)}})
    process = spawn(state.root)
    wait_for(lambda: person.state(run)["state"] == "running", "the start")
    person.call("POST", f"/runs/{run}/cancel")
    process.communicate(timeout=20)
    assert process.returncode == 1
    assert person.state(run)["state"] == "cancelled"


def test_a_device_that_slept_too_long_drops_the_run_and_takes_the_next_attempt(
    person: Person, build: str, state: StateDirectory, flag: Path
) -> None:
    run = person.run(build, device_of(state), {"train": {"hang_while": str(flag)}})
    process = spawn(state.root)
    wait_for(lambda: (person.state(run)["progress"] or {}).get("step") == 5, "the steps")
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: person.state(run)["state"] == "queued", "the lease to run out")
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=20)
    assert json.loads(state.last_job.read_text())["outcome"] == "abandoned"
    flag.unlink()
    assert agent.run(state, FAST, once=True)
    found = person.state(run)
    assert (found["state"], found["attempt"]) == ("succeeded", 2)


def test_a_copied_state_directory_is_quarantined(
    person: Person, build: str, state: StateDirectory, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["cp", "-a", state.root, clone], check=True)
    person.run(build, device_of(state))
    assert agent.run(state, FAST, once=True)
    with pytest.raises(NotWelcome, match="quarantined"):
        agent.run(StateDirectory(clone), FAST, once=True)
    assert person.call("GET", f"/devices/{device_of(state)}")["state"] == "quarantined"


def test_a_revoked_device_stops(person: Person, state: StateDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    person.call("DELETE", f"/devices/{device_of(state)}")
    assert cli.main(["run", "--state-dir", str(state.root)]) == 3
    assert "revoked" in capsys.readouterr().err


def test_a_devices_session_opens_no_door_of_the_user_api(person: Person, state: StateDirectory) -> None:
    service = Service(Identity.load(state), load_key(state.key), Counters(state), FAST)
    service.heartbeat(None, None, None)
    intruder = Person(person.url, service._session.token(None))
    with pytest.raises(urllib.error.HTTPError) as caught:
        intruder.call("GET", "/devices")
    assert caught.value.code in (401, 403)
