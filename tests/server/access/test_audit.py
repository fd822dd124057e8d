"""Every change that a person makes, and every coming and going of a device, is one entry of the audit log."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from pock_server.auth.roles import Role
from pock_server.auth.schemas import Scope
from pock_server.devices.tables import DeviceRecord
from pock_server.runner.sweeper import sweep_all
from tests.server.audit_log import count, entries, new_since
from tests.server.conftest import ServerFactory
from tests.server.harness import Device, Person, Server, assert_problem, digest_of

UNKNOWN = "018f0000-0000-7000-8000-000000000000"
DAY = 86_400
Act = Callable[[], Any]


def _upload(server: Server, person: Person) -> Act:
    return lambda: person.post("/uploads", {"digest": digest_of(b"new"), "size": 3})


def _patch(server: Server, person: Person) -> Act:
    data = person.key.encode()
    upload = person.post("/uploads", {"digest": digest_of(data), "size": len(data)}).json()
    return lambda: person.call("PATCH", f"/uploads/{upload['id']}", content=data, headers={"Upload-Offset": "0"})


def _model(server: Server, person: Person) -> Act:
    digest = person.upload(b"an ONNX file")
    return lambda: person.post("/models", {"name": "net", "digest": digest})


def _dataset(server: Server, person: Person) -> Act:
    digest = person.dataset()["digest"]
    return lambda: person.post("/datasets", {"name": "others", "digest": digest})


def _recipe(server: Server, person: Person) -> Act:
    return lambda: person.post("/recipes", {"name": "sparse", "text": "batch: 2"})


def _delete_recipe(server: Server, person: Person) -> Act:
    made = _recipe(server, person)().json()
    return lambda: person.call("DELETE", f"/recipes/{made['id']}")


def _build(server: Server, person: Person) -> Act:
    model_id = person.model(person.key.encode())["id"]
    return lambda: person.build(model_id=model_id)


def _cancel_build(server: Server, person: Person) -> Act:
    build = _build(server, person)().json()
    return lambda: person.post(f"/builds/{build['id']}/cancel")


def _run(server: Server, person: Person) -> Act:
    device, build, dataset = server.device(person), server.built(person), person.dataset()
    order = {"build_id": build["id"], "device_id": device.id, "dataset_id": dataset["id"], "steps": 3}
    return lambda: person.post("/runs", order)


def _cancel_run(server: Server, person: Person) -> Act:
    run = _run(server, person)().json()
    return lambda: person.post(f"/runs/{run['id']}/cancel")


def _delete(make: Callable[[Server, Person], Act], path: str) -> Callable[[Server, Person], Act]:
    """Deletes what `make` makes, once it is over."""

    def prepare(server: Server, person: Person) -> Act:
        made = make(server, person)().json()
        if path in ("/builds", "/runs"):
            person.post(f"{path}/{made['id']}/cancel")
        return lambda: person.call("DELETE", f"{path}/{made['id']}")

    return prepare


def _token(server: Server, person: Person) -> Act:
    return lambda: person.post("/enrollment-tokens", {"pool": "lab"})


def _tag(kind: str) -> Callable[[Server, Person], Act]:
    def prepare(_server: Server, person: Person) -> Act:
        makers: dict[str, Callable[[], Any]] = {"models": person.model, "datasets": person.dataset}
        makers["recipes"] = lambda: person.post("/recipes", {"name": "sparse", "text": "batch: 2"}).json()
        row = makers[kind]() if kind in makers else person.build().json()
        return lambda: person.call("PUT", f"/{kind}/{row['id']}/tags/stable")

    return prepare


def _untag(kind: str) -> Callable[[Server, Person], Act]:
    def prepare(server: Server, person: Person) -> Act:
        tagged = _tag(kind)(server, person)().json()
        return lambda: person.call("DELETE", f"/{kind}/{tagged['id']}/tags/stable")

    return prepare


def _change_device(server: Server, person: Person) -> Act:
    device = server.device(person)
    return lambda: person.call("PATCH", f"/devices/{device.id}", json={"labels": {"room": "attic"}})


def _revoke_device(server: Server, person: Person) -> Act:
    device = server.device(person)
    return lambda: person.call("DELETE", f"/devices/{device.id}")


def _key(server: Server, person: Person) -> Act:
    return lambda: person.post("/api-keys", {"name": "ci", "scopes": ["read"]})


def _revoke_key(server: Server, person: Person) -> Act:
    made = _key(server, person)().json()
    return lambda: person.call("DELETE", f"/api-keys/{made['id']}")


def _revoke_my_key(server: Server, person: Person) -> Act:
    mine = server.person()
    key_id = mine.get("/me").json()["key"]["id"]
    return lambda: mine.call("DELETE", f"/me/api-keys/{key_id}")


def _add_member(server: Server, person: Person) -> Act:
    return lambda: person.post("/members", {"name": f"member {count(server)}", "role": "viewer"})


def _change_member(server: Server, person: Person) -> Act:
    member = _add_member(server, person)().json()
    return lambda: person.call("PATCH", f"/members/{member['id']}", json={"role": "developer"})


def _sign_in(server: Server, person: Person) -> Act:
    return lambda: person.post("/session")


def _sign_out(server: Server, person: Person) -> Act:
    browser = server.browser(person)
    return lambda: browser.call("DELETE", "/session")


def _end_session(server: Server, person: Person) -> Act:
    session_id = server.browser(person).get("/me").json()["session_id"]
    return lambda: person.call("DELETE", f"/sessions/{session_id}")


def _end_my_session(server: Server, person: Person) -> Act:
    session_id = server.browser(person).get("/me").json()["session_id"]
    return lambda: person.call("DELETE", f"/me/sessions/{session_id}")


CHANGES: dict[tuple[str, str], tuple[Callable[[Server, Person], Act], str]] = {
    ("POST", "/uploads"): (_upload, "upload.start"),
    ("PATCH", "/uploads/{upload_id}"): (_patch, "upload.finish"),
    ("POST", "/models"): (_model, "model.create"),
    ("POST", "/datasets"): (_dataset, "dataset.create"),
    ("POST", "/builds"): (_build, "build.request"),
    ("POST", "/builds/{build_id}/cancel"): (_cancel_build, "build.cancel"),
    ("POST", "/runs"): (_run, "run.request"),
    ("POST", "/runs/{run_id}/cancel"): (_cancel_run, "run.cancel"),
    ("DELETE", "/models/{model_id}"): (_delete(_model, "/models"), "model.delete"),
    ("DELETE", "/datasets/{dataset_id}"): (_delete(_dataset, "/datasets"), "dataset.delete"),
    ("DELETE", "/builds/{build_id}"): (_delete(_build, "/builds"), "build.delete"),
    ("DELETE", "/runs/{run_id}"): (_delete(_run, "/runs"), "run.delete"),
    ("PUT", "/models/{model_id}/tags/{tag_name}"): (_tag("models"), "model.tag"),
    ("DELETE", "/models/{model_id}/tags/{tag_name}"): (_untag("models"), "model.untag"),
    ("PUT", "/datasets/{dataset_id}/tags/{tag_name}"): (_tag("datasets"), "dataset.tag"),
    ("DELETE", "/datasets/{dataset_id}/tags/{tag_name}"): (_untag("datasets"), "dataset.untag"),
    ("POST", "/recipes"): (_recipe, "recipe.create"),
    ("DELETE", "/recipes/{recipe_id}"): (_delete_recipe, "recipe.delete"),
    ("PUT", "/recipes/{recipe_id}/tags/{tag_name}"): (_tag("recipes"), "recipe.tag"),
    ("DELETE", "/recipes/{recipe_id}/tags/{tag_name}"): (_untag("recipes"), "recipe.untag"),
    ("PUT", "/builds/{build_id}/tags/{tag_name}"): (_tag("builds"), "build.tag"),
    ("DELETE", "/builds/{build_id}/tags/{tag_name}"): (_untag("builds"), "build.untag"),
    ("POST", "/enrollment-tokens"): (_token, "enrolment_token.create"),
    ("PATCH", "/devices/{device_id}"): (_change_device, "device.change"),
    ("DELETE", "/devices/{device_id}"): (_revoke_device, "device.revoke"),
    ("POST", "/api-keys"): (_key, "api_key.create"),
    ("DELETE", "/api-keys/{key_id}"): (_revoke_key, "api_key.revoke"),
    ("DELETE", "/me/api-keys/{key_id}"): (_revoke_my_key, "api_key.revoke"),
    ("POST", "/members"): (_add_member, "member.add"),
    ("PATCH", "/members/{member_id}"): (_change_member, "member.change"),
    ("POST", "/session"): (_sign_in, "session.open"),
    ("DELETE", "/session"): (_sign_out, "session.end"),
    ("DELETE", "/sessions/{session_id}"): (_end_session, "session.end"),
    ("DELETE", "/me/sessions/{session_id}"): (_end_my_session, "session.end"),
}
"""{people's call that changes something: (what makes one that succeeds, the action in its entry)}."""


def test_every_call_that_changes_something_is_in_the_table(shared: Server) -> None:
    document = shared.client.get("/openapi.json").json()
    changing = {
        (method.upper(), path.removeprefix("/v1"))
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method not in ("get", "head") and any("apiKey" in entry for entry in operation.get("security", []))
    }
    assert changing == set(CHANGES)


@pytest.mark.parametrize("call", CHANGES, ids=" ".join)
def test_each_change_is_one_entry(server: Server, call: tuple[str, str]) -> None:
    prepare, action = CHANGES[call]
    person = server.person()
    act = prepare(server, person)
    before = entries(server)
    answer = act()
    assert answer.status_code < 300, answer.text
    (entry,) = new_since(before, server)
    assert entry["action"] == action and entry["object"]["kind"] == action.split(".")[0]
    assert entry["actor"]["kind"] in ("api_key", "session") and entry["actor"]["key_id"]
    assert (entry["address"], entry["user_agent"]) == ("127.0.0.1", "testclient")
    assert entry["request_id"] == answer.headers["x-request-id"]
    assert not any(secret in json.dumps(entry) for secret in (person.key[-64:], str(answer.headers.get("set-cookie"))))


@pytest.mark.parametrize("call", CHANGES, ids=" ".join)
def test_what_fails_is_no_entry(shared: Server, call: tuple[str, str]) -> None:
    method, path = call
    for person in (shared.person(), shared.person(Scope.AUDIT_READ), Person(shared.client, "pk_unknown")):
        before = count(shared)
        parts = [UNKNOWN if part.startswith("{") else part for part in path.split("/")]
        options = {"headers": {"Upload-Offset": "0"}} if method == "PATCH" else {}
        answer = person.call(method, "/".join(parts), json=["wrong"], **options)
        if path == "/session" and method == "POST" and answer.status_code == 201:
            continue  # any key may sign in
        assert 400 <= answer.status_code < 500, answer.text
        assert count(shared) == before


def test_what_changes_nothing_is_no_entry(server: Server, person: Person, device: Device) -> None:
    """Asked again, and asked for what is so already."""
    build = person.build().json()
    person.call("DELETE", f"/devices/{device.id}")
    member = person.post("/members", {"name": "alice", "role": "viewer"}).json()
    before = count(server)
    assert person.build(model_id=build["model_id"]).status_code == 200
    person.call("DELETE", f"/devices/{device.id}")
    person.call("PATCH", f"/members/{member['id']}", json={"role": "viewer", "disabled": False})
    assert count(server) == before


def test_devices_come_and_go_in_the_log_and_their_routine_is_not_in_it(
    server: Server, person: Person, device: Device
) -> None:
    server.run(person, device)
    before = count(server)
    device.take_work()
    device.post("lease")
    device.call("POST", "/heartbeat", json={"state": "busy"})
    assert count(server) == before
    server.clock.advance(1)
    assert_problem(device.open_session(counter=1), 409, 1019)
    assert_problem(device.open_session(counter=1), 409, 1019)
    assert [entry["action"] for entry in entries(server)[before:]] == ["device.quarantine"]
    enrolled = next(entry for entry in entries(server) if entry["action"] == "device.enrol")
    assert enrolled["actor"]["kind"] == "device" and enrolled["object"]["id"] == device.id


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
