"""Around the views: the palette, the keys, copying by keyboard, and a header that fits every screen."""

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.web.data import Data
from tests.web.service import Service
from tests.web.visitor import Visitor


def palette(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("dialog", name="Go to, do, or find by name or id")


def options(visitor: Visitor) -> Locator:
    return visitor.page.get_by_role("listbox", name="Choices").get_by_role("option")


def press(visitor: Visitor, key: str) -> None:
    """Open a palette by its key, and wait for its field."""
    visitor.page.keyboard.press(key)
    expect(visitor.page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()


@pytest.mark.parametrize("key", ["Control+k", "Meta+k", "/"])
def test_palette_opens_by_key_and_goes_to_a_view(visitor: Visitor, data: Data, key: str) -> None:
    visitor.sign_in()
    press(visitor, key)
    expect(palette(visitor)).to_be_visible()
    visitor.page.keyboard.type("fle")
    expect(options(visitor).first).to_contain_text("Fleet")
    visitor.page.keyboard.press("Enter")
    visitor.heading("Fleet")
    expect(palette(visitor)).to_have_count(0)


def test_palette_finds_by_name_on_the_server(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.page.get_by_role("button", name="Find or do something").click()
    expect(palette(visitor).get_by_role("combobox")).to_be_focused()
    visitor.page.keyboard.type("bench-pi")
    expect(options(visitor).filter(has_text="bench-pi-4")).to_contain_text("Devices")
    visitor.page.keyboard.press("Control+a")
    visitor.page.keyboard.type("mobilenet")
    expect(options(visitor).filter(has_text="mobilenet-sparse")).to_contain_text("host, succeeded")
    expect(options(visitor).filter(has_text="Models")).to_contain_text("mobilenet v")
    visitor.screenshot("palette")
    assert visitor.accessibility_violations() == []
    options(visitor).filter(has_text="mobilenet-typo").click()
    visitor.heading("mobilenet-typo")


def test_palette_finds_a_run_by_its_id_and_says_when_there_is_nothing(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    press(visitor, "Control+k")
    visitor.page.keyboard.type(data.run["id"])
    expect(options(visitor)).to_have_count(1)
    expect(options(visitor)).to_contain_text("mobilenet · mobilenet-sparse · digits-shifted on bench-pi-4")
    visitor.page.keyboard.press("Control+a")
    visitor.page.keyboard.type('no,"such=name<')
    expect(palette(visitor).get_by_role("status")).to_contain_text("Nothing found")
    visitor.page.keyboard.press("Escape")
    expect(palette(visitor)).to_have_count(0)
    visitor.heading("Overview")


def test_palette_is_walked_by_arrows_and_gives_the_focus_back(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    button = visitor.page.get_by_role("button", name="Find or do something")
    button.focus()
    visitor.page.keyboard.press("Enter")
    expect(options(visitor).nth(0)).to_have_attribute("aria-selected", "true")
    visitor.page.keyboard.press("ArrowDown")
    expect(options(visitor).nth(1)).to_have_attribute("aria-selected", "true")
    visitor.page.keyboard.press("ArrowUp")
    visitor.page.keyboard.press("ArrowUp")
    expect(options(visitor).last).to_have_attribute("aria-selected", "true")
    visitor.page.keyboard.press("Escape")
    expect(button).to_be_focused()


def test_palette_says_why_a_key_may_not_do_something(visitor: Visitor, service: Service) -> None:
    made = service.post("/api-keys", {"name": "reader", "scopes": ["read"], "ttl_days": 1})
    visitor.page.goto(f"{service.url}/#key={made['key']}&next=/builds")
    visitor.heading("Builds")
    press(visitor, "Control+k")
    visitor.page.keyboard.type("enrol")
    expect(options(visitor)).to_have_attribute("aria-disabled", "true")
    expect(options(visitor)).to_contain_text("devices:admin")
    visitor.page.keyboard.press("Enter")
    expect(palette(visitor)).to_be_visible()
    visitor.page.keyboard.press("Control+a")
    visitor.page.keyboard.type("audit log")
    expect(options(visitor)).to_have_attribute("aria-disabled", "true")
    expect(options(visitor)).to_contain_text("audit:read")
    visitor.page.keyboard.press("Control+a")
    visitor.page.keyboard.type("admin usage")
    expect(options(visitor)).to_have_count(1)
    visitor.page.keyboard.press("Enter")
    visitor.heading("Usage")


def test_commands_are_copied_by_keyboard_and_are_no_tab_stops(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.open(f"/builds/{data.build['id']}", "mobilenet-sparse")
    expect(visitor.figure("Predicted peak")).to_be_visible()
    assert visitor.page.locator(".copy-button").count() > 5
    assert visitor.page.locator(".copy-button:not([tabindex='-1'])").count() == 0
    press(visitor, "c")
    visitor.page.keyboard.type("predicted")
    expect(options(visitor)).to_contain_text("Copy the command of Predicted peak")
    copied = visitor.copied(lambda: visitor.page.keyboard.press("Enter"))
    assert copied.endswith(f"/v1/builds/{data.build['id']} | jq .summary.predicted_peak_bytes")


def test_keys_lead_to_every_section_and_are_listed(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    for link in visitor.page.get_by_role("navigation", name="Main").get_by_role("link").all():
        visitor.page.keyboard.press("g")
        visitor.page.keyboard.press((link.text_content() or "").strip()[0].lower())
        expect(link).to_have_attribute("aria-current", "page")
    visitor.page.keyboard.press("?")
    keys = visitor.page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("Go to Fleet")
    visitor.screenshot("keys")
    assert visitor.accessibility_violations() == []
    keys.get_by_role("button", name="Close").click()
    expect(keys).to_have_count(0)


def test_letters_in_a_field_are_letters(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.open(f"/builds/{data.build['id']}", "mobilenet-sparse")
    press(visitor, "Control+k")
    visitor.page.keyboard.type("?cg/")
    expect(palette(visitor).get_by_role("combobox")).to_have_value("?cg/")


def test_the_skip_link_comes_first_and_leads_to_the_content(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.page.get_by_role("link", name="PockEngine").focus()
    visitor.page.keyboard.press("Shift+Tab")
    expect(visitor.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.get_by_role("heading", level=1)).to_be_focused()


SIZES: dict[str, dict[str, Any]] = {
    "360": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light", "has_touch": True},
    "1920": {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "dark"},
    "3840": {"viewport": {"width": 3840, "height": 2160}, "color_scheme": "light"},
}


@pytest.mark.parametrize("context_options", SIZES.values(), ids=SIZES.keys())
def test_header_and_palette_fit_every_screen(
    visitor: Visitor, data: Data, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    size = request.node.callspec.id
    visitor.sign_in()
    expect(visitor.section("Latest runs").get_by_role("row").nth(1)).to_be_visible()
    visitor.screenshot(f"overview-{size}")
    assert not visitor.is_wider_than_the_screen()
    for link in visitor.page.get_by_role("navigation", name="Main").get_by_role("link").all():
        expect(link).to_be_in_viewport()
    visitor.page.get_by_role("button", name="Find or do something").click()
    box = palette(visitor).bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= context_options["viewport"]["width"]
    visitor.screenshot(f"palette-{size}")
    width = visitor.page.locator("main").evaluate("main => main.clientWidth")
    assert width > 1600 or context_options["viewport"]["width"] < 1900, "a wide screen is used"
