"""What a workspace has and may have, what is stored, what waits: true counts, of this workspace alone."""

from typing import Any

import pytest

from pock_server.blobs.tables import QuarantineRecord
from pock_server.builds.schemas import BuildState
from pock_server.builds.tables import BuildRecord
from tests.server.conftest import ServerFactory
from tests.server.harness import Device, Person, Server, digest_of


def queue(person: Person, kind: str) -> tuple[int, int, int, bool]:
    """How many wait, work, are silent; and whether one is said to be the oldest."""
    (found,) = [one for one in person.get("/usage").json()["queues"] if one["kind"] == kind]
    return found["waiting"], found["working"], found["silent"], found["oldest_at"] is not None


def quotas(person: Person) -> dict[str, dict[str, Any]]:
    return {one["quota"]: one for one in person.get("/usage").json()["quotas"]}


def test_an_empty_workspace_uses_nothing(server: Server) -> None:
    answer = server.person(workspace="unused").get("/usage")
    assert answer.status_code == 200
    found = answer.json()
    assert found["storage"] == {"blobs": 0, "stored_bytes": 0, "announced_bytes": 0, "damaged_blobs": 0}
    assert [(one["kind"], one["waiting"], one["working"]) for one in found["queues"]] == [
        (kind, 0, 0) for kind in ("build", "search", "trials", "run")
    ]
    assert found["workers"] == []
    assert {one["quota"]: one["used"] for one in found["quotas"] if one["used"]} == {"keys": 1}


@pytest.mark.in_process("a worker's work in hand, and damage, are put into the database")
def test_what_is_stored_waits_and_works(server: Server, person: Person, device: Device) -> None:
    build = server.built(person)
    server.run(person, device, build_id=build["id"])
    server.run(person, device, build_id=build["id"])
    assert queue(person, "run") == (2, 0, 0, True)
    assert device.take_work() is not None
    assert queue(person, "run") == (1, 1, 0, True)
    waiting = person.build(model_id=build["model_id"], recipe={"batch": 3}).json()
    assert queue(person, "build") == (1, 0, 0, True)
    now = server.clock.now()
    with server.services.database.write() as unit:
        row = unit.session.get_one(BuildRecord, waiting["id"])
        row.state, row.started_at, row.lease_expires_at = BuildState.RUNNING, now, now
    assert queue(person, "build") == (0, 1, 0, False)
    (work,) = person.get("/usage").json()["workers"]
    assert (work["id"], work["kind"], work["name"], work["silent"]) == (waiting["id"], "build", "net", False)
    server.clock.advance(1)
    assert queue(person, "build") == (0, 1, 1, False)
    assert person.get("/usage").json()["workers"][0]["silent"]
    before = person.get("/usage").json()["storage"]
    person.upload(b"x" * 1000)
    person.post("/uploads", {"digest": "0" * 64, "size": 600})
    with server.services.database.write() as unit:
        digest = digest_of(b"x" * 1000)
        unit.session.add(QuarantineRecord(digest=digest, reason="it is gone", found_at=now))
    after = person.get("/usage").json()["storage"]
    assert {name: after[name] - before[name] for name in after} == {
        "blobs": 1,
        "stored_bytes": 1000,
        "announced_bytes": 600,
        "damaged_blobs": 1,
    }
    others = server.person(workspace="others").get("/usage").json()
    assert others["storage"] == dict.fromkeys(after, 0)
    assert all(not one["waiting"] and not one["working"] for one in others["queues"])
    assert others["workers"] == []


def test_limits_are_those_that_hold(start_server: ServerFactory) -> None:
    server = start_server(quota_models=7)
    person = server.person()
    assert quotas(person)["models"] | {"way_out": ""} == {
        "quota": "models",
        "noun": "models",
        "used": 0,
        "limit": 7,
        "own": False,
        "way_out": "",
    }
    person.model()
    assert quotas(person)["models"]["used"] == 1
    assert quotas(person)["bytes"]["used"] == person.get("/usage").json()["storage"]["stored_bytes"]
    assert all(one["way_out"] for one in quotas(person).values())
