"""Weights that a run begins with, and those that come back: which a device is sent, and what becomes of them."""

from typing import Any

import pytest

from pock_server.artifacts.tables import ArtifactRecord
from pock_server.blobs.tables import BlobUseRecord
from tests.server.harness import Device, Person, Server, assert_problem, digest_of

KNOWING = {"agent_version": "0.2.0", "features": ["weights-delta", "initial-weights"]}
DELTA = b"a delta"


@pytest.fixture
def knowing(server: Server, person: Person) -> Device:
    """A device with an agent of today."""
    return server.device(person, KNOWING)


def trained(device: Device, data: bytes = DELTA, form: str | None = "delta") -> str:
    """Do the next run and upload what it trained; its id."""
    work = device.take_work()
    assert work is not None
    assert device.post("lease").status_code == 200
    sent = device.call("PUT", f"/blobs/sha256/{digest_of(data)}", content=data)
    assert sent.status_code in (200, 201), sent.text
    said = {} if form is None else {"weights_form": form}
    assert device.post("result", state="succeeded", weights_digest=digest_of(data), **said).status_code == 200
    return str(work["run_id"])


def test_a_delta_comes_where_it_was_asked_for(server: Server, person: Person, knowing: Device) -> None:
    run = server.run(person, knowing, save_weights=True, weights_form="delta").json()
    assert (run["weights_form"], run["weights_bytes"], run["full_weights_bytes"]) == (None, None, None)
    trained(knowing)
    assert knowing.work["run"]["weights_form"] == "delta"
    run = person.get(f"/runs/{run['id']}").json()
    assert (run["weights_form"], run["weights_digest"]) == ("delta", digest_of(DELTA))
    assert (run["weights_bytes"], run["full_weights_bytes"]) == (len(DELTA), len(b"parameters"))


@pytest.mark.parametrize("changes", [{}, {"weights_form": "safetensors"}, {"weights_form": "delta", "entry": "eval"}])
def test_all_weights_come_otherwise(server: Server, person: Person, knowing: Device, changes: dict[str, Any]) -> None:
    run = server.run(person, knowing, save_weights=True, **changes).json()
    trained(knowing, form=None)
    assert "weights_form" not in knowing.work["run"] and "weights" not in knowing.work["data"]
    assert person.get(f"/runs/{run['id']}").json()["weights_form"] == "safetensors"


def test_an_agent_of_before_is_not_asked_for_a_delta(server: Server, person: Person, device: Device) -> None:
    server.run(person, device, save_weights=True, weights_form="delta")
    trained(device, form=None)
    assert set(device.work["run"]) == {"entry", "steps", "threads", "seed", "save_weights"}
    assert set(device.work["data"]) == {"train", "eval"}


def test_a_run_begins_with_what_another_trained(server: Server, person: Person, knowing: Device) -> None:
    build_id = server.built(person)["id"]
    server.run(person, knowing, build_id, save_weights=True, weights_form="delta")
    first = trained(knowing)
    answer = server.run(person, knowing, build_id, weights_of=first)
    assert answer.status_code == 202, answer.text
    assert answer.json()["initial_weights_digest"] == digest_of(DELTA)
    work = knowing.take_work()
    assert work is not None
    assert work["data"]["weights"] == {"sha256": digest_of(DELTA), "size": len(DELTA)}
    assert knowing.call("GET", f"/blobs/sha256/{digest_of(DELTA)}").content == DELTA


def test_a_run_begins_with_an_uploaded_file(server: Server, person: Person, knowing: Device) -> None:
    digest = person.upload(b"weights")
    run = server.run(person, knowing, weights_of=digest).json()
    assert run["initial_weights_digest"] == digest


def test_who_cannot_begin_with_other_weights_is_not_asked_to(server: Server, person: Person, device: Device) -> None:
    answer = server.run(person, device, weights_of=person.upload(b"weights"))
    assert_problem(answer, 409, 1014)
    assert "cannot begin with other weights" in answer.json()["detail"]


def test_weights_that_are_not_there(server: Server, person: Person, knowing: Device) -> None:
    build_id = server.built(person)["id"]
    for nothing in ("0" * 64, "018f0000-0000-7000-8000-000000000000"):
        assert_problem(server.run(person, knowing, build_id, weights_of=nothing), 404, 1005)
    assert_problem(server.run(person, knowing, build_id, weights_of="nonsense"), 422, 1006)
    without = server.run(person, knowing, build_id).json()["id"]
    answer = server.run(person, knowing, build_id, weights_of=without)
    assert_problem(answer, 409, 1014)
    assert "has no weights" in answer.json()["detail"]


def test_weights_of_another_workspace_are_not_there(server: Server, person: Person, knowing: Device) -> None:
    stranger = server.person(workspace="other")
    digest = stranger.upload(b"secret weights")
    assert_problem(server.run(person, knowing, weights_of=digest), 404, 1005)


def test_a_delta_belongs_to_its_own_artifact(server: Server, person: Person, knowing: Device) -> None:
    build_id = server.built(person)["id"]
    server.run(person, knowing, build_id, save_weights=True, weights_form="delta")
    first = trained(knowing)
    with server.services.database.write() as unit:
        (artifact,) = unit.session.query(ArtifactRecord).all()
        other = {**artifact.members, "params.safetensors": {"sha256": "f" * 64, "size": 1}}
        artifact.members = other
    second = server.built(person, recipe={"batch": 4})["id"]
    answer = server.run(person, knowing, second, weights_of=first)
    assert_problem(answer, 409, 1014)
    assert "a delta of other weights" in answer.json()["detail"]


def test_weights_to_begin_with_stay_as_long_as_the_run(server: Server, person: Person, knowing: Device) -> None:
    digest = person.upload(b"weights")
    run = server.run(person, knowing, weights_of=digest).json()["id"]
    with server.services.database.read() as session:
        used = session.query(BlobUseRecord).filter_by(owner_id=run, digest=digest).count()
    assert used == 1
    person.post(f"/runs/{run}/cancel")
    assert person.call("DELETE", f"/runs/{run}").status_code == 204
    with server.services.database.read() as session:
        assert session.query(BlobUseRecord).filter_by(owner_id=run).count() == 0
