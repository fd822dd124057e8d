"""Unused blobs go after the grace period, used ones never, whatever happens at the same time; deletion by the API."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import obstore
import pytest
from typer.testing import CliRunner

from pock_server.blobs.collect import collect
from pock_server.blobs.store import BlobStore
from pock_server.cli import app
from tests.server.harness import Device, Person, Server, assert_problem, digest_of
from tests.server.stores import stored_keys, variables
from tests.server.storing.test_blobs import DATA, begin, send

DAY = 86_400.0


def names(server: Server) -> set[str]:
    """The last parts of the keys of everything that is stored."""
    return {key.rpartition("/")[2] for key in stored_keys(server.services.blobs)}


def test_unused_blobs_go_after_the_grace_period(server: Server, person: Person) -> None:
    digest = person.upload(DATA)
    server.clock.advance(DAY - 60)
    assert collect(server.services).blobs == 0
    assert person.post("/uploads", {"digest": digest, "size": len(DATA)}).json()["complete"] is True  # wanted once more
    server.clock.advance(DAY - 60)
    assert collect(server.services).blobs == 0
    server.clock.advance(120)
    found = collect(server.services)
    assert (found.claims, found.blobs, found.bytes) == (1, 1, len(DATA))
    assert names(server) == set()
    assert_problem(person.get(f"/blobs/sha256/{digest}"), 404, 1005)
    assert person.upload(DATA) == digest
    assert person.get(f"/blobs/sha256/{digest}").content == DATA


def test_whatever_is_used_stays(server: Server, person: Person) -> None:
    external = person.upload(b"weights of the model")
    model = person.post(
        "/models", {"name": "net", "digest": person.upload(b"the model"), "external": {"w.bin": external}}
    ).json()
    build = server.built(person, model_id=model["id"])
    device = server.device(person)
    server.run(person, device, build["id"], save_weights=True)
    work = device.take_work()
    assert work is not None
    device.post("lease")
    weights = b"trained weights"
    device.call("PUT", f"/blobs/sha256/{digest_of(weights)}", content=weights)
    assert device.post("result", state="succeeded", weights_digest=digest_of(weights)).status_code == 200
    before = names(server)
    server.clock.advance(400 * DAY)
    assert collect(server.services).blobs == 0
    assert names(server) == before and len(before) >= 8


def test_blobs_without_rows_and_forgotten_parts_go(server: Server, person: Person) -> None:
    upload_id = begin(person)
    send(person, upload_id, 0, DATA[:100])
    store = server.services.blobs
    store.put_bytes(b"a build that died before its row")
    obstore.put(store.objects, f"uploads/{upload_id}/forgotten", b"part")
    server.clock.advance(DAY + 60)
    found = collect(server.services)
    assert (found.claims, found.blobs, found.parts) == (0, 1, 1)
    assert len(names(server)) == 1
    assert send(person, upload_id, 100, DATA[100:]).status_code == 204


def test_what_is_younger_than_the_grace_period_stays(server: Server) -> None:
    server.clock.moment = datetime.now(UTC)
    server.services.blobs.put_bytes(b"a build whose row is about to be written")
    assert collect(server.services).blobs == 0
    server.clock.advance(DAY + 60)
    assert collect(server.services).blobs == 1


def test_an_upload_of_the_same_bytes_at_that_moment_wins(
    server: Server, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector has looked at the old object and is about to delete it when it is stored anew."""
    server.services.blobs.put_bytes(DATA)
    server.clock.advance(DAY + 60)
    written = threading.Event()
    write = BlobStore.write

    async def write_and_say(store: BlobStore, *arguments: Any) -> None:
        await write(store, *arguments)
        written.set()

    uploads: list[threading.Thread] = []
    # The upload begins before the collector holds its lock: only then can both be where they meet.
    upload_id = begin(person)
    monkeypatch.setattr(BlobStore, "write", write_and_say)
    monkeypatch.setattr(BlobStore, "modified_at", lambda store, key: _meet(person, upload_id, written, uploads, server))
    # By the tests' clock, parts are old as soon as they are written.
    monkeypatch.setattr("pock_server.blobs.collect._collect_parts", lambda *_: None)
    collect(server.services)
    for thread in uploads:
        thread.join(30)
    assert person.get(f"/blobs/sha256/{digest_of(DATA)}").content == DATA


def _meet(
    person: Person, upload_id: str, written: threading.Event, uploads: list[threading.Thread], server: Server
) -> datetime:
    if not uploads:
        uploads.append(threading.Thread(target=send, args=(person, upload_id, 0, DATA)))
        uploads[0].start()
        written.wait(3)  # on SQLite the upload waits for the collector before it writes, and then all is well, too
    return server.clock.now() - timedelta(days=2)


