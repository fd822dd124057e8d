"""The API key: asked for once, kept in the tab, never left in the address."""

from playwright.sync_api import expect

from tests.web.service import Service
from tests.web.visitor import Visitor


def test_wrong_key_is_refused_with_the_servers_words(visitor: Visitor, service: Service) -> None:
    visitor.page.goto(service.url)
    visitor.heading("Sign in")
    visitor.screenshot("sign-in-light")
    assert visitor.accessibility_violations() == []
    visitor.page.get_by_label("API key").fill("pk_wrong_key")
    visitor.page.get_by_role("button", name="Sign in").click()
    refusal = service.client.get("/devices", headers={"Authorization": "Bearer pk_wrong_key"}).json()
    expect(visitor.page.get_by_role("alert")).to_contain_text(refusal["detail"])
    assert visitor.page.evaluate("sessionStorage.length") == 0


def test_key_is_asked_for_once(visitor: Visitor, service: Service) -> None:
    visitor.page.goto(f"{service.url}/#/fleet")
    visitor.page.get_by_label("API key").fill(f"  {service.key} ")
    visitor.page.get_by_role("button", name="Sign in").click()
    visitor.heading("Fleet")
    visitor.page.reload()
    visitor.heading("Fleet")
    visitor.page.get_by_role("button", name="Sign out").click()
    visitor.heading("Sign in")
    assert visitor.page.evaluate("sessionStorage.length") == 0


def test_key_in_the_address_is_taken_and_removed(visitor: Visitor, service: Service) -> None:
    visitor.page.goto(f"{service.url}/#key={service.key}&next=/builds")
    visitor.heading("Builds")
    assert service.key not in visitor.page.url
    assert visitor.page.url.endswith("#/builds")
    assert visitor.page.evaluate("history.length") <= 2


def test_revoked_key_leads_back_to_the_sign_in_page(visitor: Visitor, service: Service) -> None:
    made = service.post("/api-keys", {"name": "short-lived", "scopes": ["read"], "ttl_days": 1})
    visitor.page.goto(f"{service.url}/#key={made['key']}&next=/fleet")
    visitor.heading("Fleet")
    assert service.client.delete(f"/api-keys/{made['id']}").is_success
    visitor.heading("Sign in")
    expect(visitor.page.get_by_text("You have been signed out")).to_contain_text("revoked")


def test_key_without_a_scope_is_told_so(visitor: Visitor, service: Service) -> None:
    made = service.post("/api-keys", {"name": "reader", "scopes": ["read"], "ttl_days": 1})
    model = service.add_model("readable")
    visitor.page.goto(f"{service.url}/#key={made['key']}&next=/models/{model['id']}")
    visitor.page.get_by_role("button", name="Request build").click()
    expect(visitor.page.get_by_role("alert")).to_contain_text("builds:write")


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
