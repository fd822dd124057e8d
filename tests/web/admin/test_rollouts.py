"""Admin, rollouts: how far one is, why it stopped, and what is done with it; the releases of the agent."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from pock_server.signing import read_key
from tests.server.updating.agent_files import agent_file, document
from tests.web.conftest import visiting
from tests.web.device import Device
from tests.web.service import Service, running_service, wait_until
from tests.web.admin.test_members import HOSTILE, SCREENS, sign_in_with
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


@pytest.mark.parametrize("context_options", SCREENS.values(), ids=SCREENS.keys())
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
