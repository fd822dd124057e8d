"""Members and their roles: what each may do, and that nobody gets or gives more than that."""

import json
import threading
from itertools import pairwise, product
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from pock_server.auth.roles import SCOPES_OF, Role
from pock_server.auth.schemas import Scope
from pock_server.cli import app as command_line
from pock_server.migrations.runner import downgrade, upgrade
from tests.server.access.test_keys import ANYONE, CALLS, UNKNOWN
from tests.server.harness import Browser, Person, Server, assert_problem
from tests.sweeps import some

PEOPLE = [(method, path, frozenset({scope})) for method, path, scope in CALLS]
PEOPLE += [(method, path.replace("{}", UNKNOWN), frozenset(Scope)) for method, path in ANYONE if path != "/session"]
AGENTS = [("POST", "/heartbeat"), ("GET", "/work"), ("POST", f"/runs/{UNKNOWN}/lease")]
BEFORE = "0007"
"""The revision before members."""


@pytest.fixture(scope="module")
def credentials(shared: Server) -> dict[tuple[Role, str], Person | Browser]:
    """A key and a signed-in browser of each role."""
    found: dict[tuple[Role, str], Person | Browser] = {}
    for role in Role:
        person = shared.member(role, f"the {role}")
        found[role, "key"], found[role, "cookie"] = person, shared.browser(person)
    return found


@pytest.mark.parametrize("role, kind", some(product(Role, ("key", "cookie")), 3))
def test_each_role_may_do_what_its_scopes_say(
    credentials: dict[tuple[Role, str], Person | Browser], role: Role, kind: str
) -> None:
    holder = credentials[role, kind]
    for method, path, any_of in PEOPLE:
        options = {"headers": {"Upload-Offset": "0"}} if method == "PATCH" else {}
        status = holder.call(method, path, **options).status_code
        assert (status not in (401, 403)) == bool(any_of & SCOPES_OF[role]), (method, path, status)
    for method, path in AGENTS:
        assert_problem(holder.call(method, f"/agent{path}"), 401, 1001)


def test_each_role_can_do_what_the_one_before_can() -> None:
    roles = list(Role)
    for lower, higher in pairwise(roles):
        assert SCOPES_OF[lower] < SCOPES_OF[higher]
    assert SCOPES_OF[Role.ADMIN] == frozenset(Scope)


@pytest.mark.in_process("knows the moment, by a clock that stands still")
def test_me_says_who_i_am(server: Server) -> None:
    me = server.member(Role.DEVELOPER, "alice").get("/me").json()
    assert me["name"] == me["member"]["name"] == "alice" and me["member"]["role"] == "developer"
    assert me["workspace"]["name"] == "default" and me["key"]["name"] == "key of alice"
    assert set(me["scopes"]) == SCOPES_OF[Role.DEVELOPER]
    assert me["expires_at"].startswith("2030-01-31") and me["session_id"] is None
    plain = server.person(Scope.READ).get("/me").json()
    assert plain["member"] is None and plain["name"] == "test" and plain["scopes"] == ["read"]


def change(admin: Person, path: str, body: dict[str, Any]) -> Any:
    return admin.call("PATCH", path, json=body)


def member_id(person: Person) -> str:
    return str(person.get("/me").json()["member"]["id"])


def test_demoted_members_keys_lose_power_at_once_and_promoted_ones_gain_none(server: Server) -> None:
    admin, bob = server.member(Role.ADMIN), server.member(Role.OPERATOR, "bob")
    assert bob.post("/enrollment-tokens", {}).status_code == 201
    change(admin, f"/members/{member_id(bob)}", {"role": "viewer"})
    assert_problem(bob.post("/enrollment-tokens", {}), 403, 1004)
    assert bob.get("/models").status_code == 200
    change(admin, f"/members/{member_id(bob)}", {"role": "admin"})
    assert bob.post("/enrollment-tokens", {}).status_code == 201
    assert_problem(bob.get("/members"), 403, 1004)


def test_disabled_members_keys_and_sessions_open_nothing(server: Server) -> None:
    admin, bob = server.member(Role.ADMIN), server.member(Role.DEVELOPER, "bob")
    browser, bobs_id = server.browser(bob), member_id(bob)
    assert change(admin, f"/members/{bobs_id}", {"disabled": True}).json()["disabled_at"]
    assert_problem(bob.get("/me"), 401, 1026)
    assert_problem(browser.get("/me"), 401, 1023)
    assert_problem(bob.post("/session"), 401, 1026)
    assert admin.get(f"/members/{bobs_id}").json()["disabled_at"]
    change(admin, f"/members/{bobs_id}", {"disabled": False})
    assert bob.get("/me").status_code == 200
    assert_problem(browser.get("/me"), 401, 1023)


