"""A backup brings the same service back on another database and store; a bad archive changes nothing."""

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from pock_server.backup.archive import BLOCK
from pock_server.backup.rows import tables
from pock_server.cli import app
from pock_server.settings import Settings
from tests.server.databases import Databases, PostgresDatabases, SqliteDatabases
from tests.server.harness import Device, MovableClock, Person, Server, describe_compiler, digest_of, make_client
from tests.server.harness import make_settings as settings_on
from tests.server.stores import S3Server, damage, lose, stored_keys, variables
from tests.sweeps import some

Prepare = Callable[[str], Settings]
Serve = Callable[[Settings], Server]
LARGE = bytes(range(256)) * (3 << 12)


@pytest.fixture
def prepare(
    tmp_path: Path, sqlite_databases: SqliteDatabases, postgres_databases: PostgresDatabases, s3: S3Server
) -> Prepare:
    """Settings of an empty service: `small` is SQLite and a folder, `large` is PostgreSQL and S3."""
    made: list[Path] = []

    def prepared(size: str) -> Settings:
        databases: Databases = sqlite_databases if size == "small" else postgres_databases
        made.append(tmp_path / f"data{len(made)}")
        options = s3.options() if size == "large" else {}
        return settings_on(made[-1], databases, scrub_days=0, **options)

    return prepared


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers, whose clocks agree."""
    clock = MovableClock()
    with ExitStack() as stack:

        def started(settings: Settings) -> Server:
            client, services = make_client(settings, clock)
            describe_compiler(settings)
            stack.enter_context(client)
            stack.callback(services.database.engine.dispose)
            return Server(client, services, clock)

        yield started


def fill(server: Server) -> tuple[Person, Device]:
    """Something of everything, in two workspaces."""
    person, stranger = server.person(), server.person(workspace="another")
    stranger.model(b"a model of theirs")
    external = person.upload(LARGE)
    model = person.post(
        "/models", {"name": "net", "digest": person.upload(b"the model"), "external": {"w.bin": external}}
    ).json()
    build = server.built(person, model_id=model["id"])
    person.build(model_id=model["id"], recipe="batch: 7")
    device = server.device(person, {"target": "host", "memory": 5})
    server.run(person, device, build["id"], save_weights=True)
    device.take_work()
    device.post("lease")
    steps = [{"event": "step", "step": n, "loss": 1 / (n + 1), "ms": 0.1 * n} for n in range(20)]
    device.post("events", first_seq=0, events=[*steps, {"event": "eval", "phase": "eval_after", "loss": 0.1}])
    device.call("PUT", f"/blobs/sha256/{digest_of(b'weights')}", content=b"weights")
    report = {"train": {"loss": [1.0, 0.1], "step_ms": {"median": 0.25, "samples": [0.1, 0.3]}}, "health": {"t": 1e-9}}
    done = device.post("result", state="succeeded", report=report, weights_digest=digest_of(b"weights"))
    assert done.status_code == 200, done.text
    server.run(person, device, build["id"])
    person.post("/uploads", {"digest": "0" * 64, "size": BEGUN})
    policy = person.call("PUT", "/pools/policy?pool=default", json={"max_minutes_per_day": 90})
    assert policy.status_code == 200, policy.text
    return person, device


BEGUN = 5
"""Bytes of the upload that was begun and is not finished: a backup leaves it out."""

_QUESTIONS = {"/v1/pools/policy": "?pool=default"}
"""What calls must be asked."""


def _less_request(body: Any) -> Any:
    """An answer without the id of its request, which a problem tells."""
    if isinstance(body, str) and body.startswith('{"type":"urn:pock:failure'):
        body = json.loads(body)
    return {key: value for key, value in body.items() if key != "request_id"} if isinstance(body, dict) else body


def answers(server: Server, person: Person) -> dict[str, Any]:
    """What every GET of the API says to this person, by path."""
    paths = server.client.get("/openapi.json").json()["paths"]
    listed = {
        path: person.get(path.removeprefix("/v1") + _QUESTIONS.get(path, "")).text
        for path, operations in paths.items()
        if "get" in operations and "{" not in path and path.startswith("/v1/") and not path.startswith("/v1/agent/")
    }
    lines = "/v1/audit/export"
    found: dict[str, Any] = {path: json.loads(body) for path, body in listed.items() if path != lines}
    ids = {
        path: [item["id"] for item in body["items"] if "id" in item] for path, body in found.items() if "items" in body
    }
    for path, operations in paths.items():
        prefix = path.partition("/{")[0]
        if "get" not in operations or "{" not in path or prefix not in ids:
            continue
        for row_id in ids[prefix]:
            if path.endswith("/events") and found[f"{prefix}/{row_id}"]["finished_at"] is None:
                continue  # a stream that waits
            real = prefix + "/" + row_id + path.partition("}")[2]
            found[real] = person.get(real.removeprefix("/v1")).text
            if path.count("/") == 3:
                found[real] = json.loads(found[real])
    found = {path: _less_request(body) for path, body in found.items()}
    found[lines] = listed[lines]
    for build in found["/v1/builds"]["items"]:
        if build["artifact_digest"]:
            manifest = person.get(f"/artifacts/{build['artifact_digest']}").json()
            found[f"artifact {build['id']}"] = manifest
    for key in stored_keys(server.services.blobs):
        digest = key.rpartition("/")[2]
        if key.startswith("sha256/"):
            answer = person.get(f"/blobs/sha256/{digest}")
            found[digest] = (answer.status_code, digest_of(answer.content) if answer.status_code == 200 else None)
    return found


def command(settings: Settings, *arguments: object, status: int = 0) -> Any:
    outcome = CliRunner().invoke(app, [str(part) for part in arguments], env=variables(settings))
    assert outcome.exit_code == status, outcome.output
    return json.loads(outcome.stdout) if status == 0 else outcome.stderr


@pytest.mark.parametrize("there,back", some([("small", "large"), ("large", "small")], 2))
def test_the_same_answers_on_another_database_and_store(
    prepare: Prepare, serve: Serve, tmp_path: Path, there: str, back: str
) -> None:
    old = serve(prepare(there))
    person, device = fill(old)
    before = answers(old, person)
    assert len(before) > 30, sorted(before)
    saved = command(old.services.settings, "backup", tmp_path / "all.tar", "--json")
    assert saved["absent"] == {} and saved["blobs"] >= 9
    assert (tmp_path / "all.tar").stat().st_mode & 0o777 == 0o600
    settings = prepare(back)
    restored = command(settings, "restore", tmp_path / "all.tar", "--json")
    assert (restored["rows"], restored["blobs"], restored["bytes"]) == (saved["rows"], saved["blobs"], saved["bytes"])
    new = serve(settings)
    moved = Person(new.client, person.key)
    usage = before["/v1/usage"]
    quotas = {quota["quota"]: quota for quota in usage["quotas"]}
    quotas["bytes"]["used"] -= BEGUN
    quotas["open_uploads"]["used"] -= 1
    usage["storage"]["announced_bytes"] -= BEGUN
    assert answers(new, moved) == before
    known = Device(new.client, device.private_key, id=device.id, counter=device.counter)
    counter = device.work["counter"]
    assert known.open_session().status_code == 200
    work = known.take_work()
    assert work is not None and work["counter"] > counter + 1000
    with old.services.database.read() as there_again, new.services.database.read() as here:
        keys = [old.services.keys.current(there_again), new.services.keys.current(here)]
    assert keys[0].signer.raw() == keys[1].signer.raw()


def test_damaged_blobs_are_said_and_stay_quarantined(prepare: Prepare, serve: Serve, tmp_path: Path) -> None:
    old = serve(prepare("small"))
    person, _ = fill(old)
    damage(old.services.blobs, digest_of(LARGE))
    lose(old.services.blobs, digest_of(b"weights"))
    saved = command(old.services.settings, "backup", tmp_path, "--json")
    assert set(saved["absent"]) == {digest_of(LARGE), digest_of(b"weights")}
    settings = prepare("small")
    assert command(settings, "restore", saved["file"], "--json")["absent"] == 2
    moved = Person(serve(settings).client, person.key)
    for digest in saved["absent"]:
        assert moved.get(f"/blobs/sha256/{digest}").status_code == 410
    assert moved.upload(LARGE) == digest_of(LARGE)
    assert moved.get(f"/blobs/sha256/{digest_of(LARGE)}").content == LARGE


def test_a_service_with_data_is_left_as_it_is(archive: Path, prepare: Prepare, serve: Serve) -> None:
    server = serve(prepare("small"))
    person = server.person()
    person.model(b"already here")
    before = answers(server, person)
    assert "not empty" in command(server.services.settings, "restore", archive, status=2)
    assert answers(server, person) == before
    assert "exists" in command(server.services.settings, "backup", archive, status=2)


def test_another_signing_key_is_not_overwritten(archive: Path, prepare: Prepare) -> None:
    settings = prepare("small")
    (settings.data_dir / "keys").mkdir()
    (settings.data_dir / "keys" / "wrapping.key").write_text("another key")
    assert "another key than the archive's" in command(settings, "restore", archive, status=2)
    assert (settings.data_dir / "keys" / "wrapping.key").read_text() == "another key"


def rewritten(archive: bytes, change: Callable[[str, bytes], tuple[tarfile.TarInfo, bytes] | None]) -> bytes:
    """The archive with entries changed; `change` says None for those that stay."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as old, tarfile.open(fileobj=out, mode="w") as new:
        for head in old:
            file = old.extractfile(head)
            data = file.read() if file else b""
            changed = change(head.name, data)
            head, data = changed if changed is not None else (head, data)
            if head.name != "(left out)":
                new.addfile(head, io.BytesIO(data) if head.isreg() else None)
    return out.getvalue()


