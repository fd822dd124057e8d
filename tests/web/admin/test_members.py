"""Admin, of people: members, API keys, browser sessions, what one's own key may do."""

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from pock_server.auth.roles import SCOPES_OF, Role
from pock_server.auth.schemas import Scope
from tests.web.data import Data
from tests.web.screens import screens
from tests.web.service import Service
from tests.web.visitor import Visitor

HOSTILE = "<img src=x onerror=alert(1)>"
PARTS = {"access": "Your access", "members": "Members", "keys": "API keys", "sessions": "Sessions"}


def address(part: str) -> str:
    return "/admin" if part == "access" else f"/admin/{part}"


def add_member(service: Service, name: str, role: str = "developer", email: str | None = None) -> dict[str, Any]:
    row: dict[str, Any] = service.post("/members", {"name": name, "role": role, "email": email})
    return row


def sign_in_with(visitor: Visitor, service: Service, *scopes: str, member_id: str | None = None) -> dict[str, Any]:
    """Sign in with a new key that has only these scopes; the key."""
    order = {"name": "of a test", "scopes": scopes, "ttl_days": 1, "member_id": member_id}
    key: dict[str, Any] = service.post("/api-keys", order)
    visitor.page.goto(f"{service.url}/#key={key['key']}&next=/admin")
    visitor.heading("Your access")
    return key


@pytest.fixture(scope="module")
def people(service: Service) -> None:
    """Members and keys as a workspace has them."""
    for name, role in (("Alice Example", "admin"), ("Bob Example", "operator"), ("nightly-builds", "developer")):
        member = add_member(service, name, role, f"{name.split()[0].lower()}@example.org")
        scopes = sorted(SCOPES_OF[Role(role)])
        service.post("/api-keys", {"name": f"{name}, laptop", "scopes": scopes, "member_id": member["id"]})
    gone = service.post("/api-keys", {"name": "an old laptop", "scopes": ["read"], "ttl_days": 3})
    service.client.delete(f"/api-keys/{gone['id']}")
    left = add_member(service, "Carol Example", "viewer")
    service.client.patch(f"/members/{left['id']}", json={"disabled": True})


