"""Signing in: the key is asked for once and kept nowhere; the session is a cookie that no script can read."""

from playwright.sync_api import Page, expect

from tests.web.service import Service
from tests.web.visitor import Visitor


def stored(page: Page) -> str:
    """Everything that a script of the page can read."""
    text: str = page.evaluate(
        "JSON.stringify({...sessionStorage}) + JSON.stringify({...localStorage}) + document.cookie + location.href"
    )
    return text


def test_wrong_key_is_refused_with_the_servers_words(visitor: Visitor, service: Service) -> None:
    visitor.page.goto(service.url)
    visitor.heading("Sign in")
    visitor.screenshot("sign-in-light")
    assert visitor.accessibility_violations() == []
    visitor.page.get_by_label("API key").fill("pk_wrong_key")
    visitor.page.get_by_role("button", name="Sign in").click()
    refusal = service.client.get("/devices", headers={"Authorization": "Bearer pk_wrong_key"}).json()
    expect(visitor.page.get_by_role("alert")).to_contain_text(refusal["detail"])
    assert visitor.page.context.cookies() == []


def test_key_is_asked_for_once_and_kept_nowhere(visitor: Visitor, service: Service) -> None:
    visitor.page.goto(f"{service.url}/#/fleet")
    visitor.page.get_by_label("API key").fill(f"  {service.key} ")
    visitor.page.get_by_role("button", name="Sign in").click()
    visitor.heading("Fleet")
    (cookie,) = visitor.page.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and cookie["name"] == "pock_session"
    assert service.key not in stored(visitor.page) and cookie["value"] not in stored(visitor.page)
    visitor.page.reload()
    visitor.heading("Fleet")
    visitor.page.get_by_role("button", name="Sign out").click()
    visitor.heading("Sign in")
    assert visitor.page.context.cookies() == []
    refused = service.client.get("/me", headers={"Authorization": "", "Cookie": f"pock_session={cookie['value']}"})
    assert refused.status_code == 401


def test_new_tab_is_signed_in_and_signing_out_ends_all_tabs(visitor: Visitor, service: Service) -> None:
    visitor.sign_in()
    tab = visitor.page.context.new_page()
    tab.goto(f"{service.url}/#/fleet")
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Fleet")
    visitor.page.get_by_role("button", name="Sign out").click()
    visitor.heading("Sign in")
    expect(tab.get_by_role("heading", level=1)).to_contain_text("Sign in")


def test_header_says_who_is_signed_in(visitor: Visitor, service: Service) -> None:
    member = service.post("/members", {"name": "Alice Example", "role": "operator"})
    order = {"name": "laptop", "scopes": ["read"], "ttl_days": 1, "member_id": member["id"]}
    visitor.page.goto(f"{service.url}/#key={service.post('/api-keys', order)['key']}")
    banner = visitor.page.get_by_role("banner")
    expect(banner).to_contain_text("Alice Example")
    expect(banner).to_contain_text("operator")
    visitor.screenshot("signed-in-member")
    assert visitor.accessibility_violations() == []


def test_key_in_the_address_is_taken_and_removed(visitor: Visitor, service: Service) -> None:
    visitor.page.goto(f"{service.url}/#key={service.key}&next=/builds")
    visitor.heading("Builds")
    assert service.key not in stored(visitor.page)
    assert visitor.page.url.endswith("#/builds")
    assert visitor.page.evaluate("history.length") <= 2


def test_ended_session_asks_for_the_key_and_returns_to_the_page(visitor: Visitor, service: Service) -> None:
    visitor.sign_in()
    visitor.open("/fleet", "Fleet")
    for session in service.get("/sessions")["items"]:
        assert service.client.delete(f"/sessions/{session['id']}").is_success
    visitor.heading("Sign in")
    expect(visitor.page.get_by_text("You have been signed out")).to_contain_text("sign in again")
    visitor.page.get_by_label("API key").fill(service.key)
    visitor.page.get_by_role("button", name="Sign in").click()
    visitor.heading("Fleet")


def test_revoked_key_leads_back_to_the_sign_in_page(visitor: Visitor, service: Service) -> None:
    made = service.post("/api-keys", {"name": "short-lived", "scopes": ["read"], "ttl_days": 1})
    visitor.page.goto(f"{service.url}/#key={made['key']}&next=/fleet")
    visitor.heading("Fleet")
    assert service.client.delete(f"/api-keys/{made['id']}").is_success
    visitor.heading("Sign in")
    expect(visitor.page.get_by_text("You have been signed out")).to_contain_text("sign in again")


def test_forms_of_other_origins_change_nothing(visitor: Visitor, service: Service) -> None:
    """SameSite does not apply to another port of the same host; the cookie comes along, and is refused."""
    visitor.sign_in()
    origin = service.url.rsplit(":", 1)[0] + ":9"
    page = visitor.page.context.new_page()
    page.route(f"{origin}/*", lambda route: route.fulfill(body="<!doctype html><title>elsewhere</title>"))
    page.goto(f"{origin}/")
    page.evaluate(
        """url => {
            const form = document.createElement("form");
            form.method = "post";
            form.action = `${url}/v1/enrollment-tokens`;
            document.body.append(form);
            form.submit();
        }""",
        service.url,
    )
    expect(page.locator("body")).to_contain_text("1027")


def test_page_forbids_foreign_and_inline_code(visitor: Visitor, service: Service) -> None:
    visitor.page.goto(service.url)
    visitor.heading("Sign in")
    policy = visitor.page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content") or ""
    assert "default-src 'self'" in policy and "style-src 'self'" in policy and "unsafe" not in policy
    refused = visitor.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.injected = true";
            document.head.append(script);
            return window.injected === undefined;
        }"""
    )
    assert refused
    assert any("violates the following Content Security Policy" in complaint for complaint in visitor.complaints)
    visitor.complaints.clear()
