"""The command against a service that listens, with a worker that compiles nothing and devices that train nothing."""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from pock_client.cli.app import app
from pock_server.auth.schemas import ApiKeyIn, Scope
from pock_server.auth.service import create_key, find_or_add_workspace
from pock_server.clock import SystemClock
from pock_server.services import Services, make_services
from pock_server.settings import Settings
from tests.server.harness import Device, digest_of, safetensors
from tests.server.sockets import serving
from tests.turns import by_turns

_WORKER = (sys.executable, "-m", "tests.client.cli.fake_worker")
_ALL = tuple(Scope)


@dataclass(frozen=True)
class Service:
    """A service that listens, and its database."""

    url: str
    services: Services

    def key(self, workspace: str, *scopes: Scope) -> str:
        """A new key of a workspace, with these scopes or all."""
        now = SystemClock().now()
        with self.services.database.write() as unit:
            home = find_or_add_workspace(unit, workspace, now)
            return create_key(unit, home.id, ApiKeyIn(name="test", scopes=list(scopes or _ALL)), now).key


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on stdout."""
        (line,) = self.out.splitlines()
        return json.loads(line)


@dataclass(frozen=True)
class Person:
    """Somebody with a workspace of their own, signed in by the environment."""

    service: Service
    workspace: str
    key: str
    folder: Path

    def pock(self, *words: object, say: str | None = None, **environment: str | None) -> Said:
        """What `pock-client WORDS` says; `say` is what it finds on stdin."""
        done = CliRunner().invoke(
            app, [str(word) for word in words], input=say, env=environment, prog_name="pock-client"
        )
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Said(done.exit_code, done.stdout, done.stderr)

    def json(self, *words: object) -> Any:
        """The object that the command prints, once it has succeeded."""
        said = self.pock(*words, "--json")
        assert said.status == 0, said.err
        return said.json

    def model(self, name: str = "net", content: bytes | None = None) -> Path:
        """A file that the service takes for a model."""
        path = self.folder / f"{name}.onnx"
        path.write_bytes(content if content is not None else f"the model {name} of {self.workspace}".encode())
        return path

    def dataset(self, name: str = "digits", samples: int = 8) -> Path:
        """A file of data that fits the model."""
        path = self.folder / f"{name}.safetensors"
        path.write_bytes(safetensors({"input": ("F32", (samples, 4)), "labels": ("I64", (samples,))}))
        return path

    def recipe(self, text: str = "batch: 2\n") -> Path:
        """A file with a recipe."""
        path = self.folder / "recipe.yaml"
        path.write_text(text)
        return path

    def built(self, name: str = "net", target: str = "host") -> dict[str, Any]:
        """A build that succeeded."""
        made = self.json("build", self.model(name), "--recipe", self.recipe(), "--target", target)
        return dict(made["builds"][0])

    @contextlib.contextmanager
    def device(
        self, name: str, target: str = "host", features: tuple[str, ...] = ("repeats",), **behaviour: Any
    ) -> Iterator["FakeDevice"]:
        """A device that works for as long as the block runs."""
        facts = {"target": target, "agent_version": "0.1.0", "features": list(features)}
        token = self.json("enroll-token", "--name", name)["token"]
        with httpx.Client(base_url=self.service.url, trust_env=False, timeout=60) as client:
            device = Device(client, Ed25519PrivateKey.generate())  # type: ignore[arg-type]
            assert device.enrol(token, facts).status_code == 201
            assert device.open_session().status_code == 200
            with FakeDevice(device, **behaviour) as working:
                yield working


class FakeDevice:
    """Does each piece of work at once: a few steps, and a report. `fails`: instead reports that it could not; `stalls`:
    never comes to an end."""

    def __init__(self, device: Device, ms: float = 2.0, fails: bool = False, stalls: bool = False) -> None:
        self.id = device.id
        self._device = device
        self._ms = ms
        self._fails = fails
        self._stalls = stalls
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> "FakeDevice":
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stopped.wait(0.05):
            work = self._device.take_work()
            if work is not None:
                self._do(work["run"], work.get("bench"))
                if self._stalls:
                    return

    def _do(self, order: dict[str, Any], bench: dict[str, Any] | None) -> None:
        assert self._device.post("lease").status_code == 200
        events = [{"event": "step", "phase": "train", "step": n, "loss": 1 / n, "ms": self._ms} for n in (1, 2)]
        assert self._device.post("events", first_seq=0, events=events).status_code == 200
        if self._stalls:
            return
        if self._fails:
            failure = {"code": 2003, "detail": "Out of \x1b[31mmemory."}
            assert self._device.post("result", state="failed", failure=failure).status_code == 200
            return
        digest = None
        if order["save_weights"]:
            weights = b"trained by " + self.id.encode()
            digest = digest_of(weights)
            assert self._device.call("PUT", f"/blobs/sha256/{digest}", content=weights).is_success
        times = {"median": self._ms, "p10": self._ms * 0.9, "p90": self._ms * 1.2, "samples": [self._ms]}
        train = {"entry": order["entry"], "steps": 2, "loss": [1.0, 0.5], "step_ms": times, "cold_start_ms": 20.0}
        train |= {"peak_rss_bytes": 5_000_000, "predicted_peak_bytes": 4_000_000}
        if bench is not None:
            train["repeats"] = [{"median_ms": self._ms * (1 + n / 1000)} for n in range(bench["repeats"])]
        report = {"train": train, "eval_after": {"loss": [0.4], "accuracy": 0.9}}
        done = self._device.post("result", state="succeeded", report=report, weights_digest=digest)
        assert done.status_code == 200, done.text


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests of the command; each test has a workspace of its own."""
    folder = tmp_path_factory.mktemp("service")
    rates = dict.fromkeys(("POCK_ADDRESS_RATE", "POCK_FAILURE_RATE", "POCK_KEY_RATE", "POCK_DEVICE_RATE"), "1e9")
    settings = {"POCK_RUNNER": "inprocess", "POCK_SANDBOX": "off", "POCK_WORKER_COMMAND": json.dumps(_WORKER)}
    settings |= {"POCK_PARALLEL_BUILDS": "2", "POCK_POLL_SECONDS": "0.1", "PYTHONPATH": os.pathsep.join(sys.path)}
    with serving(folder, {**settings, **rates}) as live:
        services = make_services(Settings(data_dir=folder))
        with by_turns(Path(__file__).parent, lambda: [live.process]):
            yield Service(live.url, services)
        services.database.engine.dispose()


@pytest.fixture
def person(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Somebody who may do everything."""
    workspace = uuid4().hex
    key = service.key(workspace)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("POCK_PROFILE", raising=False)
    monkeypatch.setenv("POCK_URL", service.url)
    monkeypatch.setenv("POCK_KEY", key)
    return Person(service, workspace, key, tmp_path)


Pock = Callable[..., Said]


@pytest.fixture
def pock(person: Person) -> Pock:
    """The command, as that person."""
    return person.pock
