"""API keys: what opens the API, what does not, and what each scope allows."""

import re

import pytest

from pock_server.auth.schemas import Scope
from tests.server.harness import Person, Server, assert_problem

DAY = 86_400
UNKNOWN = "018f0000-0000-7000-8000-000000000000"


def test_missing_wrong_and_foreign_credentials_are_unknown(server: Server, person: Person) -> None:
    wrong = person.key[:-4] + ("0000" if person.key[-4:] != "0000" else "1111")
    for credential in (
        None,
        "Bearer nonsense",
        f"Bearer {wrong}",
        f"Basic {person.key}",
        "Bearer ps_" + person.key[3:],
    ):
        headers = {"Authorization": credential} if credential else {}
        answer = server.client.get("/v1/models", headers=headers)
        assert_problem(answer, 401, 1001)
        assert answer.headers["www-authenticate"] == "Bearer"


def test_expired_key(server: Server) -> None:
    person = server.person(ttl_days=1)
    server.clock.advance(DAY - 1)
    assert person.get("/models").status_code == 200
    server.clock.advance(1)
    assert_problem(person.get("/models"), 401, 1002)


def test_created_key_works_until_it_is_revoked(server: Server, person: Person) -> None:
    made = person.post("/api-keys", {"name": "ci", "scopes": ["read"], "ttl_days": 5}).json()
    other = Person(server.client, made["key"])
    assert made["key"].startswith("pk_") and other.get("/models").status_code == 200
    listed = person.get("/api-keys").json()["items"]
    assert [row["name"] for row in listed] == ["ci", "test"]
    assert all("key" not in row and "secret" not in str(row) for row in listed)
    assert person.call("DELETE", f"/api-keys/{made['id']}").status_code == 204
    assert person.call("DELETE", f"/api-keys/{made['id']}").status_code == 204
    assert_problem(other.get("/models"), 401, 1003)
    assert_problem(person.call("DELETE", f"/api-keys/{UNKNOWN}"), 404, 1005)


def test_secret_is_stored_as_a_hash_only(server: Server, person: Person) -> None:
    person.get("/models")
    secret = person.key.rsplit("_", 1)[1].encode()
    files = [path for path in server.services.settings.data_dir.rglob("*") if path.is_file()]
    assert files and not any(secret in path.read_bytes() for path in files)


def test_key_lives_ninety_days_at_most(person: Person) -> None:
    assert_problem(person.post("/api-keys", {"name": "x", "scopes": ["read"], "ttl_days": 91}), 422, 1006)


def test_key_cannot_grant_more_than_it_has(server: Server) -> None:
    admin = server.person(Scope.KEYS_ADMIN, Scope.READ)
    assert admin.post("/api-keys", {"name": "x", "scopes": ["read"]}).status_code == 201
    assert_problem(admin.post("/api-keys", {"name": "x", "scopes": ["models:write"]}), 403, 1004)


