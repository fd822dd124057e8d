"""A whole server for one test: migrated database, movable clock, clients for people and for devices."""

import base64
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import prod
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi.testclient import TestClient
from typer.main import get_command

from pock_server.app import create_app
from pock_server.auth.roles import SCOPES_OF, Role
from pock_server.auth.schemas import ApiKeyIn, Scope
from pock_server.auth.service import create_key, find_or_add_workspace
from pock_server.cli import app as cli_app
from pock_server.cli import sentences
from pock_server.clock import SystemClock
from pock_server.db.engine import make_engine
from pock_server.db.unit import Database
from pock_server.hub import Hub
from pock_server.members.schemas import MemberIn
from pock_server.members.service import add_member
from pock_server.migrations.runner import current_revision, upgrade
from pock_server.runner.claims import Broken, Built, claim_next, finish
from pock_server.services import Services
from pock_server.settings import Settings
from pock_server.targets.service import Compilers
from tests.server.artifacts import EXECUTABLE, PORTS, SUMMARY, TARGETS, artifact_files
from tests.server.databases import Databases

FAKE_WORKER = Path(__file__).parent / "fake_worker.py"
ITEM_BYTES = {"F32": 4, "I64": 8, "BOOL": 1}


class MovableClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def safetensors(tensors: Mapping[str, tuple[str, Sequence[int]]]) -> bytes:
    """A safetensors file of zeros with these {name: (dtype, shape)}."""
    header, position = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = prod(shape) * ITEM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, position + size]}
        position += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(position)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Person:
    """A client with an API key."""

    client: TestClient
    key: str

    def call(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.key}", **options.pop("headers", {})}
        return self.client.request(method, f"/v1{path}", headers=headers, **options)

    def get(self, path: str, **options: Any) -> Any:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return self.call("POST", path, json=body, **options)

    def upload(self, data: bytes) -> str:
        """Upload a blob; its digest."""
        digest = digest_of(data)
        upload = self.post("/uploads", {"digest": digest, "size": len(data)}).json()
        if not upload["complete"]:
            sent = self.call("PATCH", f"/uploads/{upload['id']}", content=data, headers={"Upload-Offset": "0"})
            assert sent.status_code == 204, sent.text
        return digest

    def model(self, data: bytes = b"an ONNX file", name: str = "net") -> dict[str, Any]:
        made = self.post("/models", {"name": name, "digest": self.upload(data)})
        assert made.status_code in (200, 201), made.text
        return dict(made.json())

    def dataset(self, samples: int = 8, name: str = "digits") -> dict[str, Any]:
        data = safetensors({"input": ("F32", (samples, 4)), "labels": ("I64", (samples,))})
        made = self.post("/datasets", {"name": name, "digest": self.upload(data)})
        assert made.status_code in (200, 201), made.text
        return dict(made.json())

    def build(self, **changes: Any) -> Any:
        model_id = changes.pop("model_id", None) or self.model()["id"]
        return self.post("/builds", {"model_id": model_id, "recipe": {"batch": 2}, "target": "host", **changes})


