"""The fleet: devices are let in, found, sorted and changed."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.web.data import Data
from tests.web.device import Device
from tests.web.service import Service
from tests.web.visitor import Visitor

SCREENS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light", "has_touch": True},
}
screens = pytest.mark.parametrize("context_options", SCREENS.values(), ids=SCREENS.keys())


def looks_right(visitor: Visitor, name: str, screen: str) -> None:
    visitor.screenshot(f"{name}-{screen}")
    assert not visitor.is_wider_than_the_screen()
    assert visitor.accessibility_violations() == []


@screens
def test_a_device_is_enrolled_with_one_command(
    visitor: Visitor, data: Data, service: Service, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    visitor.open("/fleet?enrol=1", "Fleet")
    dialog = visitor.page.get_by_role("dialog", name="Enrol a device")
    expect(dialog).to_contain_text("Only this machine reaches that address")
    dialog.get_by_label("Pool").fill("bench")
    dialog.get_by_label("Labels").fill("room")
    expect(dialog.get_by_role("button", name="Make the command")).to_be_disabled()
    dialog.get_by_label("Labels").fill("room=attic")
    looks_right(visitor, "enrol-ask", screen)
    dialog.get_by_label("Address of the service").fill("http://192.168.1.7:8080/pock")
    expect(dialog).not_to_contain_text("Only this machine")
    dialog.get_by_role("button", name="Make the command").click()
    expect(dialog).to_contain_text("The token is good for 15 minutes, until ")
    expect(dialog.locator(".qr path")).to_have_attribute("d", re.compile("^M0 0h7v1h-7z"))
    looks_right(visitor, "enrol-command", screen)
    command = dialog.get_by_label("Command: enrolling the device").inner_text()
    found = re.fullmatch(r"pock-agent enroll http://192\.168\.1\.7:8080/pock (\S+) && pock-agent run", command.strip())
    assert found, command
    device = Device(service, f"joined-{screen}", token=found.group(1))
    expect(dialog).to_contain_text(f"joined-{screen} joined")
    looks_right(visitor, "enrol-joined", screen)
    shown = service.get(f"/devices/{device.id}")
    assert (shown["pool"], shown["labels"]) == ("bench", {"room": "attic"})
    dialog.get_by_role("link", name=f"joined-{screen}").click()
    visitor.heading(f"joined-{screen}")


def test_enrolment_closes_by_escape_and_opens_by_its_address(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.open("/fleet", "Fleet")
    visitor.page.get_by_role("button", name="Enrol a device").click()
    dialog = visitor.page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_be_focused()
    assert visitor.page.url.endswith("#/fleet?enrol=1")
    visitor.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert visitor.page.url.endswith("#/fleet")


def test_who_may_not_enrol_is_told_so_before(visitor: Visitor, data: Data, service: Service) -> None:
    key = service.post("/api-keys", {"name": "looks", "scopes": ["read"]})["key"]
    visitor.page.goto(f"{service.url}/#key={key}&next=/fleet?enrol=1")
    visitor.heading("Fleet")
    dialog = visitor.page.get_by_role("dialog")
    expect(dialog).to_contain_text("it lacks the scope devices:admin")
    expect(dialog.get_by_role("button", name="Make the command")).to_be_disabled()
    dialog.get_by_role("button", name="Close").click()
    expect(visitor.page.get_by_role("button", name="Enrol a device")).to_be_disabled()