CALLS = [
    ("GET", "/models", Scope.READ),
    ("GET", f"/models/{UNKNOWN}", Scope.READ),
    ("GET", f"/models/{UNKNOWN}/check", Scope.READ),
    *(("POST", f"/models/{UNKNOWN}/{question}", Scope.READ) for question in ("approximation", "estimate", "graph")),
    ("GET", "/datasets", Scope.READ),
    ("GET", f"/datasets/{UNKNOWN}", Scope.READ),
    *(("GET", f"/datasets/{UNKNOWN}/{part}", Scope.READ) for part in ("preview", "statistics", "labels", "fits")),
    ("GET", "/targets", Scope.READ),
    ("GET", "/builds", Scope.READ),
    ("GET", f"/builds/{UNKNOWN}", Scope.READ),
    ("GET", f"/builds/{UNKNOWN}/log", Scope.READ),
    ("GET", f"/builds/{UNKNOWN}/events", Scope.READ),
    ("GET", f"/artifacts/{'0' * 64}", Scope.READ),
    ("GET", f"/blobs/sha256/{'0' * 64}", Scope.READ),
    ("GET", "/devices", Scope.READ),
    ("GET", "/device-totals", Scope.READ),
    ("GET", f"/devices/{UNKNOWN}", Scope.READ),
    ("GET", "/runs", Scope.READ),
    ("GET", f"/runs/{UNKNOWN}", Scope.READ),
    ("GET", f"/runs/{UNKNOWN}/log", Scope.READ),
    ("GET", f"/runs/{UNKNOWN}/steps", Scope.READ),
    ("GET", f"/runs/{UNKNOWN}/events", Scope.READ),
    ("GET", "/overview", Scope.READ),
    ("GET", "/usage", Scope.READ),
    ("GET", "/events", Scope.READ),
    ("POST", "/uploads", Scope.MODELS_WRITE),
    ("PATCH", f"/uploads/{UNKNOWN}", Scope.MODELS_WRITE),
    ("POST", "/models", Scope.MODELS_WRITE),
    ("POST", "/datasets", Scope.MODELS_WRITE),
    ("GET", "/searches", Scope.READ),
    *(("GET", f"/searches/{UNKNOWN}{rest}", Scope.READ) for rest in ("", "/log", "/events")),
    ("POST", "/searches", Scope.BUILDS_WRITE),
    ("POST", f"/searches/{UNKNOWN}/cancel", Scope.BUILDS_WRITE),
    ("DELETE", f"/searches/{UNKNOWN}", Scope.BUILDS_WRITE),
    ("POST", "/builds", Scope.BUILDS_WRITE),
    ("POST", f"/builds/{UNKNOWN}/cancel", Scope.BUILDS_WRITE),
    ("POST", "/runs", Scope.RUNS_WRITE),
    ("POST", f"/runs/{UNKNOWN}/cancel", Scope.RUNS_WRITE),
    ("DELETE", f"/models/{UNKNOWN}", Scope.MODELS_WRITE),
    ("DELETE", f"/datasets/{UNKNOWN}", Scope.MODELS_WRITE),
    ("DELETE", f"/builds/{UNKNOWN}", Scope.BUILDS_WRITE),
    ("DELETE", f"/runs/{UNKNOWN}", Scope.RUNS_WRITE),
    ("GET", "/schedules", Scope.READ),
    ("GET", f"/schedules/{UNKNOWN}", Scope.READ),
    ("GET", f"/schedules/{UNKNOWN}/times", Scope.READ),
    ("POST", "/schedules", Scope.RUNS_WRITE),
    ("PATCH", f"/schedules/{UNKNOWN}", Scope.RUNS_WRITE),
    ("DELETE", f"/schedules/{UNKNOWN}", Scope.RUNS_WRITE),
    ("GET", "/campaigns", Scope.READ),
    ("GET", f"/campaigns/{UNKNOWN}", Scope.READ),
    ("GET", f"/campaigns/{UNKNOWN}/cells", Scope.READ),
    ("GET", f"/campaigns/{UNKNOWN}/results", Scope.READ),
    ("GET", f"/campaigns/{UNKNOWN}/events", Scope.READ),
    ("POST", "/campaigns", Scope.RUNS_WRITE),
    *(("POST", f"/campaigns/{UNKNOWN}/{verb}", Scope.RUNS_WRITE) for verb in ("pause", "resume", "cancel")),
    ("DELETE", f"/campaigns/{UNKNOWN}", Scope.RUNS_WRITE),
    ("GET", "/benchmarks", Scope.READ),
    ("GET", f"/benchmarks/{UNKNOWN}", Scope.READ),
    ("GET", f"/benchmarks/{UNKNOWN}/compare", Scope.READ),
    ("GET", f"/benchmarks/{UNKNOWN}/events", Scope.READ),
    ("POST", "/benchmarks", Scope.RUNS_WRITE),
    ("POST", f"/benchmarks/{UNKNOWN}/cancel", Scope.RUNS_WRITE),
    ("DELETE", f"/benchmarks/{UNKNOWN}", Scope.RUNS_WRITE),
    ("GET", "/regressions", Scope.READ),
    ("GET", "/webhooks", Scope.READ),
    ("GET", f"/webhooks/{UNKNOWN}", Scope.READ),
    ("GET", f"/webhooks/{UNKNOWN}/deliveries", Scope.READ),
    ("POST", "/webhooks", Scope.DEVICES_ADMIN),
    ("PATCH", f"/webhooks/{UNKNOWN}", Scope.DEVICES_ADMIN),
    ("DELETE", f"/webhooks/{UNKNOWN}", Scope.DEVICES_ADMIN),
    ("GET", "/federations", Scope.READ),
    *(("GET", f"/federations/{UNKNOWN}{rest}", Scope.READ) for rest in ("", "/rounds", "/events")),
    ("POST", "/federations", Scope.RUNS_WRITE),
    ("POST", f"/federations/{UNKNOWN}/cancel", Scope.RUNS_WRITE),
    ("DELETE", f"/federations/{UNKNOWN}", Scope.RUNS_WRITE),
    ("GET", "/recipes", Scope.READ),
    ("GET", f"/recipes/{UNKNOWN}", Scope.READ),
    ("POST", "/recipes", Scope.MODELS_WRITE),
    ("DELETE", f"/recipes/{UNKNOWN}", Scope.MODELS_WRITE),
    *((call, f"/models/{UNKNOWN}/tags/best", Scope.MODELS_WRITE) for call in ("PUT", "DELETE")),
    *((call, f"/datasets/{UNKNOWN}/tags/best", Scope.MODELS_WRITE) for call in ("PUT", "DELETE")),
    *((call, f"/recipes/{UNKNOWN}/tags/best", Scope.MODELS_WRITE) for call in ("PUT", "DELETE")),
    *((call, f"/builds/{UNKNOWN}/tags/best", Scope.BUILDS_WRITE) for call in ("PUT", "DELETE")),
    ("GET", "/rollouts", Scope.READ),
    ("GET", f"/rollouts/{UNKNOWN}", Scope.READ),
    ("GET", f"/rollouts/{UNKNOWN}/devices", Scope.READ),
    ("POST", "/rollouts", Scope.DEVICES_ADMIN),
    *(
        ("POST", f"/rollouts/{UNKNOWN}/{verb}", Scope.DEVICES_ADMIN)
        for verb in ("pause", "resume", "cancel", "roll-back")
    ),
    ("GET", "/agent-releases", Scope.READ),
    ("GET", f"/agent-releases/{UNKNOWN}", Scope.READ),
    ("POST", "/agent-releases", Scope.DEVICES_ADMIN),
    ("DELETE", f"/agent-releases/{UNKNOWN}", Scope.DEVICES_ADMIN),
    ("GET", f"/devices/{UNKNOWN}/policy", Scope.READ),
    ("GET", "/pools/policy", Scope.READ),
    *((call, f"/devices/{UNKNOWN}/policy", Scope.DEVICES_ADMIN) for call in ("PUT", "DELETE")),
    *((call, "/pools/policy", Scope.DEVICES_ADMIN) for call in ("PUT", "DELETE")),
    ("GET", "/tuning", Scope.READ),
    ("GET", "/tuning/jobs", Scope.READ),
    ("GET", f"/tuning/jobs/{UNKNOWN}", Scope.READ),
    ("GET", "/tuning/devices", Scope.READ),
    ("POST", f"/tuning/jobs/{UNKNOWN}/cancel", Scope.BUILDS_WRITE),
    ("POST", "/tuning", Scope.DEVICES_ADMIN),
    ("DELETE", f"/tuning/devices/{UNKNOWN}", Scope.DEVICES_ADMIN),
    ("POST", "/enrollment-tokens", Scope.DEVICES_ADMIN),
    ("PATCH", f"/devices/{UNKNOWN}", Scope.DEVICES_ADMIN),
    ("DELETE", f"/devices/{UNKNOWN}", Scope.DEVICES_ADMIN),
    ("POST", "/api-keys", Scope.KEYS_ADMIN),
    ("GET", "/api-keys", Scope.KEYS_ADMIN),
    ("DELETE", f"/api-keys/{UNKNOWN}", Scope.KEYS_ADMIN),
    ("GET", "/members", Scope.KEYS_ADMIN),
    ("POST", "/members", Scope.KEYS_ADMIN),
    ("GET", f"/members/{UNKNOWN}", Scope.KEYS_ADMIN),
    ("PATCH", f"/members/{UNKNOWN}", Scope.KEYS_ADMIN),
    ("GET", "/sessions", Scope.KEYS_ADMIN),
    ("DELETE", f"/sessions/{UNKNOWN}", Scope.KEYS_ADMIN),
    ("GET", "/audit", Scope.AUDIT_READ),
    ("GET", "/audit/export", Scope.AUDIT_READ),
]
ANYONE = [
    ("GET", "/me"),
    ("GET", "/me/api-keys"),
    ("DELETE", "/me/api-keys/{}"),
    ("GET", "/me/sessions"),
    ("DELETE", "/me/sessions/{}"),
    ("POST", "/session"),
    ("DELETE", "/session"),
]
"""Calls about oneself: they need a credential, and no scope."""


