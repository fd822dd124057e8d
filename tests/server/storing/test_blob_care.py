"""Damaged and missing blobs: found, never served, not built upon, healed by the same bytes."""

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from pock_server.blobs.scrub import check_next
from pock_server.cli import app
from pock_server.health.queues import count_queues
from tests.server.conftest import ServerFactory
from tests.server.harness import Device, Person, Server, assert_problem, digest_of
from tests.server.stores import damage, lose, variables
from tests.server.storing.test_blobs import DATA

LARGE = bytes(range(256)) * (3 << 12)
"""3 MiB: too much to be looked at before its first byte is sent."""


@pytest.fixture(params=["damaged", "missing"])
def fault(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def break_blob(server: Server, digest: str, fault: str) -> None:
    {"damaged": damage, "missing": lose}[fault](server.services.blobs, digest)


def quarantined(server: Server) -> int:
    with server.services.database.read() as session:
        return count_queues(session, server.clock.now()).rows["blob", "quarantined"]


def test_a_flipped_byte_is_never_served_and_the_same_bytes_heal(server: Server, person: Person, fault: str) -> None:
    digest = person.upload(DATA)
    assert quarantined(server) == 0
    break_blob(server, digest, fault)
    for path in (f"/blobs/sha256/{digest}", f"/blobs/sha256/{digest}"):
        assert_problem(person.get(path), 410, 1033)
    assert person.call("HEAD", f"/blobs/sha256/{digest}").status_code == 410
    assert_problem(person.get(f"/blobs/sha256/{digest}", headers={"Range": "bytes=0-0"}), 410, 1033)
    assert_problem(person.post("/models", {"name": "net", "digest": digest}), 410, 1033)
    assert quarantined(server) == 1
    upload = person.post("/uploads", {"digest": digest, "size": len(DATA)}).json()
    assert upload["complete"] is False
    assert person.upload(DATA) == digest
    assert person.get(f"/blobs/sha256/{digest}").content == DATA
    assert quarantined(server) == 0


def test_the_last_bytes_of_a_damaged_large_blob_are_kept_back(server: Server, person: Person) -> None:
    digest = person.upload(LARGE)
    damage(server.services.blobs, digest)
    try:
        received = person.get(f"/blobs/sha256/{digest}").content
    except Exception as error:  # the client notices that the body ended early, or the end of the connection
        received = str(error).encode()
    assert len(received) < len(LARGE)
    assert_problem(person.get(f"/blobs/sha256/{digest}"), 410, 1033)
    person.upload(LARGE)
    assert person.get(f"/blobs/sha256/{digest}").content == LARGE


def test_a_truncated_blob_is_not_served_in_part_either(server: Server, person: Person) -> None:
    digest = person.upload(DATA)
    server.services.blobs.objects.put(f"sha256/{digest[:2]}/{digest}", DATA[:-1])
    assert_problem(person.get(f"/blobs/sha256/{digest}", headers={"Range": "bytes=0-9"}), 410, 1033)


def test_the_request_of_a_damaged_artifact_builds_anew(server: Server, person: Person, fault: str) -> None:
    model = person.model()["id"]
    first = server.built(person, model_id=model)
    assert person.build(model_id=model).status_code == 200
    manifest = person.get(f"/artifacts/{first['artifact_digest']}").json()
    break_blob(server, digest_of(b"parameters"), fault)
    assert_problem(person.get(f"/blobs/sha256/{digest_of(b'parameters')}"), 410, 1033)
    device = server.device(person)
    assert_problem(server.run(person, device, first["id"]), 410, 1033)
    again = person.build(model_id=model)
    assert again.status_code == 202 and again.json()["id"] != first["id"]
    server.finish_build()
    assert person.get(f"/blobs/sha256/{digest_of(b'parameters')}").content == b"parameters"
    assert person.build(model_id=model).json()["id"] == again.json()["id"]
    assert server.run(person, device, again.json()["id"]).status_code == 202
    assert manifest["build_id"] == first["id"]


def test_a_damaged_manifest_is_said(server: Server, person: Person, fault: str) -> None:
    build = server.built(person)
    row = person.get(f"/artifacts/{build['artifact_digest']}")
    assert row.status_code == 200
    with server.services.database.read() as session:
        from pock_server.artifacts.tables import ArtifactRecord

        members = session.query(ArtifactRecord).one().members
    break_blob(server, members["manifest.json"]["sha256"], fault)
    assert_problem(person.get(f"/artifacts/{build['artifact_digest']}"), 410, 1033)


def test_a_device_gets_no_damaged_bytes(server: Server, person: Person, device: Device, fault: str) -> None:
    server.run(person, device)
    work = device.take_work()
    assert work is not None
    digest = work["data"]["train"]["sha256"]
    break_blob(server, digest, fault)
    assert_problem(device.call("GET", f"/blobs/sha256/{digest}"), 410, 1033)


def test_scrub_finds_what_nobody_has_asked_for(server: Server, person: Person) -> None:
    good, damaged, missing = (person.upload(DATA + extra) for extra in (b"", b"1", b"2"))
    damage(server.services.blobs, damaged)
    lose(server.services.blobs, missing)
    found = scrub(server, status=1)
    assert {item["digest"] for item in found["quarantined"]} == {damaged, missing}
    assert found["blobs"] == 3
    assert person.get(f"/blobs/sha256/{good}").status_code == 200
    for digest in (damaged, missing):
        assert person.call("HEAD", f"/blobs/sha256/{digest}").status_code == 410
    person.upload(DATA + b"1")
    lost = f"sha256/{missing[:2]}/{missing}"
    server.services.blobs.objects.put(lost, DATA + b"2")  # its operator found it in a copy of the bucket
    assert scrub(server, status=0)["quarantined"] == []
    assert person.get(f"/blobs/sha256/{missing}").content == DATA + b"2"


def scrub(server: Server, status: int) -> dict[str, Any]:
    outcome = CliRunner().invoke(app, ["scrub", "--json"], env=variables(server.services.settings))
    assert outcome.exit_code == status, outcome.output
    return dict(json.loads(outcome.stdout))


def test_blobs_are_hashed_in_the_background_each_once_in_its_time(start_server: ServerFactory) -> None:
    server = start_server(scrub_days=0)  # no task of its own beside this test
    services = server.services
    person = server.person()
    digest = person.upload(DATA)
    object.__setattr__(services.settings, "scrub_days", 30)
    assert asyncio.run(check_next(services)) is False
    damage(services.blobs, digest)
    server.clock.advance(31 * 86_400)
    assert asyncio.run(check_next(services)) is True
    assert asyncio.run(check_next(services)) is False
    assert quarantined(server) == 1
    assert_problem(server.person().get(f"/blobs/sha256/{digest}"), 410, 1033)
