"""Admin, webhooks: made with a secret that is shown once, paused, deleted; why deliveries failed."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.web.admin.test_members import HOSTILE, sign_in_with
from tests.web.data import Data, start_run
from tests.web.screens import screens
from tests.web.service import Service, wait_until
from tests.web.visitor import Visitor


@pytest.fixture(scope="module")
def failing(service: Service, data: Data) -> Iterator[dict[str, Any]]:
    """A webhook at an address that nobody has, which was to be told of a failed run; hostile in all it can be."""
    order = {"url": "https://nobody.invalid/%3Cb%3E", "events": ["run.failed"], "description": HOSTILE}
    webhook = service.post("/webhooks", order)
    start_run(service, data.build, data.idle, data.dataset)
    data.idle.take_run()
    data.idle.finish(state="failed", failure={"code": 2003, "detail": "<b>No room.</b>"})
    path = f"/webhooks/{webhook['id']}/deliveries"
    wait_until(lambda: service.get(path)["items"], lambda found: bool(found) and found[0]["problem"] is not None)
    yield webhook
    service.client.delete(f"/webhooks/{webhook['id']}")


@screens
def test_webhooks_are_accessible_fit_and_hold_hostile_texts(
    visitor: Visitor, failing: dict[str, Any], context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    views = {"webhooks": "/admin/webhooks", "webhook": f"/admin/webhooks/{failing['id']}"}
    for name, address in views.items():
        visitor.open(address, "Webhooks")
        expect(visitor.page.get_by_text(HOSTILE).first).to_be_visible()
        expect(visitor.page.locator(".loading")).to_have_count(0)
        if name == "webhook":
            visitor.page.locator("summary").first.click()
            expect(visitor.page.get_by_label("Message of run.failed")).to_contain_text("<b>No room.</b>")
        visitor.screenshot(f"admin-{name}-{screen}")
        assert visitor.page.locator("main img, main b").count() == 0
        assert not visitor.is_wider_than_the_screen(), name
        if screen in ("light", "dark"):
            assert visitor.accessibility_violations(["color-contrast"] if screen == "dark" else None) == [], name


def test_a_webhook_is_made_paused_resumed_and_deleted(visitor: Visitor, service: Service) -> None:
    page = visitor.page
    visitor.sign_in()
    visitor.open("/admin/webhooks", "Webhooks")
    form = visitor.section("Make a webhook")
    form.get_by_label("Address").fill("https://127.0.0.1/1")
    form.get_by_label("Name, if").fill("chat of the team")
    form.get_by_label("campaign.finished").check()
    form.get_by_role("button", name="Make the webhook").click()
    expect(form.get_by_role("alert")).to_contain_text("127.0.0.1")
    form.get_by_label("Address").fill("https://hook.example/1?token=abc")
    form.get_by_role("button", name="Make the webhook").click()
    shown = page.get_by_role("group", name="The new secret")
    assert shown.get_by_label("The secret", exact=True).inner_text().startswith("whsec_")
    shown.get_by_role("button", name="I have kept it").click()
    expect(page.get_by_text("whsec_")).to_have_count(0)
    row = visitor.section("All webhooks").get_by_role("row").filter(has_text="chat of the team")
    expect(row).to_contain_text("campaign.finished, run.failed")
    expect(row).not_to_contain_text("abc")
    (made,) = [one for one in service.get("/webhooks")["items"] if one["description"] == "chat of the team"]
    row.get_by_role("button", name="Pause chat of the team").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(row).to_contain_text("paused")
    expect(row).to_contain_text("Somebody disabled it.")
    assert not service.get(f"/webhooks/{made['id']}")["enabled"]
    row.get_by_role("button", name="Resume chat of the team").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    expect(row).to_contain_text("enabled")
    row.get_by_role("link", name="chat of the team").click()
    expect(visitor.section("Deliveries")).to_contain_text("Nothing was to be told yet.")
    page.get_by_role("button", name="Delete chat of the team").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(visitor.section("All webhooks")).to_be_visible()
    expect(row).to_have_count(0)
    assert service.client.get(f"/webhooks/{made['id']}").status_code == 404


def test_deliveries_say_why_they_failed(visitor: Visitor, service: Service, failing: dict[str, Any]) -> None:
    visitor.sign_in()
    visitor.open(f"/admin/webhooks/{failing['id']}", "Webhooks")
    (sent,) = service.get(f"/webhooks/{failing['id']}/deliveries")["items"]
    section = visitor.section("Deliveries")
    expect(section.get_by_role("row").nth(1)).to_contain_text(sent["problem"])
    expect(section.get_by_role("row").nth(1)).to_contain_text("pending")
    section.get_by_label("State").select_option("delivered")
    expect(section).to_contain_text("No delivery is delivered.")
    assert "state=delivered" in visitor.page.url
    section.get_by_label("State").select_option("pending")
    expect(section.get_by_role("row")).to_have_count(2)


def test_a_key_without_the_scope_sees_and_does_not_change(
    visitor: Visitor, service: Service, failing: dict[str, Any]
) -> None:
    sign_in_with(visitor, service, "read")
    visitor.open("/admin/webhooks", "Webhooks")
    form = visitor.section("Make a webhook")
    expect(form).to_contain_text("it lacks the scope devices:admin")
    expect(form.get_by_role("button", name="Make the webhook")).to_be_disabled()
    row = visitor.section("All webhooks").get_by_role("row").filter(has_text=HOSTILE)
    for verb in ("Pause", "Delete"):
        expect(row.get_by_role("button", name=verb)).to_be_disabled()
