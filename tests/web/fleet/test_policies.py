"""When devices may work: the rules of a device and of a pool are set, changed and taken away in the page."""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.data import Data
from tests.web.device import Device
from tests.web.fleet.test_fleet import looks_right
from tests.web.screens import screens
from tests.web.service import Service
from tests.web.visitor import Visitor

ABLE = {"features": ["policies"], "agent_version": "0.2.0"}
HOSTILE = "a&b=<img src=x onerror=alert(1)>/…"
"""A pool's name."""


def device_in(service: Service, pool: str, facts: dict[str, Any] | None = None) -> Device:
    token = service.post("/enrollment-tokens", {"pool": pool})["token"]
    return Device(service, f"board of {pool}"[:60], ABLE if facts is None else facts, token=token)


def pool_policy(service: Service, pool: str) -> Any:
    answer = service.client.get("/pools/policy", params={"pool": pool})
    return answer.json()["policy"] if answer.is_success else answer.status_code


def open_rules(page: Page, button: str) -> Locator:
    page.get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog", name="Rules of")
    expect(dialog.get_by_role("button", name="Save the rules")).to_be_visible()
    return dialog


def add_hours(dialog: Locator, number: int, begin: str, end: str) -> None:
    dialog.get_by_role("button", name="Add hours").click()
    dialog.get_by_label(f"From, hours {number}").fill(begin)
    dialog.get_by_label(f"To, hours {number}").fill(end)


def save(dialog: Locator) -> None:
    dialog.get_by_role("button", name="Save the rules").click()