def entry(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    head = tarfile.TarInfo(name)
    head.size = len(data)
    for field, value in fields.items():
        setattr(head, field, value)
    return head, data


def instead_of(name: str, made: tuple[tarfile.TarInfo, bytes]) -> Callable[[bytes], bytes]:
    return lambda archive: rewritten(archive, lambda found, _: made if found == name else None)


def edited(name: str, edit: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda archive: rewritten(
        archive, lambda found, data: entry(found, edit(data)) if found.startswith(name) else None
    )


def with_manifest(**changes: Any) -> Callable[[bytes], bytes]:
    return edited("manifest.json", lambda data: json.dumps({**json.loads(data), **changes}).encode())


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "nothing": (lambda archive: b"", "ends early"),
    "noise": (lambda archive: bytes(range(256)) * 8, "is damaged"),
    "cut in a blob": (lambda archive: archive[: 2 * BLOCK + 900], "ends early"),
    "cut before its end": (lambda archive: archive[: -(len(archive) % BLOCK) - 3 * BLOCK], "ends early"),
    "path upwards": (instead_of("keys/wrapping.key", entry("keys/../../evil", b"x")), "something that no backup has"),
    "absolute path": (instead_of("keys/wrapping.key", entry("/tmp/evil", b"x")), "something that no backup has"),
    "link": (
        instead_of("keys/wrapping.key", entry("keys/wrapping.key", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
        "something that no backup has",
    ),
    "hard link": (
        instead_of("keys/wrapping.key", entry("keys/wrapping.key", type=tarfile.LNKTYPE, linkname="end.json")),
        "something that no backup has",
    ),
    "device": (instead_of("keys/wrapping.key", entry("keys/wrapping.key", type=tarfile.CHRTYPE)), "no backup has"),
    "long name": (instead_of("keys/wrapping.key", entry("keys/" + "x" * 300, b"x")), "something that no backup has"),
    "huge key": (instead_of("keys/wrapping.key", entry("keys/wrapping.key", bytes(100_000))), "are allowed"),
    "other bytes of a blob": (edited("blobs/", lambda data: bytes(len(data))), "has other bytes than its name says"),
    "a blob less": (
        lambda archive: rewritten(
            archive, lambda name, _: entry("(left out)") if name == f"blobs/{digest_of(LARGE)}" else None
        ),
        "blobs are missing",
    ),
    "a row less": (edited("tables/api_keys", lambda data: b""), "not those that were saved"),
    "a row of another table": (edited("tables/api_keys", lambda data: b'{"a": 1}\n'), "its columns are others"),
    "deep row": (edited("tables/api_keys", lambda data: b"[" * 100_000 + b"\n"), "no row of api_keys"),
    "row without its parent": (edited("tables/workspaces", lambda data: b""), ""),
    "another table's name": (instead_of("tables/workspaces.jsonl", entry("tables/evil.jsonl")), "should be"),
    "older format": (with_manifest(format=0), "reads format 1"),
    "another revision": (with_manifest(revision="0001"), "restore it with that version"),
    "manifest of another shape": (edited("manifest.json", lambda data: b"[]"), "no object"),
    "no end": (instead_of("end.json", entry("(left out)")), "not written to its end"),
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, sqlite_databases: SqliteDatabases) -> Path:
    """A good one."""
    folder = tmp_path_factory.mktemp("archive")
    settings = settings_on(folder / "data", sqlite_databases, scrub_days=0)
    describe_compiler(settings)
    client, services = make_client(settings, MovableClock())
    with client:
        server = Server(client, services, MovableClock())
        fill(server)
        command(settings, "backup", folder / "good.tar", "--json")
    services.database.engine.dispose()
    return folder / "good.tar"


@pytest.mark.parametrize("case", HOSTILE)
def test_an_archive_that_is_not_right_changes_nothing(
    archive: Path, tmp_path: Path, sqlite_databases: SqliteDatabases, case: str
) -> None:
    change, says = HOSTILE[case]
    (tmp_path / "bad.tar").write_bytes(change(archive.read_bytes()))
    settings = settings_on(tmp_path / "data", sqlite_databases, scrub_days=0)
    outcome = CliRunner().invoke(app, ["restore", str(tmp_path / "bad.tar")], env=variables(settings))
    assert outcome.exit_code == 2 and says in outcome.stderr, outcome.output + outcome.stderr
    assert "is not restored" in outcome.stderr and outcome.stderr.count("\n") <= 2
    _, services = make_client(settings)
    with services.database.engine.connect() as connection:
        for table in tables():
            assert connection.execute(select(table).limit(1)).first() is None, table.name
    assert not (tmp_path / "data" / "keys").exists()
    services.database.engine.dispose()


def test_a_backup_that_fails_leaves_no_file(
    prepare: Prepare, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(prepare("small"))
    fill(server)
    folder = tmp_path / "out"
    folder.mkdir()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pock_server.backup.archive.Writer.finish", full)
    assert "No space left" in command(server.services.settings, "backup", folder / "all.tar", status=2)
    assert list(folder.iterdir()) == []