def test_nobody_grants_or_takes_more_than_they_can(server: Server) -> None:
    boss, bob = server.member(Role.ADMIN, "boss"), server.member(Role.VIEWER, "bob")
    weak = server.person(Scope.KEYS_ADMIN, Scope.READ)
    for role in ("developer", "operator", "admin"):
        assert_problem(weak.post("/members", {"name": "x", "role": role}), 403, 1004)
        assert_problem(change(weak, f"/members/{member_id(bob)}", {"role": role}), 403, 1004)
    for wish in ({"role": "viewer"}, {"disabled": True}, {"name": "x"}):
        assert_problem(change(weak, f"/members/{member_id(boss)}", wish), 403, 1004)
    assert weak.post("/members", {"name": "x", "role": "viewer"}).status_code == 201
    assert change(weak, f"/members/{member_id(bob)}", {"disabled": True}).status_code == 200
    order = {"name": "k", "member_id": member_id(boss), "scopes": ["devices:admin"]}
    assert_problem(weak.post("/api-keys", order), 403, 1004)
    assert_problem(boss.post("/api-keys", {**order, "member_id": member_id_of(boss, "bob")}), 403, 1004)
    assert_problem(boss.post("/api-keys", {**order, "member_id": UNKNOWN}), 404, 1005)
    assert boss.post("/api-keys", order).json()["member_name"] == "boss"


def member_id_of(admin: Person, name: str) -> str:
    return str(next(row["id"] for row in admin.get("/members").json()["items"] if row["name"] == name))


def test_workspaces_do_not_see_each_others_members(server: Server) -> None:
    ours, theirs = server.member(Role.ADMIN), server.member(Role.ADMIN, "bob", workspace="other")
    assert_problem(ours.get(f"/members/{member_id(theirs)}"), 404, 1005)
    assert_problem(change(ours, f"/members/{member_id(theirs)}", {"disabled": True}), 404, 1005)
    order = {"name": "k", "member_id": member_id(theirs), "scopes": ["read"]}
    assert_problem(ours.post("/api-keys", order), 404, 1005)
    assert [row["name"] for row in ours.get("/members").json()["items"]] == ["alice"]


def test_names_are_taken_once_in_a_workspace(server: Server) -> None:
    admin = server.member(Role.ADMIN)
    assert_problem(admin.post("/members", {"name": "alice", "role": "viewer"}), 409, 1014)
    bob = admin.post("/members", {"name": "bob", "role": "viewer"}).json()
    assert_problem(change(admin, f"/members/{bob['id']}", {"name": "alice"}), 409, 1014)
    assert change(admin, f"/members/{bob['id']}", {"name": "bob", "email": "b@x"}).json()["email"] == "b@x"
    server.member(Role.ADMIN, workspace="other")


def test_last_admin_stays(server: Server) -> None:
    admin = server.member(Role.ADMIN)
    for wish in ({"role": "operator"}, {"disabled": True}, {"role": "viewer", "disabled": True}):
        assert_problem(change(admin, f"/members/{member_id(admin)}", wish), 409, 1014)
    second = admin.post("/members", {"name": "bob", "role": "admin"}).json()
    assert change(admin, f"/members/{second['id']}", {"disabled": True}).status_code == 200
    assert_problem(change(admin, f"/members/{member_id(admin)}", {"role": "viewer"}), 409, 1014)
    change(admin, f"/members/{second['id']}", {"disabled": False})
    assert change(admin, f"/members/{member_id(admin)}", {"role": "viewer"}).status_code == 200


def at_once(*actions: Any) -> list[Any]:
    """The answers to requests that are sent at the same moment."""
    barrier, answers = threading.Barrier(len(actions)), [None] * len(actions)

    def act(number: int) -> None:
        barrier.wait()
        answers[number] = actions[number]()

    threads = [threading.Thread(target=act, args=(number,)) for number in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_admins_who_demote_each_other_at_once_leave_one(server: Server) -> None:
    first, second = server.member(Role.ADMIN), server.member(Role.ADMIN, "bob")
    ids = [member_id(first), member_id(second)]
    for _ in range(5):
        answers = at_once(
            lambda: change(first, f"/members/{ids[1]}", {"role": "viewer"}),
            lambda: change(second, f"/members/{ids[0]}", {"role": "viewer"}),
        )
        # The slower one comes as a viewer already, or finds the last admin.
        assert sorted(answer.status_code for answer in answers)[0] == 200
        assert {answer.status_code for answer in answers} <= {200, 403, 409}
        with server.services.database.read() as session:
            admins = session.execute(text("SELECT name FROM members WHERE role = 'admin'")).scalars().all()
        assert len(admins) == 1
        with server.services.database.write() as unit:
            unit.session.execute(text("UPDATE members SET role = 'admin'"))


def test_one_name_asked_for_at_once_is_given_once(server: Server) -> None:
    admin = server.member(Role.ADMIN)
    answers = at_once(*[lambda: admin.post("/members", {"name": "bob", "role": "viewer"})] * 4)
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]


