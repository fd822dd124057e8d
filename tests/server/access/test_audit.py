"""Every change that a person makes, and every coming and going of a device, is one entry of the audit log."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from pock_server.auth.schemas import Scope
from tests.server.access.tuning_changes import TUNING
from tests.server.audit_log import count, entries, new_since
from tests.server.federations.federating import federation
from tests.server.harness import Device, Person, Server, assert_problem, digest_of
from tests.server.updating.changes import UPDATING

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


def _search(server: Server, person: Person) -> Act:
    model_id, dataset_id = person.model(person.key.encode())["id"], person.dataset()["id"]
    return lambda: person.post("/searches", {"model_id": model_id, "dataset_id": dataset_id, "target": "host"})


def _run(server: Server, person: Person) -> Act:
    device, build, dataset = server.device(person), server.built(person), person.dataset()
    order = {"build_id": build["id"], "device_id": device.id, "dataset_id": dataset["id"], "steps": 3}
    return lambda: person.post("/runs", order)


def _benchmark(server: Server, person: Person) -> Act:
    device, build = server.device(person, {"features": ["repeats"]}), server.built(person)
    return lambda: person.post("/benchmarks", {"build_id": build["id"], "device_id": device.id})


def _campaign(server: Server, person: Person) -> Act:
    """Of a build that is not there yet: the service asks for no run of its own."""
    server.device(person, {"target": "host"})
    order = {"name": "sweep", "on": "*", "steps": 3, "dataset_id": person.dataset()["id"]}
    order["build_ids"] = [_build(server, person)().json()["id"]]
    return lambda: person.post("/campaigns", order)


def _schedule(server: Server, person: Person) -> Act:
    campaign = {"name": "sweep", "on": "*", "steps": 3, "entry": "bench"}
    campaign["build_ids"] = [_build(server, person)().json()["id"]]
    order = {"name": "nightly", "cron": "0 3 * * *", "what": {"campaign": campaign}}
    return lambda: person.post("/schedules", order)


def _change_schedule(server: Server, person: Person) -> Act:
    made = _schedule(server, person)().json()
    return lambda: person.call("PATCH", f"/schedules/{made['id']}", json={"cron": "0 4 * * *"})


def _campaigned(verb: str, before: str | None = None) -> Callable[[Server, Person], Act]:
    def prepare(server: Server, person: Person) -> Act:
        path = f"/campaigns/{_campaign(server, person)().json()['id']}"
        if before is not None:
            person.post(f"{path}/{before}")
        return lambda: person.post(f"{path}/{verb}")

    return prepare


def _webhook(server: Server, person: Person) -> Act:
    return lambda: person.post("/webhooks", {"url": "https://hook.example/", "events": ["run.failed"]})


def _change_webhook(server: Server, person: Person) -> Act:
    made = _webhook(server, person)().json()
    return lambda: person.call("PATCH", f"/webhooks/{made['id']}", json={"enabled": False})


def _cancel(make: Callable[[Server, Person], Act], path: str) -> Callable[[Server, Person], Act]:
    """Cancels what `make` makes."""

    def prepare(server: Server, person: Person) -> Act:
        made = make(server, person)().json()
        return lambda: person.post(f"{path}/{made['id']}/cancel")

    return prepare


def _delete(make: Callable[[Server, Person], Act], path: str) -> Callable[[Server, Person], Act]:
    """Deletes what `make` makes, once it is over."""

    def prepare(server: Server, person: Person) -> Act:
        made = make(server, person)().json()
        if path in ("/builds", "/searches", "/runs", "/benchmarks", "/campaigns", "/federations"):
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


def _device_policy(server: Server, person: Person) -> Act:
    device = server.device(person, {"features": ["policies"]})
    return lambda: person.call("PUT", f"/devices/{device.id}/policy", json={"charging": True})


def _remove_device_policy(server: Server, person: Person) -> Act:
    device = server.device(person, {"features": ["policies"]})
    person.call("PUT", f"/devices/{device.id}/policy", json={"charging": True})
    return lambda: person.call("DELETE", f"/devices/{device.id}/policy")


def _pool_policy(server: Server, person: Person) -> Act:
    return lambda: person.call("PUT", "/pools/policy?pool=kitchen", json={"charging": True})


def _remove_pool_policy(server: Server, person: Person) -> Act:
    _pool_policy(server, person)()
    return lambda: person.call("DELETE", "/pools/policy?pool=kitchen")


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
    ("POST", "/builds/{build_id}/cancel"): (_cancel(_build, "/builds"), "build.cancel"),
    ("POST", "/searches"): (_search, "search.request"),
    ("POST", "/searches/{search_id}/cancel"): (_cancel(_search, "/searches"), "search.cancel"),
    ("DELETE", "/searches/{search_id}"): (_delete(_search, "/searches"), "search.delete"),
    ("POST", "/runs"): (_run, "run.request"),
    ("POST", "/runs/{run_id}/cancel"): (_cancel(_run, "/runs"), "run.cancel"),
    ("POST", "/schedules"): (_schedule, "schedule.create"),
    ("PATCH", "/schedules/{schedule_id}"): (_change_schedule, "schedule.change"),
    ("DELETE", "/schedules/{schedule_id}"): (_delete(_schedule, "/schedules"), "schedule.delete"),
    ("POST", "/campaigns"): (_campaign, "campaign.create"),
    ("POST", "/campaigns/{campaign_id}/pause"): (_campaigned("pause"), "campaign.pause"),
    ("POST", "/campaigns/{campaign_id}/resume"): (_campaigned("resume", "pause"), "campaign.resume"),
    ("POST", "/campaigns/{campaign_id}/cancel"): (_campaigned("cancel"), "campaign.cancel"),
    ("DELETE", "/campaigns/{campaign_id}"): (_delete(_campaign, "/campaigns"), "campaign.delete"),
    ("POST", "/federations"): (federation, "federation.create"),
    ("POST", "/federations/{federation_id}/cancel"): (_cancel(federation, "/federations"), "federation.cancel"),
    ("DELETE", "/federations/{federation_id}"): (_delete(federation, "/federations"), "federation.delete"),
    **TUNING,
    ("POST", "/benchmarks"): (_benchmark, "benchmark.request"),
    ("POST", "/benchmarks/{benchmark_id}/cancel"): (_cancel(_benchmark, "/benchmarks"), "benchmark.cancel"),
    ("DELETE", "/benchmarks/{benchmark_id}"): (_delete(_benchmark, "/benchmarks"), "benchmark.delete"),
    ("POST", "/webhooks"): (_webhook, "webhook.create"),
    ("PATCH", "/webhooks/{webhook_id}"): (_change_webhook, "webhook.change"),
    ("DELETE", "/webhooks/{webhook_id}"): (_delete(_webhook, "/webhooks"), "webhook.delete"),
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
    **UPDATING,
    ("POST", "/enrollment-tokens"): (_token, "enrolment_token.create"),
    ("PATCH", "/devices/{device_id}"): (_change_device, "device.change"),
    ("DELETE", "/devices/{device_id}"): (_revoke_device, "device.revoke"),
    ("PUT", "/devices/{device_id}/policy"): (_device_policy, "policy.set"),
    ("DELETE", "/devices/{device_id}/policy"): (_remove_device_policy, "policy.remove"),
    ("PUT", "/pools/policy"): (_pool_policy, "policy.set"),
    ("DELETE", "/pools/policy"): (_remove_pool_policy, "policy.remove"),
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

QUESTIONS = {("POST", f"/models/{{model_id}}/{asked}") for asked in ("approximation", "estimate", "graph")}
"""Calls that ask with a body, and change nothing."""


def test_every_call_that_changes_something_is_in_the_table(shared: Server) -> None:
    document = shared.client.get("/openapi.json").json()
    changing = {
        (method.upper(), path.removeprefix("/v1"))
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method not in ("get", "head") and any("apiKey" in entry for entry in operation.get("security", []))
    }
    assert changing == set(CHANGES) | QUESTIONS


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
