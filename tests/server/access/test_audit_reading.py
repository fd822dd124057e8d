"""What the audit log tells, to whom, and for how long."""

import json

import pytest

from pock_server.auth.roles import Role
from pock_server.devices.tables import DeviceRecord
from pock_server.runner.sweeper import sweep_all
from tests.server.audit_log import entries
from tests.server.conftest import ServerFactory
from tests.server.harness import Device, Person, Server, assert_problem

UNKNOWN = "018f0000-0000-7000-8000-000000000000"
DAY = 86_400


def test_entry_says_who_what_before_and_after(server: Server) -> None:
    admin = server.member(Role.ADMIN, "alice")
    bob = admin.post("/members", {"name": "bob", "role": "viewer"}).json()
    admin.call("PATCH", f"/members/{bob['id']}", json={"role": "operator", "email": "bob@pock.example"})
    (entry,) = admin.get("/audit", params={"action": "member.change"}).json()["items"]
    assert entry["actor"]["name"] == "alice" and entry["actor"]["member_id"] == admin.get("/me").json()["member"]["id"]
    assert entry["object"] == {"kind": "member", "id": bob["id"], "name": "bob"}
    assert entry["changes"] == {
        "role": {"before": "viewer", "after": "operator"},
        "email": {"before": None, "after": "bob@pock.example"},
    }


def test_log_outlives_its_object(server: Server, person: Person, device: Device) -> None:
    with server.services.database.write() as unit:
        unit.session.delete(unit.session.get_one(DeviceRecord, device.id))
    found = person.get("/audit", params={"object_id": device.id}).json()["items"]
    assert [entry["action"] for entry in found] == ["device.enrol"]


def test_log_is_read_by_pages_and_filters(server: Server) -> None:
    admin = server.member(Role.ADMIN)
    for number in range(5):
        server.clock.advance(60)
        admin.post("/enrollment-tokens", {"name": f"board {number}"})
    items, cursor = [], None
    while True:
        page = admin.get(
            "/audit", params={"limit": 2, "object_kind": "enrolment_token", **({"cursor": cursor} if cursor else {})}
        ).json()
        items += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [entry["object"]["name"] for entry in items] == [f"board {number}" for number in (4, 3, 2, 1, 0)]
    some = admin.get("/audit", params={"since": items[2]["at"], "until": items[0]["at"]}).json()["items"]
    assert [entry["id"] for entry in some] == [items[1]["id"], items[2]["id"]]
    for name in ("member_id", "key_id"):
        mine = admin.get("/audit", params={name: items[0]["actor"][name]}).json()["items"]
        assert {entry["id"] for entry in mine} == {entry["id"] for entry in items}
        assert admin.get("/audit", params={name: UNKNOWN}).json()["items"] == []
    assert_problem(admin.get("/audit", params={"since": "2030-01-01T00:00:00"}), 422, 1006)


def test_export_has_every_entry_of_the_workspace_and_no_other(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pock_server.audit.repository._BATCH", 2)
    admin, stranger = server.member(Role.ADMIN), server.member(Role.ADMIN, workspace="other")
    for _ in range(5):
        admin.post("/enrollment-tokens", {})
    stranger.post("/enrollment-tokens", {"pool": "theirs"})
    answer = admin.get("/audit/export")
    assert answer.headers["content-type"].startswith("application/jsonl")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    listed = admin.get("/audit").json()["items"]
    assert lines == listed[::-1] and len(lines) == 8
    assert "theirs" not in answer.text


def test_log_is_for_operators_and_admins(server: Server) -> None:
    for role in Role:
        answer = server.member(role, str(role)).get("/audit")
        assert answer.status_code == (200 if role in (Role.OPERATOR, Role.ADMIN) else 403)


def test_old_entries_are_forgotten(start_server: ServerFactory) -> None:
    server = start_server(audit_days=30)
    server.person()
    server.clock.advance(31 * DAY)
    server.person()
    sweep_all(server.services)
    assert [entry["action"] for entry in entries(server)] == ["api_key.create"]


def test_user_agent_is_stored_as_something_storable(server: Server, person: Person) -> None:
    headers = {"User-Agent": "a\tb" + "x" * 5000}
    assert person.post("/enrollment-tokens", {}, headers=headers).status_code == 201
    assert entries(server)[-1]["user_agent"] == "a\N{REPLACEMENT CHARACTER}b" + "x" * 297