@screens
def test_the_rules_of_a_device_are_set_changed_and_taken_away(
    visitor: Visitor, data: Data, service: Service, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    device = device_in(service, f"own-{screen}")
    path = f"/devices/{device.id}/policy"
    visitor.sign_in()
    visitor.open(f"/devices/{device.id}", f"board of own-{screen}")
    section = visitor.section("When it may work")
    expect(section).to_contain_text(f"Always: neither the device nor pool own-{screen} has rules.")
    dialog = open_rules(visitor.page, "Set rules: Its own rules")
    expect(dialog.get_by_role("button", name="No rules")).to_be_disabled()
    dialog.get_by_label("Only while plugged in").check()
    dialog.get_by_label("Not on networks").check()
    dialog.get_by_label("Only below").fill("61.5")
    dialog.get_by_label("Minutes of work").fill("0")
    dialog.get_by_label("Joules").fill("50000")
    dialog.get_by_label("forbids work").check()
    add_hours(dialog, 1, "22:00", "06:30")
    add_hours(dialog, 2, "12:00", "13:00")
    add_hours(dialog, 3, "20:00", "00:00")
    looks_right(visitor, "rules-dialog", screen)
    save(dialog)
    expect(dialog).to_have_count(0)
    expect(section).to_contain_text("22:00-06:30, 12:00-13:00, 20:00-24:00")
    rules = {
        "charging": True,
        "max_temperature_celsius": 61.5,
        "hours": ["22:00-06:30", "12:00-13:00", "20:00-24:00"],
        "max_minutes_per_day": 0,
        "max_joules_per_day": 50000,
        "metered": "never",
        "unknown": "forbid",
    }
    assert service.get(path)["policy"] == rules
    looks_right(visitor, "rules-device", screen)

    dialog = open_rules(visitor.page, "Change: Its own rules")
    expect(dialog.get_by_label("To, hours 3")).to_have_value("00:00")
    dialog.get_by_role("button", name="Leave out hours 2").click()
    dialog.get_by_label("Minutes of work").fill("")
    dialog.get_by_label("allows work").check()
    save(dialog)
    expect(section).to_contain_text("22:00-06:30, 20:00-24:00")
    rules |= {"hours": ["22:00-06:30", "20:00-24:00"], "max_minutes_per_day": None, "unknown": "allow"}
    assert service.get(path)["policy"] == rules

    dialog = open_rules(visitor.page, "Change: Its own rules")
    dialog.get_by_role("button", name="No rules").click()
    asked = visitor.page.get_by_role("dialog", name="No rules for device")
    asked.get_by_role("button", name="Keep them").click()
    assert service.get(path)["policy"] == rules
    dialog.get_by_role("button", name="No rules").click()
    asked.get_by_role("button", name="No rules", exact=True).click()
    expect(section).to_contain_text("neither the device nor pool")
    assert service.get(path)["policy"] is None


def test_the_rules_of_a_pool_are_set_from_a_device_and_from_the_fleet(
    visitor: Visitor, data: Data, service: Service
) -> None:
    device = device_in(service, HOSTILE)
    page = visitor.page
    visitor.sign_in()
    visitor.open(f"/devices/{device.id}", "board of")
    dialog = open_rules(page, f"Set rules: Rules of pool {HOSTILE}")
    dialog.get_by_label("Minutes of work").fill("30")
    save(dialog)
    section = visitor.section("When it may work")
    expect(section).to_contain_text("at most 30")
    assert pool_policy(service, HOSTILE)["max_minutes_per_day"] == 30
    assert page.locator("main img").count() == 0

    visitor.open("/fleet", "Fleet")
    expect(page.get_by_role("button", name="Rules of pool")).to_have_count(0)
    page.get_by_role("combobox", name="Pool").select_option(HOSTILE)
    dialog = open_rules(page, f"Rules of pool {HOSTILE} …")
    expect(dialog.get_by_label("Minutes of work")).to_have_value("30")
    page.get_by_role("dialog").get_by_label("Only while plugged in").check()
    visitor.screenshot("rules-fleet")
    save(dialog)
    expect(page.get_by_text("The rules are saved.")).to_be_visible()
    assert pool_policy(service, HOSTILE)["charging"] is True
    looks_right(visitor, "rules-fleet-saved", "light")
    page.set_viewport_size({"width": 360, "height": 740})
    looks_right(visitor, "rules-fleet-saved", "phone")
    page.set_viewport_size({"width": 1280, "height": 900})
    dialog = open_rules(page, f"Rules of pool {HOSTILE} …")
    dialog.get_by_role("button", name="No rules").click()
    asked = page.get_by_role("dialog", name="No rules for pool")
    asked.get_by_role("button", name="No rules", exact=True).click()
    expect(page.get_by_text("The rules are taken away.")).to_be_visible()
    assert pool_policy(service, HOSTILE) == 404


def test_what_the_service_refuses_stands_at_its_field(visitor: Visitor, data: Data, service: Service) -> None:
    device_in(service, "refused")
    visitor.sign_in()
    visitor.open("/fleet?pool=refused", "Fleet")
    dialog = open_rules(visitor.page, "Rules of pool refused …")
    add_hours(dialog, 1, "08:00", "09:00")
    add_hours(dialog, 2, "10:00", "10:00")
    # What the browser lets through here, as an older service would allow less.
    dialog.get_by_label("Joules").evaluate("field => field.removeAttribute('max')")
    dialog.get_by_label("Joules").fill("1e13")
    save(dialog)
    second = dialog.locator(".rules-hours > div").nth(1)
    expect(second.get_by_role("alert")).to_have_text("10:00-10:00 begins where it ends; a whole day is 00:00-24:00")
    expect(dialog.get_by_role("alert")).to_have_count(2)
    expect(dialog.locator(".rules-limits > div").nth(2).get_by_role("alert")).to_contain_text("less than or equal to")
    visitor.screenshot("rules-refused")
    assert pool_policy(service, "refused") == 404
    dialog.get_by_label("To, hours 2").fill("11:00")
    dialog.get_by_label("Joules").fill("1e12")
    save(dialog)
    expect(dialog).to_have_count(0)
    assert pool_policy(service, "refused")["hours"] == ["08:00-09:00", "10:00-11:00"]


def test_of_two_who_change_the_same_rules_nobody_overwrites_unseen(
    visitor: Visitor, data: Data, service: Service
) -> None:
    device = device_in(service, "both")
    first = visitor.page
    visitor.sign_in()
    visitor.open(f"/devices/{device.id}", "board of both")
    second = first.context.new_page()
    second.goto(f"{service.url}/#/fleet?pool=both")
    mine = open_rules(first, "Set rules: Rules of pool both")
    theirs = open_rules(second, "Rules of pool both …")
    mine.get_by_label("Minutes of work").fill("10")
    theirs.get_by_label("Minutes of work").fill("20")
    theirs.get_by_label("Only below").fill("55")
    save(theirs)
    expect(theirs).to_have_count(0)
    save(mine)
    told = mine.get_by_role("alert")
    expect(told).to_contain_text("Somebody has changed these rules since you opened them.")
    expect(told).to_contain_text("only below 55 °C")
    expect(told).to_contain_text("at most 20")
    assert pool_policy(service, "both")["max_minutes_per_day"] == 20
    assert visitor.accessibility_violations() == []
    visitor.screenshot("rules-changed-meanwhile")
    told.get_by_role("button", name="Go on from theirs").click()
    expect(mine.get_by_label("Minutes of work")).to_have_value("20")
    mine.get_by_label("Minutes of work").fill("15")
    save(mine)
    expect(mine).to_have_count(0)
    shown = pool_policy(service, "both")
    assert (shown["max_minutes_per_day"], shown["max_temperature_celsius"]) == (15, 55)

    # Taken away by one, while the other changes them, who insists.
    theirs = open_rules(second, "Rules of pool both …")
    mine = open_rules(first, "Change: Rules of pool both")
    theirs.get_by_role("button", name="No rules").click()
    second.get_by_role("dialog", name="No rules for").get_by_role("button", name="No rules", exact=True).click()
    expect(theirs).to_have_count(0)
    mine.get_by_label("Minutes of work").fill("5")
    save(mine)
    expect(mine.get_by_role("alert")).to_contain_text("There are none any more.")
    assert pool_policy(service, "both") == 404
    mine.get_by_role("button", name="Save mine in their place").click()
    expect(mine).to_have_count(0)
    assert pool_policy(service, "both")["max_minutes_per_day"] == 5


def test_rules_that_somebody_changed_meanwhile_are_not_taken_away_unseen(
    visitor: Visitor, data: Data, service: Service
) -> None:
    device_in(service, "kept")
    service.client.put("/pools/policy", params={"pool": "kept"}, json={"charging": True})
    page = visitor.page
    visitor.sign_in()
    visitor.open("/fleet?pool=kept", "Fleet")
    dialog = open_rules(page, "Rules of pool kept …")
    service.client.put("/pools/policy", params={"pool": "kept"}, json={"max_minutes_per_day": 7})
    dialog.get_by_role("button", name="No rules").click()
    asked = page.get_by_role("dialog", name="No rules for pool kept")
    asked.get_by_role("button", name="No rules", exact=True).click()
    told = dialog.locator(".rules-theirs")
    expect(told).to_contain_text("at most 7")
    assert pool_policy(service, "kept")["max_minutes_per_day"] == 7
    visitor.screenshot("rules-no-rules-refused")
    told.get_by_role("button", name="Go on from theirs").click()
    expect(dialog.get_by_label("Minutes of work")).to_have_value("7")
    dialog.get_by_role("button", name="No rules").click()
    asked.get_by_role("button", name="No rules", exact=True).click()
    expect(page.get_by_text("The rules are taken away.")).to_be_visible()
    assert pool_policy(service, "kept") == 404


def test_a_device_whose_agent_knows_no_rules_gets_none(visitor: Visitor, data: Data, service: Service) -> None:
    page = visitor.page
    old = device_in(service, "old", {"agent_version": "0.1.0", "features": []})
    visitor.sign_in()
    visitor.open(f"/devices/{old.id}", "board of old")
    own = page.get_by_role("button", name="Set rules: Its own rules")
    expect(own).to_be_disabled()
    expect(own).to_have_attribute("title", "Agent 0.1.0 follows no rules of the service: update it.")
    expect(page.get_by_role("button", name="Set rules: Rules of pool old")).to_be_enabled()


def test_who_may_not_change_rules_sees_why(visitor: Visitor, data: Data, service: Service) -> None:
    page = visitor.page
    device = device_in(service, "seen")
    key = service.post("/api-keys", {"name": "looks", "scopes": ["read"], "ttl_days": 1})["key"]
    page.goto(f"{service.url}/#key={key}&next=/devices/{device.id}")
    section = visitor.section("When it may work")
    expect(section).to_contain_text("it lacks the scope devices:admin")
    expect(section.get_by_role("button", name="Set rules")).to_have_count(2)
    for button in section.get_by_role("button", name="Set rules").all():
        expect(button).to_be_disabled()
    visitor.open("/fleet?pool=seen", "Fleet")
    expect(page.get_by_role("button", name="Rules of pool seen")).to_be_disabled()
    expect(page.locator(".pool-rules")).to_contain_text("it lacks the scope devices:admin")