def test_gc_says_what_it_would_do(server: Server, person: Person) -> None:
    person.upload(DATA)
    kept = person.model()
    settings = {**variables(server.services.settings), "POCK_GRACE_HOURS": "1"}
    # The command's clock is the real one; these were stored in 2030, so to it they are young.
    outcome = CliRunner().invoke(app, ["gc", "--dry-run", "--json"], env=settings)
    assert outcome.exit_code == 0, outcome.output
    nothing = {"claims": 0, "blobs": 0, "parts": 0, "bytes": 0, "dry_run": True}
    assert json.loads(outcome.stdout) == {
        **nothing,
        "dropped": {"artifacts": 0, "events": 0, "steps": 0, "deliveries": 0},
    }
    server.clock.advance(DAY + 60)
    would = collect(server.services, dry_run=True)
    assert names(server) == {digest_of(DATA), kept["digest"]}
    did = collect(server.services)
    assert would == did and did.blobs == 1


def test_deletion_goes_from_the_runs_to_the_model(server: Server, person: Person, device: Device) -> None:
    model = person.model()
    queued = person.build(model_id=model["id"]).json()
    assert_problem(person.call("DELETE", f"/builds/{queued['id']}"), 409, 1014)
    server.finish_build()
    build = person.get(f"/builds/{queued['id']}").json()
    dataset = person.dataset()
    run = server.run(person, device, build["id"], dataset_id=dataset["id"]).json()
    for path in (
        f"/models/{model['id']}",
        f"/builds/{build['id']}",
        f"/datasets/{dataset['id']}",
        f"/runs/{run['id']}",
    ):
        assert_problem(person.call("DELETE", path), 409, 1014)
    person.post(f"/runs/{run['id']}/cancel")
    paths = [f"/runs/{run['id']}", f"/datasets/{dataset['id']}", f"/builds/{build['id']}", f"/models/{model['id']}"]
    for path in paths:
        assert person.call("DELETE", path).status_code == 204
        assert_problem(person.get(path), 404, 1005)
        assert_problem(person.call("DELETE", path), 404, 1005)
    assert_problem(person.get(f"/artifacts/{build['artifact_digest']}"), 404, 1005)
    for kept in person.get("/datasets").json()["items"]:  # `server.run` made one more
        person.call("DELETE", f"/datasets/{kept['id']}")
    server.clock.advance(DAY + 60)
    collect(server.services)
    assert names(server) == set()


def test_nobody_deletes_what_another_workspace_has(server: Server, person: Person) -> None:
    stranger = server.person(workspace="another")
    model = person.model()
    assert_problem(stranger.call("DELETE", f"/models/{model['id']}"), 404, 1005)
    stranger.upload(b"an ONNX file")
    server.clock.advance(DAY + 60)
    assert collect(server.services).claims == 1
    assert person.get(f"/blobs/sha256/{model['digest']}").content == b"an ONNX file"
    assert stranger.call("HEAD", f"/blobs/sha256/{model['digest']}").status_code == 404


def test_an_artifact_that_two_builds_made_stays_until_both_are_gone(server: Server, person: Person) -> None:
    first = server.built(person)
    second = person.build(recipe={"batch": 3}).json()
    from pock_server.runner.claims import claim_next, finish
    from tests.server.harness import make_artifact

    claim = claim_next(server.services)
    assert claim is not None
    finish(server.services, claim, make_artifact(server.services, first["id"]))
    assert person.get(f"/builds/{second['id']}").json()["artifact_digest"] == first["artifact_digest"]
    path = f"/artifacts/{first['artifact_digest']}"
    assert person.get(path).json()["build_id"] == first["id"]
    assert person.call("DELETE", f"/builds/{first['id']}").status_code == 204
    assert person.get(path).json()["build_id"] == second["id"]
    assert person.call("DELETE", f"/builds/{second['id']}").status_code == 204
    assert_problem(person.get(path), 404, 1005)


@pytest.mark.parametrize("attempt", range(3))
def test_a_deletion_and_a_use_at_the_same_time_have_one_winner(server: Server, person: Person, attempt: int) -> None:
    model_id = person.model()["id"]
    start = threading.Barrier(2)

    def delete() -> int:
        start.wait()
        return int(person.call("DELETE", f"/models/{model_id}").status_code)

    def build() -> int:
        start.wait()
        return int(person.build(model_id=model_id).status_code)

    with ThreadPoolExecutor() as pool:
        outcome = tuple(future.result() for future in (pool.submit(delete), pool.submit(build)))
    assert outcome in ((204, 404), (204, 409), (409, 202))
