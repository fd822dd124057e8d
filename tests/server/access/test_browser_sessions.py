"""A browser signs in with a key once: what its cookie opens, from where, and for how long."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import inspect

from pock_server.actor import Source
from pock_server.auth.requests import by_key
from pock_server.auth.roles import Role
from pock_server.events.stream import Subject, stream
from pock_server.runner.sweeper import sweep_all
from pock_server.sessions.tables import BrowserSessionRecord
from tests.server.conftest import ServerFactory
from tests.server.harness import Browser, Person, Server, assert_problem

HOUR = 3600
UNKNOWN = "018f0000-0000-7000-8000-000000000000"


def sign_in(server: Server, person: Person, base_url: str = "http://testserver", **headers: str) -> Any:
    client = TestClient(server.client.app, base_url)
    return client.post("/v1/session", headers={"Authorization": f"Bearer {person.key}", **headers})


def test_new_tab_is_signed_in_and_scripts_cannot_read_the_cookie(server: Server, person: Person) -> None:
    answer = sign_in(server, person)
    cookie = answer.headers["set-cookie"]
    assert re.fullmatch(
        r"pock_session=pb_[0-9a-f]{32}_[0-9a-f]{64}; HttpOnly; Max-Age=604800; Path=/; SameSite=strict", cookie
    )
    assert "pb_" not in answer.text
    browser = server.browser(person)
    me = browser.get("/me").json()
    assert me["session_id"] and me["name"] == "test" and me["expires_at"] < person.get("/me").json()["expires_at"]
    assert browser.get("/models").status_code == 200
    assert browser.post("/enrollment-tokens", {}).status_code == 201


@pytest.mark.parametrize(
    "changes,base_url",
    [({}, "https://pock.example"), ({"public_url": "https://pock.example"}, "http://10.0.0.1:8080")],
    ids=["asked for by https", "behind a proxy that speaks https"],
)
def test_cookie_is_bound_to_https_and_host(start_server: ServerFactory, changes: dict[str, Any], base_url: str) -> None:
    server = start_server(**changes)
    cookie = sign_in(server, server.person(), base_url).headers["set-cookie"]
    assert cookie.startswith("__Host-pock_session=pb_") and "; Secure" in cookie
    assert "Domain" not in cookie and "; Path=/;" in cookie
    token = cookie.split("=", 1)[1].split(";")[0]
    client = TestClient(server.client.app, base_url)
    # A sibling domain, or a page without TLS, could have planted a cookie of the other name.
    assert_problem(client.get("/v1/me", headers={"Cookie": f"pock_session={token}"}), 401, 1001)
    assert client.get("/v1/me", headers={"Cookie": f"__Host-pock_session={token}"}).status_code == 200


SAME = "http://testserver"
PROOFS = [
    ({"Origin": SAME, "Sec-Fetch-Site": "same-origin"}, True),
    ({"Origin": SAME}, True),
    ({"Sec-Fetch-Site": "same-origin"}, True),
    ({}, False),
    ({"Sec-Fetch-Site": "none"}, False),
    ({"Sec-Fetch-Site": "same-site"}, False),
    ({"Sec-Fetch-Site": "cross-site"}, False),
    ({"Origin": SAME, "Sec-Fetch-Site": "same-site"}, False),
    ({"Origin": "null"}, False),
    ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, False),
    ({"Origin": "https://testserver"}, False),
    ({"Origin": "http://testserver:8080"}, False),
    ({"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, False),
    ({"Origin": "http://testserver.evil.example"}, False),
    ({"Origin": SAME, "Sec-Fetch-Site": ""}, False),
    ({"Referer": f"{SAME}/"}, False),
]


@pytest.mark.parametrize("headers,good", PROOFS, ids=lambda value: str(value)[:60])
def test_changes_by_cookie_come_from_our_own_page(shared: Server, headers: dict[str, str], good: bool) -> None:
    client = shared.browser(shared.person()).client
    for send in (
        lambda: client.post("/v1/enrollment-tokens", json={}, headers=headers),
        # Idempotent requests are authenticated before they are routed.
        lambda: client.post("/v1/models", json={}, headers={**headers, "Idempotency-Key": "k"}),
        lambda: client.patch(f"/v1/uploads/{UNKNOWN}", content=b"", headers={**headers, "Upload-Offset": "0"}),
        lambda: client.delete(f"/v1/devices/{UNKNOWN}", headers=headers),
        lambda: client.delete("/v1/session", headers=headers),
    ):
        answer = send()
        assert (answer.status_code != 403) == good, answer.text
        if not good:
            assert_problem(answer, 403, 1027)
    assert client.get("/v1/devices", headers=headers).status_code == (401 if good else 200)  # good ones signed out


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"])
def test_forms_of_other_sites_change_nothing(shared: Server, kind: str) -> None:
    """What a page elsewhere can send without asking first, if a browser sent the cookie along in spite of SameSite."""
    client = shared.browser(shared.person()).client
    headers = {"Content-Type": kind, "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert_problem(client.post("/v1/enrollment-tokens", content=b"{}", headers=headers), 403, 1027)


def test_public_url_decides_what_our_own_page_is(start_server: ServerFactory) -> None:
    server = start_server(public_url="https://Pock.Example/")
    person = server.person()
    client = TestClient(server.client.app, "http://10.0.0.1:8080")
    token = sign_in(server, person, "http://10.0.0.1:8080").headers["set-cookie"].split("=", 1)[1].split(";")[0]
    for origin, status in (("https://pock.example", 201), ("http://10.0.0.1:8080", 403), ("http://pock.example", 403)):
        headers = {"Cookie": f"__Host-pock_session={token}", "Origin": origin}
        answer = client.post("/v1/enrollment-tokens", json={}, headers=headers)
        assert answer.status_code == status
        if status == 403:
            assert "POCK_PUBLIC_URL" in answer.json()["detail"]


@pytest.mark.parametrize(
    "method,path", [("GET", "/work"), ("POST", "/heartbeat"), ("PUT", f"/blobs/sha256/{'0' * 64}")]
)
def test_cookie_never_opens_the_calls_of_devices(shared: Server, method: str, path: str) -> None:
    browser = shared.browser(shared.person())
    token = next(iter(browser.client.cookies.values()))
    assert_problem(browser.call(method, f"/agent{path}"), 401, 1001)
    for path_of_people in (f"/agent{path}", "/me"):
        answer = browser.call(method, path_of_people, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code in (401, 405)


def test_wrong_key_is_never_overlooked_in_favour_of_the_cookie(shared: Server) -> None:
    browser = shared.browser(shared.person())
    for header in ("Bearer pk_wrong", "Bearer", "", "Basic abc"):
        assert_problem(browser.call("GET", "/me", headers={"Authorization": header}), 401, 1001)


@pytest.mark.parametrize(
    "text", ["", "pb_", "nonsense", "pk_" + "0" * 32 + "_" + "0" * 64, "pb_" + "0" * 32 + "_" + "0" * 64]
)
def test_cookies_that_are_none_of_ours_open_nothing(shared: Server, text: str) -> None:
    answer = shared.client.get("/v1/me", headers={"Cookie": f"pock_session={text}"})
    assert_problem(answer, 401, 1023)


def test_session_ends_when_it_is_unused_and_when_it_is_old(start_server: ServerFactory) -> None:
    server = start_server(browser_session_seconds=10 * HOUR, browser_idle_seconds=2 * HOUR)
    busy, idle = server.browser(server.person()), server.browser(server.person())
    for _ in range(9):
        server.clock.advance(HOUR)
        assert busy.get("/me").status_code == 200
    assert_problem(idle.get("/me"), 401, 1023)
    server.clock.advance(HOUR)
    assert_problem(busy.get("/me"), 401, 1023)
    sweep_all(server.services)
    with server.services.database.read() as session:
        assert session.query(BrowserSessionRecord).count() == 0


def test_session_dies_with_its_key(server: Server) -> None:
    admin, short = server.person(), server.person(ttl_days=1)
    browser, other = server.browser(short), server.browser(admin)
    assert browser.get("/me").json()["expires_at"] == short.get("/me").json()["expires_at"]
    server.clock.advance(24 * HOUR)
    assert_problem(browser.get("/me"), 401, 1023)
    made = admin.post("/api-keys", {"name": "x", "scopes": ["read"]}).json()
    revoked = server.browser(Person(server.client, made["key"]))
    admin.call("DELETE", f"/api-keys/{made['id']}")
    assert_problem(revoked.get("/me"), 401, 1023)
    assert_problem(other.get("/me"), 401, 1023)  # unused for a day


def test_session_opened_while_its_key_is_revoked_opens_nothing(server: Server) -> None:
    """The sign-in has read the key; the revocation commits; then the session is written."""
    admin = server.person()
    made = admin.post("/api-keys", {"name": "x", "scopes": ["read"]}).json()
    browser = server.browser(Person(server.client, made["key"]))
    with server.services.database.write() as unit:
        row = unit.session.query(BrowserSessionRecord).one()
        kept = {column.key: getattr(row, column.key) for column in inspect(BrowserSessionRecord).column_attrs}
    admin.call("DELETE", f"/api-keys/{made['id']}")
    with server.services.database.write() as unit:
        unit.session.add(BrowserSessionRecord(**kept))
    assert_problem(browser.get("/me"), 401, 1003)


def test_signing_out_ends_the_session_and_takes_the_cookie(server: Server, person: Person) -> None:
    browser = server.browser(person)
    kept = browser.client.cookies.get("pock_session")
    answer = browser.call("DELETE", "/session")
    assert answer.status_code == 204 and "Max-Age=0" in answer.headers["set-cookie"]
    assert_problem(browser.get("/me"), 401, 1001)
    assert_problem(server.client.get("/v1/me", headers={"Cookie": f"pock_session={kept}"}), 401, 1023)
    assert_problem(person.call("DELETE", "/session"), 409, 1014)


def test_session_cannot_open_another(server: Server, person: Person) -> None:
    assert_problem(server.browser(person).post("/session"), 409, 1014)


def test_sessions_are_listed_and_ended_by_their_owner_and_by_admins(server: Server) -> None:
    admin, bob, eve = (server.member(role, str(role)) for role in (Role.ADMIN, Role.VIEWER, Role.DEVELOPER))
    browser = server.browser(bob)
    (mine,) = bob.get("/me/sessions").json()["items"]
    assert mine["name"] == "viewer" and mine["user_agent"] == "testclient" and mine["address"] == "127.0.0.1"
    assert eve.get("/me/sessions").json()["items"] == []
    assert_problem(eve.call("DELETE", f"/me/sessions/{mine['id']}"), 404, 1005)
    assert [row["id"] for row in admin.get("/sessions").json()["items"]] == [mine["id"]]
    stranger = server.member(Role.ADMIN, workspace="other")
    assert_problem(stranger.call("DELETE", f"/sessions/{mine['id']}"), 404, 1005)
    assert admin.call("DELETE", f"/sessions/{mine['id']}").status_code == 204
    assert_problem(browser.get("/me"), 401, 1023)
    second = server.browser(bob)
    assert second.call("DELETE", f"/me/sessions/{second.get('/me').json()['session_id']}").status_code == 204
    assert_problem(second.get("/me"), 401, 1023)


def test_secret_of_a_session_is_stored_as_a_hash_only(server: Server, person: Person) -> None:
    secret = server.browser(person).client.cookies["pock_session"].rsplit("_", 1)[1]
    with server.services.database.read() as session:
        (row,) = session.query(BrowserSessionRecord).all()
    assert secret not in str(vars(row)) and len(row.secret_hash) == 64


def test_streams_come_by_cookie(server: Server, person: Person) -> None:
    build = server.built(person)
    answer = server.browser(person).get(f"/builds/{build['id']}/events", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 200 and "event: state" in answer.text


def sign_out(server: Server, browser: Browser, person: Person) -> None:
    browser.call("DELETE", "/session")


def revoke(server: Server, browser: Browser, person: Person) -> None:
    key_id = person.get("/me").json()["key"]["id"]
    server.person().call("DELETE", f"/api-keys/{key_id}")


def disable(server: Server, browser: Browser, person: Person) -> None:
    member_id = person.get("/me").json()["member"]["id"]
    assert server.person().call("PATCH", f"/members/{member_id}", json={"disabled": True}).status_code == 200


@pytest.mark.parametrize("end", [sign_out, revoke, disable], ids=lambda end: end.__name__)
def test_streams_end_with_the_session(
    server: Server, monkeypatch: pytest.MonkeyPatch, end: Callable[[Server, Browser, Person], None]
) -> None:
    """The build is queued for ever: only the end of the session ends its stream."""
    monkeypatch.setattr("pock_server.events.stream.CHECK_SECONDS", 0.0)
    person = server.member(Role.DEVELOPER)
    browser, build = server.browser(person), person.build().json()
    caller = by_key(server.services, person.key, Source())
    caller = replace(caller, actor=replace(caller.actor, session_id=browser.get("/me").json()["session_id"]))
    subject = Subject(caller, caller.workspace_id, build["id"], f"build:{build['id']}", frozenset({"succeeded"}))

    async def follow() -> list[str]:
        events = []
        async for event in stream(server.services, subject, 0):
            events.append(str(event.event))
            await asyncio.to_thread(end, server, browser, person)
        return events

    assert asyncio.run(asyncio.wait_for(follow(), 30)) == ["state"]