def test_key_of_a_member_who_is_being_disabled_does_not_survive(server: Server) -> None:
    """Whatever comes first, afterwards the member's keys and sessions open nothing."""
    admin = server.member(Role.ADMIN)
    bob = server.member(Role.DEVELOPER, "bob")
    bobs_id, browsers = member_id(bob), [server.browser(bob) for _ in range(2)]
    made = at_once(
        lambda: change(admin, f"/members/{bobs_id}", {"disabled": True}),
        lambda: admin.post("/api-keys", {"name": "late", "member_id": bobs_id, "scopes": ["read"]}),
        lambda: bob.post("/session"),
        lambda: browsers[0].get("/me"),
    )
    assert made[0].status_code == 200
    assert made[1].status_code == 201
    for person in (bob, Person(server.client, made[1].json()["key"])):
        assert_problem(person.get("/me"), 401, 1026)
    for browser in browsers:
        assert browser.get("/me").status_code == 401


def test_everybody_lists_and_revokes_their_own_keys(server: Server) -> None:
    bob, eve = server.member(Role.VIEWER, "bob"), server.member(Role.VIEWER, "eve")
    mine = bob.get("/me/api-keys").json()["items"]
    assert [row["name"] for row in mine] == ["key of bob"]
    assert_problem(eve.call("DELETE", f"/me/api-keys/{mine[0]['id']}"), 404, 1005)
    assert bob.call("DELETE", f"/me/api-keys/{mine[0]['id']}").status_code == 204
    assert_problem(bob.get("/me"), 401, 1003)
    plain = server.person(Scope.READ)
    assert len(plain.get("/me/api-keys").json()["items"]) == 1


@pytest.mark.parametrize("email", ["nonsense", "a b@x", "a@b@c", "a\u0000@x", "@", "a@" + "b" * 260])
def test_emails_that_are_none_are_refused(shared: Server, reader: Person, email: str) -> None:
    assert_problem(reader.post("/members", {"name": "x", "role": "viewer", "email": email}), 422, 1006)


def test_keys_of_before_there_were_members_keep_their_scopes_and_get_no_more_when_that_is_undone(
    server: Server,
) -> None:
    """Down to the schema without members and up again."""
    plain, bob = server.person(), server.member(Role.ADMIN, "bob")
    gone = server.member(Role.DEVELOPER, "gone")
    change(bob, f"/members/{member_id(gone)}", {"disabled": True})
    server.member(Role.ADMIN, "eve")
    change(bob, f"/members/{member_id(bob)}", {"role": "viewer"})
    engine = server.services.database.engine
    downgrade(engine, BEFORE)
    with engine.connect() as connection:
        keys = connection.execute(text("SELECT id, scopes, revoked_at FROM api_keys")).all()
    found = {row.id: row for row in keys}
    assert "audit:read" not in str(keys)  # a scope that the service of then does not know
    assert found[key_id(bob)].scopes in ('["read"]', ["read"]) and found[key_id(bob)].revoked_at is None
    assert found[key_id(gone)].revoked_at is not None
    upgrade(engine)
    assert set(plain.get("/me").json()["scopes"]) == set(Scope) - {Scope.AUDIT_READ}
    assert bob.get("/me").json()["scopes"] == ["read"] and bob.get("/me").json()["member"] is None


def key_id(person: Person) -> str:
    return str(UUID(person.key.split("_")[1]))


def test_command_line_shows_and_changes_members(server: Server) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner(env=server.environment).invoke(command_line, arguments)
        assert result.exit_code == 0, result.output
        return result.output

    made = json.loads(run("create-key", "--member", "alice", "--role", "admin", "--json"))
    alice = Person(server.client, made["key"])
    assert made["member_name"] == "alice" and set(made["scopes"]) == set(Scope)
    assert alice.get("/me").json()["member"]["role"] == "admin"
    again = json.loads(run("create-key", "--member", "alice", "--scopes", "read", "--json"))
    assert again["member_id"] == made["member_id"] and again["scopes"] == ["read"]
    assert (
        json.loads(run("members", "add", "bob", "--role", "viewer", "--email", "bob@x", "--json"))["email"] == "bob@x"
    )
    assert run("members", "list").split() == ["admin", "alice", "viewer", "bob", "<bob@x>"]
    run("members", "change", "bob", "--role", "operator", "--new-name", "robert")
    run("members", "disable", "robert")
    items = json.loads(run("members", "list", "--json"))["items"]
    assert [(row["name"], row["role"], row["disabled_at"] is None) for row in items] == [
        ("alice", "admin", True),
        ("robert", "operator", False),
    ]
    run("members", "enable", "robert")
    assert json.loads(run("members", "list", "--workspace", "elsewhere", "--json")) == {"items": []}