@pytest.mark.parametrize("method,path,scope", CALLS, ids=lambda value: str(value)[:40])
def test_each_call_needs_its_scope(shared: Server, method: str, path: str, scope: Scope) -> None:
    options = {"headers": {"Upload-Offset": "0"}} if method == "PATCH" else {}
    others = [other for other in Scope if other is not scope]
    assert_problem(shared.person(*others).call(method, path, **options), 403, 1004)
    assert shared.person(scope).call(method, path, **options).status_code not in (401, 403)


def test_the_document_declares_the_scopes_of_this_table(server: Server) -> None:
    table: dict[tuple[str, str], list[str]] = {call: [] for call in ANYONE}
    table |= {(method, re.sub(f"{UNKNOWN}|0{{64}}|best$", "{}", path)): [str(scope)] for method, path, scope in CALLS}
    for path, operations in server.client.get("/openapi.json").json()["paths"].items():
        for method, operation in operations.items():
            schemes = [entry["apiKey"] for entry in operation.get("security", []) if "apiKey" in entry]
            if schemes and method != "head":
                plain = re.sub(r"\{\w+\}", "{}", path.removeprefix("/v1"))
                assert table[method.upper(), plain] == [scope for scopes in schemes for scope in scopes], path


def test_uploads_may_be_probed_with_either_scope(server: Server, person: Person) -> None:
    digest = person.upload(b"bytes")
    for scope in (Scope.READ, Scope.MODELS_WRITE):
        assert server.person(scope).call("HEAD", f"/blobs/sha256/{digest}").status_code == 200
    assert server.person(Scope.RUNS_WRITE).call("HEAD", f"/blobs/sha256/{digest}").status_code == 403