@screens
def test_the_parts_are_accessible_and_fit(
    visitor: Visitor, data: Data, people: None, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    for part, heading in PARTS.items():
        visitor.open(address(part), heading)
        expect(visitor.page.locator(".loading")).to_have_count(0)
        expect(visitor.page.get_by_role("navigation", name="Admin").locator("[aria-current]")).to_have_text(heading)
        visitor.screenshot(f"admin-{part}-{screen}")
        assert not visitor.is_wider_than_the_screen(), part
        if screen in ("light", "dark"):
            assert visitor.accessibility_violations(["color-contrast"] if screen == "dark" else None) == [], part


def test_a_key_is_made_shown_once_and_revoked(visitor: Visitor, service: Service) -> None:
    page = visitor.page
    visitor.sign_in()
    visitor.open("/admin/keys", "API keys")
    form = visitor.section("Make a key")
    form.get_by_label("Name, which").fill("ci of the firmware")
    form.get_by_label("runs:write").check()
    form.get_by_label("Days until it ends").fill("7")
    form.get_by_role("button", name="Make the key").click()
    shown = page.get_by_role("group", name="The new key")
    expect(shown).to_contain_text("This is the only time that the key is shown.")
    key = shown.get_by_label("The key", exact=True).inner_text()
    shown.get_by_role("button", name="Copy the key").click()
    expect(shown.get_by_role("status")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == key
    visitor.screenshot("admin-key-made")
    assert visitor.accessibility_violations() == []
    with httpx.Client(base_url=f"{service.url}/v1", headers={"Authorization": f"Bearer {key}"}) as client:
        assert client.get("/me").json()["scopes"] == ["read", "runs:write"]
        row = visitor.section("All keys").get_by_role("row").filter(has_text="ci of the firmware")
        expect(row).to_contain_text("in 7 days")
        shown.get_by_role("button", name="I have kept it").click()
        expect(page.get_by_text(key)).to_have_count(0)
        row.get_by_role("button", name="Revoke the key").click()
        dialog = page.get_by_role("dialog", name="Revoke the key ci of the firmware?")
        dialog.get_by_role("button", name="Keep").click()
        assert client.get("/me").is_success
        row.get_by_role("button", name="Revoke the key").click()
        dialog.get_by_role("button", name="Revoke", exact=True).click()
        expect(row).to_contain_text("revoked")
        expect(row.get_by_role("button")).to_have_count(0)
        assert client.get("/me").status_code == 401


def test_a_key_ends_after_ninety_days_at_most(visitor: Visitor, service: Service) -> None:
    visitor.sign_in()
    visitor.open("/admin/keys", "API keys")
    form = visitor.section("Make a key")
    form.get_by_label("Name, which").fill("too long")
    form.get_by_label("Days until it ends").fill("91")
    form.get_by_role("button", name="Make the key").click()
    assert not form.get_by_label("Days until it ends").evaluate("field => field.validity.valid")
    form.get_by_label("Days until it ends").fill("90")
    form.locator("input[name=read]").uncheck()
    expect(form.get_by_role("button", name="Make the key")).to_be_disabled()
    expect(form).to_contain_text("Choose at least one scope.")
    assert all(key["name"] != "too long" for key in service.get("/api-keys")["items"])


@pytest.mark.parametrize("role", Role)
def test_a_members_key_may_have_what_the_servers_table_of_roles_says(
    visitor: Visitor, service: Service, role: Role
) -> None:
    member = add_member(service, f"chosen {role}", role)
    visitor.sign_in()
    visitor.open(f"/admin/keys?member={member['id']}", "API keys")
    form = visitor.section("Make a key")
    expect(form.get_by_label("Whose key it is")).to_have_value(member["id"])
    boxes = form.get_by_role("checkbox")
    expect(boxes).to_have_count(len(Scope))
    open_to_it = {box.get_attribute("name") for box in boxes.all() if box.is_enabled()}
    assert open_to_it == set(map(str, SCOPES_OF[role]))
    if role is Role.VIEWER:
        expect(form).to_contain_text("chosen viewer is viewer, which lacks it.")


def test_members_are_added_changed_disabled_and_let_in(visitor: Visitor, service: Service) -> None:
    page = visitor.page
    visitor.sign_in()
    visitor.open("/admin/members", "Members")
    form = visitor.section("Add a member")
    form.get_by_label("Name of the person").fill("Dora Example")
    form.get_by_label("E-mail").fill("no address")
    form.get_by_role("button", name="Add the member").click()
    expect(form.get_by_role("alert")).to_contain_text("email")
    form.get_by_label("E-mail").fill("dora@example.org")
    form.get_by_label("Role").select_option("operator")
    form.get_by_role("button", name="Add the member").click()
    expect(form.get_by_role("alert")).to_have_count(0)
    expect(form.locator("p[role=status]")).to_contain_text("Dora Example is a member.")
    row = visitor.section("All members").get_by_role("row").filter(has_text="dora@example.org")
    expect(row).to_contain_text("operator")
    (member,) = [one for one in service.get("/members")["items"] if one["name"] == "Dora Example"]
    key = service.post("/api-keys", {"name": "hers", "scopes": ["read"], "member_id": member["id"]})
    row.get_by_role("button", name="Change Dora Example").click()
    dialog = page.get_by_role("dialog", name="Change Dora Example")
    visitor.screenshot("admin-member-change")
    assert visitor.accessibility_violations() == []
    dialog.get_by_label("Role").select_option("viewer")
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("viewer")
    row.get_by_role("button", name="Disable Dora Example").click()
    page.get_by_role("dialog").get_by_role("button", name="Disable", exact=True).click()
    expect(row).to_contain_text("disabled")
    refused = service.client.get("/me", headers={"Authorization": f"Bearer {key['key']}"})
    assert refused.status_code == 401
    row.get_by_role("button", name="Let in Dora Example").click()
    page.get_by_role("dialog").get_by_role("button", name="Let in", exact=True).click()
    expect(row).not_to_contain_text("disabled")
    assert service.client.get("/me", headers={"Authorization": f"Bearer {key['key']}"}).is_success
    row.get_by_role("link", name="Make a key for Dora Example").click()
    visitor.heading("API keys")
    expect(page.get_by_label("Whose key it is")).to_have_value(member["id"])


def test_the_last_admin_stays(visitor: Visitor, service: Service) -> None:
    admins = [one for one in service.get("/members")["items"] if one["role"] == "admin" and not one["disabled_at"]]
    last = admins[0] if admins else add_member(service, "Alone Example", "admin")
    for other in admins[1:]:
        service.client.patch(f"/members/{other['id']}", json={"disabled": True})
    visitor.sign_in()
    visitor.open("/admin/members", "Members")
    visitor.page.get_by_role("button", name=f"Disable {last['name']}").click()
    dialog = visitor.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Disable", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("is the last admin of this workspace")
    assert service.get(f"/members/{last['id']}")["disabled_at"] is None


def test_sessions_are_ended_from_afar(visitor: Visitor, service: Service, browser: Browser) -> None:
    member = add_member(service, "Traveller Example")
    order = {"name": "phone", "scopes": ["read"], "ttl_days": 1, "member_id": member["id"]}
    other = browser.new_context(user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
    far = other.new_page()
    far.goto(f"{service.url}/#key={service.post('/api-keys', order)['key']}")
    expect(far.get_by_role("heading", level=1)).to_contain_text("Overview")
    visitor.sign_in()
    visitor.open("/admin/sessions", "Sessions")
    row = visitor.section("Signed-in browsers").get_by_role("row").filter(has_text="Traveller Example")
    expect(row).to_contain_text("Firefox 140 on Linux")
    expect(row).to_contain_text("127.0.0.1")
    row.get_by_role("button", name="End the session of Traveller Example").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="End", exact=True).click()
    expect(row).to_have_count(0)
    far.goto(f"{service.url}/#/fleet")
    expect(far.get_by_role("heading", level=1)).to_contain_text("Sign in")
    other.close()


def test_ones_own_access_shows_what_the_key_may_do_and_lacks(visitor: Visitor, service: Service) -> None:
    page = visitor.page
    key = sign_in_with(visitor, service, "read", "runs:write")
    powers = visitor.section("Who you are").get_by_role("listitem")
    for scope in Scope:
        wanted = "yes" if scope in (Scope.READ, Scope.RUNS_WRITE) else "no"
        row = powers.filter(has=page.get_by_text(scope, exact=True))
        expect(row.locator(".badge")).to_have_text(wanted)
    for part in ("members", "keys", "sessions"):
        visitor.open(address(part), PARTS[part])
        expect(page.get_by_text(re.compile("lacks the scope keys:admin"))).to_be_visible()
        expect(page.locator("main").get_by_role("button")).to_have_count(0)
    visitor.screenshot("admin-closed")
    visitor.open("/admin", "Your access")
    rows = visitor.section("Your keys").get_by_role("row")
    expect(rows).to_have_count(2)
    rows.nth(1).get_by_role("button", name="Revoke the key of a test").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("you will be signed out")
    dialog.get_by_role("button", name="Revoke", exact=True).click()
    visitor.heading("Sign in")
    expect(page.get_by_text("You have revoked the key of this session.")).to_be_visible()
    assert service.client.get("/me", headers={"Authorization": f"Bearer {key['key']}"}).status_code == 401


def test_nobody_gives_or_changes_more_than_they_can_do(visitor: Visitor, service: Service) -> None:
    admin = add_member(service, "Mighty Example", "admin")
    page = visitor.page
    sign_in_with(visitor, service, "read", "keys:admin")
    visitor.open("/admin/keys", "API keys")
    form = visitor.section("Make a key")
    expect(form.get_by_label("models:write")).to_be_disabled()
    expect(form).to_contain_text("nobody can give what they lack")
    visitor.open("/admin/members", "Members")
    change = page.get_by_role("button", name=f"Change {admin['name']}")
    expect(change).to_be_disabled()
    expect(change).to_have_attribute("title", re.compile("can do more than your key, which lacks models:write"))
    expect(visitor.section("Add a member").get_by_role("button", name="Add the member")).to_be_disabled()
    visitor.section("Add a member").get_by_label("Role").select_option("viewer")
    expect(visitor.section("Add a member").get_by_role("button", name="Add the member")).to_be_enabled()


def test_hostile_names_and_browsers_are_text(visitor: Visitor, service: Service) -> None:
    member = add_member(service, HOSTILE, email="<b>@x'\"")
    key = service.post("/api-keys", {"name": HOSTILE, "scopes": ["read"], "member_id": member["id"]})
    headers = {"Authorization": f"Bearer {key['key']}", "User-Agent": HOSTILE, "Origin": service.url}
    opened = httpx.post(f"{service.url}/v1/session", headers=headers)
    assert opened.is_success, opened.text
    visitor.sign_in()
    for part, section in (("members", "All members"), ("keys", "All keys"), ("sessions", "Signed-in browsers")):
        visitor.open(address(part), PARTS[part])
        expect(visitor.section(section).get_by_role("row").filter(has_text=HOSTILE)).to_be_visible()
        assert visitor.page.locator("main img, main b").count() == 0, part
        assert not visitor.is_wider_than_the_screen(), part
