"""Many do the same at the same moment, on both engines: one wins, the others get the answer that a loser should get."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import func, select

from pock_server.auth.service import find_or_add_workspace
from pock_server.blobs.tables import BlobRecord
from pock_server.events.tables import EventRecord
from pock_server.runner.claims import claim_next, finish
from pock_server.runner.sweeper import sweep_all
from tests.server.fleet.test_runs import LEASE, start, steps
from tests.server.harness import Device, Person, Server, digest_of, make_artifact

ROUNDS = range(2)


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """What the calls return; they begin at one moment."""
    barrier = threading.Barrier(len(calls))

    def one(call: Callable[[], Any]) -> Any:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [found.result() for found in [pool.submit(one, call) for call in calls]]


def codes(answers: Sequence[Any]) -> Counter[int]:
    return Counter(answer.status_code for answer in answers)


@pytest.mark.parametrize("_", ROUNDS)
def test_a_token_lets_one_device_in(server: Server, person: Person, _: int) -> None:
    token = person.post("/enrollment-tokens", {}).json()["token"]
    devices = [Device(server.client, Ed25519PrivateKey.generate()) for _ in range(8)]
    answers = together([partial(device.enrol, token) for device in devices])
    assert codes(answers) == {201: 1, 401: 7}
    assert {answer.json()["failure_code"] for answer in answers if answer.status_code == 401} == {1017}
    assert len(person.get("/devices").json()["items"]) == 1


@pytest.mark.parametrize("_", ROUNDS)
def test_a_counter_opens_one_session(server: Server, person: Person, device: Device, _: int) -> None:
    copies = [Device(server.client, device.private_key, id=device.id) for _ in range(6)]
    moment = device.now()
    answers = together([partial(copy.open_session, counter=7, signed_at=moment) for copy in copies])
    assert codes(answers) == {200: 1, 425: 5}


@pytest.mark.parametrize("_", ROUNDS)
def test_the_same_build_is_made_once(person: Person, _: int) -> None:
    model = person.model()["id"]
    answers = together([lambda: person.build(model_id=model)] * 8)
    assert codes(answers) == {202: 1, 200: 7}
    assert len({answer.json()["id"] for answer in answers}) == 1


@pytest.mark.parametrize("_", ROUNDS)
def test_the_same_bytes_in_many_uploads(server: Server, person: Person, _: int) -> None:
    data = b"the same bytes"
    order = {"digest": digest_of(data), "size": len(data)}
    paths = [f"/uploads/{person.post('/uploads', order).json()['id']}" for _ in range(6)]
    send = [
        lambda path=path: person.call("PATCH", path, content=data, headers={"Upload-Offset": "0"}) for path in paths
    ]
    assert codes(together(send)) == {204: 6}
    with server.services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(BlobRecord)) == 1


@pytest.mark.parametrize("_", ROUNDS)
def test_a_key_is_served_once(person: Person, _: int) -> None:
    body = {"name": "net", "digest": person.upload(b"graph")}
    answers = together([lambda: person.post("/models", body, headers={"Idempotency-Key": "k"})] * 8)
    assert set(codes(answers)) <= {201, 409}, codes(answers)
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 201}) == 1
    assert {answer.json()["failure_code"] for answer in answers if answer.status_code == 409} <= {1009}
    assert len(person.get("/models").json()["items"]) == 1


@pytest.mark.parametrize("_", ROUNDS)
def test_a_workspace_has_its_name_alone(server: Server, _: int) -> None:
    def find() -> str:
        with server.services.database.write() as unit:
            return find_or_add_workspace(unit, "new", server.clock.now()).id

    assert len(set(together([find] * 8))) == 1


@pytest.mark.parametrize("_", ROUNDS)
def test_a_cancel_beside_polls(server: Server, person: Person, device: Device, _: int) -> None:
    run_id = server.run(person, device).json()["id"]
    polls = [lambda: device.call("GET", "/work?wait=0")] * 3
    cancels = [lambda: person.post(f"/runs/{run_id}/cancel")] * 2
    answers = together([*polls, *cancels])
    assert set(codes(answers[:3])) <= {200, 204} and codes(answers[3:]) == {200: 2}
    assert person.get(f"/devices/{device.id}").json()["current_run_id"] is None


@pytest.mark.parametrize("_", ROUNDS)
def test_events_that_are_repeated_at_once(server: Server, person: Person, device: Device, _: int) -> None:
    run_id = start(server, person, device)
    batches = [lambda: device.post("events", first_seq=0, events=steps(1, 2, 3))] * 4
    batches += [lambda: device.post("events", first_seq=3, events=steps(4))] * 2
    assert codes(together(batches)) == {200: 6}
    with server.services.database.read() as session:
        rows = [row.data for row in session.scalars(select(EventRecord).where(EventRecord.kind == "steps"))]
        told = [step for row in rows for step in range(row["first"], row["last"] + 1)]
    assert len(told) == len(set(told)) and person.get(f"/runs/{run_id}").json()["state"] == "running"


@pytest.mark.parametrize("_", ROUNDS)
def test_no_run_waits_for_a_device_that_was_revoked(server: Server, person: Person, device: Device, _: int) -> None:
    order = {"build_id": server.built(person)["id"], "device_id": device.id, "dataset_id": person.dataset()["id"]}
    runs = [lambda: person.post("/runs", {**order, "steps": 1})] * 4
    answers = together([*runs, lambda: person.call("DELETE", f"/devices/{device.id}")])
    assert set(codes(answers[:4])) <= {202, 409} and answers[4].status_code == 204
    assert {run["state"] for run in person.get("/runs").json()["items"]} <= {"failed"}


@pytest.mark.parametrize("_", ROUNDS)
def test_everything_ends_a_run_at_once(server: Server, person: Person, device: Device, _: int) -> None:
    """Two who change a run and its device never wait for each other in a circle."""
    run_id = start(server, person, device)
    server.clock.advance(LEASE + 1)
    device.open_session()
    answers = together(
        [
            lambda: device.post("result", state="succeeded"),
            lambda: device.post("lease"),
            lambda: device.call("GET", "/work?wait=0"),
            lambda: person.post(f"/runs/{run_id}/cancel"),
            lambda: person.call("DELETE", f"/devices/{device.id}"),
            lambda: sweep_all(server.services),
        ]
    )
    assert {answer.status_code for answer in answers[:5]} <= {200, 204, 401, 409}, codes(answers[:5])
    assert answers[4].status_code == 204
    run = person.get(f"/runs/{run_id}").json()
    assert run["state"] in ("succeeded", "failed", "cancelled")
    with server.services.database.read() as session:
        rows = session.scalars(select(EventRecord).where(EventRecord.subject_id == run_id).order_by(EventRecord.seq))
        states = [row.data["state"] for row in rows if row.kind == "state"]
    assert states[-1] == run["state"] and sum(state in ("succeeded", "failed", "cancelled") for state in states) == 1


@pytest.mark.parametrize("_", ROUNDS)
def test_builds_are_claimed_by_one_runner_each(server: Server, person: Person, _: int) -> None:
    model = person.model()["id"]
    wanted = {person.build(model_id=model, recipe={"batch": n}).json()["id"] for n in range(1, 5)}
    claims = together([lambda: claim_next(server.services)] * 4)
    assert {claim.build_id for claim in claims if claim} == wanted


@pytest.mark.parametrize("_", ROUNDS)
def test_builds_with_the_same_members_end_at_once(server: Server, person: Person, _: int) -> None:
    model = person.model()["id"]
    for batch in (1, 2, 3):
        person.build(model_id=model, recipe={"batch": batch})
    claims = [claim for _ in range(3) if (claim := claim_next(server.services))]
    built = make_artifact(server.services, "same")
    together([partial(finish, server.services, claim, built) for claim in claims])
    assert [build["state"] for build in person.get("/builds").json()["items"]] == ["succeeded"] * 3


@pytest.mark.parametrize("_", ROUNDS)
def test_a_build_is_cancelled_and_ends_at_once(server: Server, person: Person, _: int) -> None:
    build_id = person.build().json()["id"]
    claim = claim_next(server.services)
    assert claim is not None
    built = make_artifact(server.services, build_id)
    server.clock.moment += timedelta(hours=1)
    cancel = [lambda: person.post(f"/builds/{build_id}/cancel")] * 2
    ends = [lambda: finish(server.services, claim, built), lambda: sweep_all(server.services)]
    answers = together([*cancel, *ends])
    state = person.get(f"/builds/{build_id}").json()["state"]
    expected = {200: 2} if state == "cancelled" else {409: 2}
    assert codes(answers[:2]) == expected and state in ("cancelled", "succeeded")
