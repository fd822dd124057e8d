"""What holds on every view: what comes has its form before it is there, and a time says when it is in UTC."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Route, expect

from tests.web.data import Data
from tests.web.screens import screens
from tests.web.visitor import Visitor

ZONE = "Asia/Kolkata"


@screens
def test_what_comes_has_its_form_before_it_is_there(
    visitor: Visitor, data: Data, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    held: list[Route] = []
    visitor.sign_in()
    visitor.page.route("**/v1/models?*", lambda route: held.append(route))
    visitor.open("/models", "Models")
    section = visitor.section("All models")
    expect(section.locator(".skeleton")).to_be_visible()
    expect(section.locator(".skeleton")).to_have_attribute("aria-hidden", "true")
    expect(section.get_by_role("status")).to_contain_text("Loading models")
    assert visitor.accessibility_violations() == []
    assert not visitor.is_wider_than_the_screen()
    visitor.screenshot(f"models-loading-{request.node.callspec.id}")
    for route in held:
        route.continue_()
    visitor.page.unroute("**/v1/models?*")
    expect(section.get_by_role("link", name="mobilenet")).to_be_visible()
    expect(section.locator(".skeleton")).to_have_count(0)


@pytest.mark.parametrize(
    "context_options", [{"viewport": {"width": 1280, "height": 900}, "timezone_id": ZONE}], ids=["kolkata"]
)
def test_times_are_local_and_say_when_it_is_in_utc(
    visitor: Visitor, data: Data, context_options: dict[str, Any]
) -> None:
    visitor.sign_in()
    for kind, row in (("models", data.model), ("datasets", data.dataset)):
        visitor.open(f"/{kind}/{row['id']}", row["name"])
        shown = visitor.page.locator(f".figure time[datetime='{row['created_at']}']").last
        at = datetime.fromisoformat(row["created_at"])
        expect(shown).to_have_text(f"{at.astimezone(ZoneInfo(ZONE)):%Y-%m-%d %H:%M:%S}")
        expect(shown).to_have_attribute("title", f"{at.astimezone(ZoneInfo('UTC')):%Y-%m-%d %H:%M:%S} UTC")
