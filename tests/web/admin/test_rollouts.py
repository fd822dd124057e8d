"""Admin, rollouts: how far one is, why it stopped, and what is done with it; the releases of the agent."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from pock_server.signing import read_key
from tests.server.updating.agent_files import agent_file, document
from tests.web.admin.test_members import HOSTILE, sign_in_with
from tests.web.conftest import visiting
from tests.web.device import Device
from tests.web.screens import screens
from tests.web.service import Service, running_service, wait_until
from tests.web.visitor import Visitor

NEW = "0.2.0"
ABLE = {"agent_version": "0.1.0", "features": ["updates"], "machine": "aarch64", "target": "raspberry-pi-4"}


@dataclass(frozen=True)
class Fleet:
    """A service of its own, whose root key is at hand, with a release and three devices."""

    service: Service
    release: dict[str, Any]
    devices: list[Device]

    def begin(self, **changes: Any) -> dict[str, Any]:
        """A rollout whose canary was offered the release."""
        rollout: dict[str, Any] = self.service.post(
            "/rollouts", {"release_id": self.release["id"], "on": "*", **changes}
        )
        for device in self.devices:
            device.heartbeat()
        self.wait(rollout, lambda states: states.get("offered", 0) == 1)
        return rollout

    def wait(self, rollout: dict[str, Any], good: Any) -> None:
        wait_until(lambda: self.service.get(f"/rollouts/{rollout['id']}")["devices"], good)

    def canary(self, rollout: dict[str, Any]) -> Device:
        """The device that goes first."""
        (first,) = self.service.get(f"/rollouts/{rollout['id']}/devices?state=offered")["items"]
        return next(one for one in self.devices if one.id == first["device_id"])

    def state(self, rollout: dict[str, Any]) -> str:
        return str(self.service.get(f"/rollouts/{rollout['id']}")["state"])

    def clear(self) -> None:
        """Cancel what is not over, so that a new rollout can reach every device."""
        for rollout in self.service.get("/rollouts")["items"]:
            if rollout["state"] in ("running", "paused", "stopped", "reverting"):
                self.service.post(f"/rollouts/{rollout['id']}/cancel", {})


@pytest.fixture(scope="module")
def fleet(web_dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("rollouts")
    with running_service(folder, web_dist) as service:
        content = agent_file(NEW)
        service.upload(content)
        signed = document(content, NEW, datetime.now(UTC), read_key(folder / "keys" / "root.pem"))
        release = service.post("/agent-releases", {"document": signed.model_dump(), "notes": HOSTILE})
        yield Fleet(service, release, [Device(service, name, ABLE) for name in ("pi-1", "pi-2", HOSTILE)])


@pytest.fixture
def visitor(browser: Browser, fleet: Fleet, node_modules: Path, context_options: dict[str, Any]) -> Iterator[Visitor]:
    """A person who is not signed in yet, at the service of these tests."""
    yield from visiting(browser, fleet.service, node_modules, context_options)


@pytest.fixture(scope="module")
def stopped(fleet: Fleet) -> dict[str, Any]:
    """A rollout that stopped, as its canary failed."""
    rollout = fleet.begin()
    fleet.canary(rollout).report_update(rollout["id"], "failed", "0.1.0", "<b>no space</b>")
    wait_until(lambda: fleet.state(rollout), lambda state: state == "stopped")
    return rollout


@screens
def test_rollouts_are_accessible_fit_and_hold_hostile_texts(
    visitor: Visitor, stopped: dict[str, Any], context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    for name, address in {"rollouts": "/admin/rollouts", "rollout": f"/admin/rollouts/{stopped['id']}"}.items():
        visitor.open(address, "Rollouts")
        expect(visitor.page.get_by_text(HOSTILE).first).to_be_visible()
        expect(visitor.page.locator(".loading")).to_have_count(0)
        visitor.screenshot(f"admin-{name}-{screen}")
        assert visitor.page.locator("main img, main b").count() == 0
        assert not visitor.is_wider_than_the_screen(), name
        if screen in ("light", "dark"):
            assert visitor.accessibility_violations(["color-contrast"] if screen == "dark" else None) == [], name


def test_why_a_rollout_stopped_and_who_failed(visitor: Visitor, fleet: Fleet, stopped: dict[str, Any]) -> None:
    page = visitor.page
    visitor.sign_in()
    visitor.open("/admin/rollouts", "Rollouts")
    row = visitor.section("All rollouts").get_by_role("row").filter(has_text=f"agent {NEW}").first
    reason = fleet.service.get(f"/rollouts/{stopped['id']}")["reason"]
    assert reason
    expect(row).to_contain_text(reason)
    row.get_by_role("link").click()
    expect(visitor.figure("State")).to_have_text("stopped")
    expect(visitor.figure("Failed")).to_have_text("1")
    expect(page.locator("main")).to_contain_text(reason)
    visitor.section("Devices").get_by_label("State").select_option("failed")
    devices = visitor.section("Devices").get_by_role("row")
    expect(devices).to_have_count(2)
    expect(devices.nth(1)).to_contain_text("<b>no space</b>")
    assert "state=failed" in page.url
    assert visitor.copy_command("State").endswith(f"/rollouts/{stopped['id']} | jq .state")
    page.get_by_role("link", name="All rollouts").click()
    releases = visitor.section("Releases of the agent").get_by_role("row").nth(1)
    expect(releases).to_contain_text("linux-aarch64")
    expect(releases).to_contain_text("in 90 days")


def test_a_rollout_is_paused_resumed_and_cancelled(visitor: Visitor, fleet: Fleet, stopped: dict[str, Any]) -> None:
    page = visitor.page
    fleet.service.post(f"/rollouts/{stopped['id']}/cancel", {})
    rollout = fleet.begin()
    visitor.sign_in()
    visitor.open(f"/admin/rollouts/{rollout['id']}", "Rollouts")

    def tell(verb: str, state: str) -> None:
        page.get_by_role("button", name=f"{verb} the rollout").click()
        page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()
        expect(visitor.figure("State")).to_have_text(state)
        assert fleet.state(rollout) == state

    resume = page.get_by_role("button", name="Resume the rollout")
    expect(resume).to_be_disabled()
    expect(resume).to_have_attribute("title", "It is running; only one that is paused or stopped can be told this.")
    tell("Pause", "paused")
    tell("Resume", "running")
    page.get_by_role("button", name="Cancel the rollout").click()
    page.get_by_role("dialog").get_by_role("button", name="Leave it").click()
    assert fleet.state(rollout) == "running"
    tell("Cancel", "cancelled")
    for verb in ("Pause", "Resume", "Cancel", "Roll back"):
        expect(page.get_by_role("button", name=f"{verb} the rollout")).to_be_disabled()


def test_a_rollout_is_rolled_back(visitor: Visitor, fleet: Fleet, stopped: dict[str, Any]) -> None:
    fleet.service.post(f"/rollouts/{stopped['id']}/cancel", {})
    rollout = fleet.begin()
    visitor.sign_in()
    visitor.open(f"/admin/rollouts/{rollout['id']}", "Rollouts")
    visitor.page.get_by_role("button", name="Roll back the rollout").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Roll back", exact=True).click()
    wait_until(lambda: fleet.state(rollout), lambda state: state in ("reverting", "reverted"))
    expect(visitor.figure("State")).to_contain_text("revert")


def test_a_key_without_the_scope_sees_and_does_not_change(
    visitor: Visitor, fleet: Fleet, stopped: dict[str, Any]
) -> None:
    sign_in_with(visitor, fleet.service, "read")
    visitor.open(f"/admin/rollouts/{stopped['id']}", "Rollouts")
    expect(visitor.page.locator("main")).to_contain_text("it lacks the scope devices:admin")
    for verb in ("Pause", "Resume", "Cancel", "Roll back"):
        expect(visitor.page.get_by_role("button", name=f"{verb} the rollout")).to_be_disabled()
    visitor.open("/admin/rollouts", "Rollouts")
    form = visitor.section("Start a rollout")
    expect(form).to_contain_text("it lacks the scope devices:admin")
    expect(form.get_by_label("Release")).to_be_disabled()
    expect(form.get_by_role("button", name="Start the rollout")).to_be_disabled()
    button = visitor.page.get_by_role("button", name=f"Roll out agent {NEW}")
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", re.compile("it lacks the scope devices:admin"))


@screens
def test_a_rollout_is_started_from_a_release(
    visitor: Visitor, fleet: Fleet, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen, page = request.node.callspec.id, visitor.page
    fleet.clear()
    before = len(fleet.service.get("/rollouts")["items"])
    visitor.sign_in()
    visitor.open("/admin/rollouts", "Rollouts")
    form = visitor.section("Start a rollout")
    page.get_by_role("button", name=f"Roll out agent {NEW}").click()
    expect(form.get_by_label("Release")).to_be_focused()
    assert f"release={fleet.release['id']}" in page.url
    start = form.get_by_role("button", name="Start the rollout")
    expect(start).to_be_disabled()
    reach = form.get_by_role("status").first
    form.get_by_label("Devices, by a selector").fill("pi-*")
    expect(reach).to_contain_text("2 devices: first 1, then all 2.")
    form.get_by_label("Devices, by a selector").fill("*")
    expect(reach).to_contain_text("3 devices: first 1, then 2, then all 3.")
    form.get_by_label("Stages").fill("50, 100")
    form.get_by_label("Devices that go first").fill("0")
    expect(reach).to_contain_text("3 devices: first 2, then all 3.")
    form.get_by_label("Seconds that a device has to last").fill("60")
    visitor.screenshot(f"admin-new-rollout-{screen}")
    start.press("Enter")
    dialog = page.get_by_role("dialog", name=f"Roll out agent {NEW}?")
    expect(dialog).to_contain_text("It replaces the agent of 3 devices: first 2, then all 3.")
    visitor.screenshot(f"admin-new-rollout-asks-{screen}")
    assert visitor.accessibility_violations() == []
    assert not visitor.is_wider_than_the_screen()
    dialog.get_by_role("button", name="Leave it").click()
    expect(dialog).to_have_count(0)
    assert len(fleet.service.get("/rollouts")["items"]) == before
    start.click()
    dialog.get_by_role("button", name="Start it").click()
    page.wait_for_url(re.compile(r"#/admin/rollouts/[0-9a-f-]{36}$"))
    expect(visitor.figure("State")).to_contain_text("running")
    made = fleet.service.get(f"/rollouts/{page.url.rpartition('/')[2]}")
    told = {
        name: made[name] for name in ("on", "canary", "stages", "healthy_seconds", "check_in_seconds", "max_failed")
    }
    assert told == {
        "on": "*",
        "canary": 0,
        "stages": [50, 100],
        "healthy_seconds": 60,
        "check_in_seconds": 300,
        "max_failed": 0,
    }


def test_the_command_starts_the_same_rollout(visitor: Visitor, fleet: Fleet) -> None:
    visitor.sign_in()
    visitor.open("/admin/rollouts", "Rollouts")
    form = visitor.section("Start a rollout")
    form.get_by_label("Devices, by a selector").fill("pool=desk,ram>=2GiB")
    expect(form.get_by_role("status").first).to_contain_text("No device matches.")
    expect(form.get_by_role("button", name="Start the rollout")).to_be_disabled()
    command = visitor.copy_command("starting this rollout")
    assert command.endswith("/v1/rollouts")
    body = json.loads(shlex.split(command)[shlex.split(command).index("-d") + 1])
    assert (body["release_id"], body["on"], body["stages"]) == (
        fleet.release["id"],
        "pool=desk,ram>=2GiB",
        [10, 50, 100],
    )


def test_why_a_rollout_cannot_start_stands_at_its_field(visitor: Visitor, fleet: Fleet) -> None:
    fleet.clear()
    page = visitor.page
    visitor.sign_in()
    visitor.open("/admin/rollouts", "Rollouts")
    form = visitor.section("Start a rollout")

    def field(label: str) -> Locator:
        return form.locator(".form-row > div").filter(has=page.get_by_label(label))

    form.get_by_label("Devices, by a selector").fill("ram>=lots")
    expect(field("Devices, by a selector").get_by_role("alert")).to_contain_text("ram")
    expect(form.get_by_role("button", name="Start the rollout")).to_be_disabled()
    form.get_by_label("Devices, by a selector").fill("*")
    expect(form.get_by_role("status").first).to_contain_text("3 devices")
    form.get_by_label("Stages").fill("50, 10, 100")
    expect(field("Stages").get_by_role("alert")).to_have_text("Each stage goes further than the one before.")
    form.get_by_label("Stages").fill("100")
    # What the browser lets through here, as an older service would allow less.
    canary = form.get_by_label("Devices that go first")
    canary.evaluate("field => field.removeAttribute('max')")
    canary.fill("2000")
    start_it(page, form)
    expect(field("Devices that go first").get_by_role("alert")).to_contain_text("less than or equal to 1000")
    visitor.screenshot("admin-new-rollout-refused")
    canary.fill("1")
    expect(form.get_by_role("alert")).to_have_count(0)
    fleet.begin()
    start_it(page, form)
    expect(form.get_by_role("alert")).to_contain_text("is about to change device")
    fleet.clear()


def start_it(page: Page, form: Locator) -> None:
    form.get_by_role("button", name="Start the rollout").click()
    page.get_by_role("dialog").get_by_role("button", name="Start it").click()