@dataclass
class Browser:
    """A browser's page that has signed in; it is a client of its own, as cookies are kept."""

    client: TestClient

    def call(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Origin": str(self.client.base_url), **options.pop("headers", {})}
        return self.client.request(method, f"/v1{path}", headers=headers, **options)

    def get(self, path: str, **options: Any) -> Any:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return self.call("POST", path, json=body, **options)


@dataclass
class Device:
    """A client with a device key."""

    client: TestClient
    private_key: Ed25519PrivateKey
    id: str = ""
    counter: int = 0
    token: str = ""
    pinned: dict[str, Any] = field(default_factory=dict)
    trust: int | None = None
    work: dict[str, Any] = field(default_factory=dict)

    @property
    def public_key(self) -> str:
        raw = self.private_key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return base64.b64encode(raw).decode()

    def enrol(self, token: str, facts: dict[str, Any] | None = None) -> Any:
        body = {"token": token, "name": "board", "public_key": self.public_key, "facts": facts or {}}
        answer = self.client.post("/v1/enroll", json=body)
        if answer.status_code == 201:
            self.pinned = answer.json()
            self.id = self.pinned["device_id"]
        return answer

    def now(self) -> datetime:
        """By the clock of an application in this process, or by the real one."""
        app = getattr(self.client, "app", None)
        return app.state.services.clock.now() if app else datetime.now(UTC)

    def open_session(self, counter: int | None = None, signed_at: datetime | None = None, **changes: Any) -> Any:
        """Signed now with the next counter, unless said otherwise; `changes` are made after it was signed."""
        self.counter = counter if counter is not None else self.counter + 1
        issued_at = (signed_at or self.now()).isoformat()
        message = f"pock-session\n{self.id}\n{self.counter}\n{issued_at}".encode()
        body = {
            "device_id": self.id,
            "counter": self.counter,
            "issued_at": issued_at,
            "signature": base64.b64encode(self.private_key.sign(message)).decode(),
            **changes,
        }
        answer = self.client.post("/v1/agent/session", json=body)
        if answer.status_code == 200:
            self.token = answer.json()["session_token"]
        return answer

    def call(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return self.client.request(method, f"/v1/agent{path}", headers=headers, **options)

    def poll(self) -> Any:
        """Ask for work, as an agent that has this version of the trust document or, like those of before, none."""
        return self.call("GET", "/work?wait=0" if self.trust is None else f"/work?wait=0&trust={self.trust}")

    def take_work(self) -> dict[str, Any] | None:
        """The payload of the next envelope, or None."""
        answer = self.poll()
        assert answer.status_code in (200, 204), answer.text
        if answer.status_code == 204:
            return None
        self.work = json.loads(base64.b64decode(answer.json()["payload"]))
        return self.work

    def post(self, path: str, **body: Any) -> Any:
        """POST about the present work with its fence, unless `body` says otherwise."""
        return self.call("POST", f"/runs/{self.work['run_id']}/{path}", json={"fence": self.work["fence"], **body})


@dataclass
class Server:
    """A running application."""

    client: TestClient
    services: Services
    clock: MovableClock

    @property
    def environment(self) -> dict[str, str]:
        """What commands need to find this server's data."""
        settings = self.services.settings
        return {"POCK_DATA_DIR": str(settings.data_dir), "POCK_DATABASE_URL": settings.database_url}

    def person(self, *scopes: Scope, workspace: str = "default", ttl_days: int = 30) -> Person:
        """Someone with a new key; every scope unless some are given."""
        with self.services.database.write() as unit:
            home = find_or_add_workspace(unit, workspace, self.clock.now())
            order = ApiKeyIn(name="test", scopes=list(scopes or Scope), ttl_days=ttl_days)
            return Person(self.client, create_key(unit, home.id, order, self.clock.now()).key)

    def member(self, role: Role, name: str = "alice", workspace: str = "default") -> Person:
        """A new member of this role, with a key that can do what the role can."""
        with self.services.database.write() as unit:
            now = self.clock.now()
            home = find_or_add_workspace(unit, workspace, now)
            row = add_member(unit, home.id, frozenset(Scope), MemberIn(name=name, role=role), now)
            order = ApiKeyIn(name=f"key of {name}", member_id=row.id, scopes=list(SCOPES_OF[role]))
            return Person(self.client, create_key(unit, home.id, order, now).key)

    def browser(self, person: Person, base_url: str = "http://testserver") -> Browser:
        """A browser that signed in with the person's key."""
        browser = Browser(
            TestClient(self.client.app, base_url, raise_server_exceptions=False, client=("127.0.0.1", 50000))
        )
        assert browser.post("/session", headers={"Authorization": f"Bearer {person.key}"}).status_code == 201
        return browser

    def device(self, person: Person, facts: dict[str, Any] | None = None) -> Device:
        """An enrolled device with a session."""
        device = Device(self.client, Ed25519PrivateKey.generate())
        token = person.post("/enrollment-tokens", {}).json()["token"]
        assert device.enrol(token, facts).status_code == 201
        assert device.open_session().status_code == 200
        return device

    def finish_build(self, outcome: Built | Broken | None = None) -> Built | Broken:
        """Do what a runner does with the oldest queued build, without a compiler."""
        claim = claim_next(self.services)
        assert claim is not None
        outcome = outcome or make_artifact(self.services, claim.build_id)
        finish(self.services, claim, outcome)
        return outcome

    def built(self, person: Person, **changes: Any) -> dict[str, Any]:
        """A succeeded build."""
        build_id = person.build(**changes).json()["id"]
        self.finish_build()
        return dict(person.get(f"/builds/{build_id}").json())

    def tuning(self, person: Person) -> dict[str, Any]:
        """A search for what is best, begun by a build that asked for the fleet's knowledge."""
        build_id = person.build(tune="fleet", model_id=person.model(person.key.encode())["id"]).json()["id"]
        made = make_artifact(self.services, build_id)
        self.finish_build(replace(made, summary={**made.summary, "tuning": {"to_try": 3}}))
        return dict(person.get("/tuning/jobs", params={"build_id": build_id}).json()["items"][0])

    def run(self, person: Person, device: Device, build_id: str | None = None, **changes: Any) -> Any:
        """Ask for a run."""
        body = {
            "build_id": build_id or self.built(person)["id"],
            "device_id": device.id,
            "dataset_id": person.dataset()["id"],
            "steps": 3,
            **changes,
        }
        return person.post("/runs", body)


def make_artifact(services: Services, name: str) -> Built:
    """Store blobs that look like an artifact's: the server only reads its manifest."""
    members = {}
    for member, data in artifact_files(name).items():
        digest, size = services.blobs.put_bytes(data)
        members[member] = {"sha256": digest, "size": size}
    digest, size = services.blobs.put_bytes(b"the whole of " + name.encode())
    return Built(digest, size, members, EXECUTABLE, PORTS, SUMMARY)


def describe_compiler(settings: Settings) -> None:
    """Do what a runner does when it starts, before the service does; brings an empty database up."""
    engine = make_engine(settings)
    if current_revision(engine) is None:
        upgrade(engine)
    Compilers(Database(engine, Hub()), SystemClock()).store("1", TARGETS)
    engine.dispose()


def make_settings(folder: Path, databases: Databases, **changes: Any) -> Settings:
    """Settings for a server in `folder` on a new migrated database."""
    folder.mkdir(parents=True, exist_ok=True)
    defaults = {"runner": "none", "sweep_seconds": 3600, "database_url": databases.make(folder)}
    defaults |= {"sandbox": "off", "compiler_cache_dir": str(folder / "compiler")}
    return Settings(data_dir=folder, **{**defaults, **changes})


def make_client(settings: Settings, clock: MovableClock | None = None) -> tuple[TestClient, Services]:
    """A client of a new application."""
    app = create_app(settings, clock)
    return TestClient(app, raise_server_exceptions=False, client=("127.0.0.1", 50_000)), app.state.services


def command(server: Server, *words: object, say: str | None = None) -> Result:
    """What comes of `pock-server WORDS` on the server's machine; `say` answers its questions."""
    settings = server.services.settings
    environment = {"POCK_DATA_DIR": str(settings.data_dir), "POCK_DATABASE_URL": settings.effective_database_url}
    program: Any = get_command(cli_app)  # Typer has a Click of its own inside, which Click's runner runs too
    inner = program.main

    def main(*arguments: Any, **options: Any) -> Any:
        with sentences():  # as the program's entry point has it
            return inner(*arguments, **options)

    program.main = main
    return CliRunner(env=environment).invoke(program, [str(word) for word in words], input=say)


def assert_problem(answer: Any, status: int, code: int) -> None:
    """The answer is a problem with this status and failure code."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert set(body) >= {"type", "title", "status", "detail", "failure_code", "retryable"}
    assert (body["status"], body["failure_code"]) == (status, code), body
    assert body["detail"]


def sse(text: str) -> list[tuple[int, str, dict[str, Any]]]:
    """The (id, event, data) of each server-sent event."""
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found
