"""Campaigns: the list, the grid as it goes, what is done with one, and the form that starts one."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.web.admin.test_members import HOSTILE, sign_in_with
from tests.web.conftest import visiting
from tests.web.device import Device, report
from tests.web.screens import screens
from tests.web.service import Service, running_service, wait_until
from tests.web.visitor import Visitor

BIG = 20
"""Devices of the large campaign; with two builds and 25 seeds that is a thousand cells."""


@dataclass(frozen=True)
class Lab:
    """A service of its own with two builds, a pool of devices that work, and a large one of silent ones."""

    service: Service
    builds: list[dict[str, Any]]
    dataset: dict[str, Any]
    devices: list[Device]

    def start(self, name: str, **changes: Any) -> dict[str, Any]:
        """A campaign of both builds on the pool that works."""
        order = {"name": name, "build_ids": [build["id"] for build in self.builds], "on": "pool=desk", "steps": 20}
        order |= {"dataset_id": self.dataset["id"], "seeds": [1, 2], "retries": {}, **changes}
        campaign: dict[str, Any] = self.service.post("/campaigns", order)
        return campaign

    def get(self, campaign: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.service.get(f"/campaigns/{campaign['id']}")
        return found

    def work(self, device: Device, accuracy: float) -> None:
        """Do the next run of a device."""
        device.take_run()
        told = report(20, 3_700_000, 3_600_000)
        told["eval_after"]["accuracy"] = accuracy
        device.finish(state="succeeded", report=told)

    def to_the_end(self, campaign: dict[str, Any]) -> None:
        """Do all runs of a campaign of four a device."""
        for turn in range(4):
            for place, device in enumerate(self.devices):
                self.work(device, 0.80 + 0.02 * turn + 0.05 * place)
        wait_until(lambda: self.get(campaign)["state"], lambda state: state == "succeeded")

    def cancel(self, campaign: dict[str, Any]) -> None:
        """End it, so that its runs are not taken by the next test."""
        self.service.post(f"/campaigns/{campaign['id']}/cancel", {})
        wait_until(lambda: self.get(campaign)["state"], lambda state: state == "cancelled")


@pytest.fixture(scope="module")
def lab(web_dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_service(tmp_path_factory.mktemp("campaigns"), web_dist) as service:
        model, dataset = service.add_model("mobilenet"), service.add_dataset("digits", 24)
        recipe = service.post("/recipes", {"name": "last4", "text": "loss: cross_entropy\nbatch: 8\n"})
        named = service.post("/builds", {"model_id": model["id"], "recipe_id": recipe["id"], "target": "host"})
        other = service.request_build(model, HOSTILE, update=[{"params": "*bias"}])
        builds = [service.wait_for_build(build, "succeeded") for build in (named, other)]

        def enrol(name: str, pool: str) -> Device:
            return Device(service, name, token=service.post("/enrollment-tokens", {"pool": pool})["token"])

        for number in range(BIG):
            enrol(f"shelf-{number}", "shelf")
        yield Lab(service, builds, dataset, [enrol(name, "desk") for name in ("board-1", HOSTILE)])


@pytest.fixture
def visitor(browser: Browser, lab: Lab, node_modules: Path, context_options: dict[str, Any]) -> Iterator[Visitor]:
    """A person who is not signed in yet, at the service of these tests."""
    yield from visiting(browser, lab.service, node_modules, context_options)


@pytest.fixture(scope="module")
def finished(lab: Lab) -> dict[str, Any]:
    """A campaign that succeeded."""
    campaign = lab.start(HOSTILE)
    lab.to_the_end(campaign)
    return campaign


def row_of(visitor: Visitor, device: str) -> Locator:
    """The row of a device in the grid."""
    return visitor.section("Grid").locator("tbody tr").filter(has=visitor.page.get_by_role("link", name=device))


@screens
def test_campaigns_are_accessible_fit_and_hold_hostile_texts(
    visitor: Visitor, finished: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    views = {
        "list": ("/campaigns", "Campaigns"),
        "grid": (f"/campaigns/{finished['id']}", "Campaign"),
        "form": ("/campaigns?new=1", "Start a campaign"),
    }
    for name, (address, heading) in views.items():
        visitor.open(address, heading)
        expect(visitor.page.locator("main").get_by_text(HOSTILE).first).to_be_visible()
        expect(visitor.page.locator(".loading")).to_have_count(0)
        visitor.screenshot(f"campaigns-{name}-{screen}")
        assert visitor.page.locator("main img").count() == 0
        assert not visitor.is_wider_than_the_screen(), name
        if screen in ("light", "dark"):
            assert visitor.accessibility_violations(["color-contrast"] if screen == "dark" else None) == [], name


def test_the_form_starts_a_campaign_whose_grid_goes_on_by_itself(
    visitor: Visitor, lab: Lab, finished: dict[str, Any]
) -> None:
    page = visitor.page
    visitor.sign_in()
    visitor.open("/runs", "Runs")
    page.get_by_role("main").get_by_role("link", name="Campaigns").click()
    visitor.heading("Campaigns")
    page.get_by_role("link", name="Start a campaign").click()
    visitor.heading("Start a campaign")
    expect(page.get_by_text("Choose a build.")).to_be_visible()
    expect(page.get_by_role("button", name="Start 0 runs")).to_be_disabled()
    page.get_by_role("checkbox", name="last4").check()
    page.get_by_label("Search builds").fill("<img")
    page.get_by_role("checkbox", name=HOSTILE).check()
    page.get_by_role("combobox", name="Pool").select_option("desk")
    page.get_by_label("Name", exact=True).fill("by form")
    page.get_by_role("combobox", name="Evaluation data").select_option(lab.dataset["id"])
    page.get_by_label("Seeds").fill("1-2")
    page.get_by_label("Canary devices").fill("0")
    expect(page.get_by_text("8 runs: 2 builds on 2 devices with 2 seeds")).to_be_visible()
    page.get_by_role("button", name="Start 8 runs").click()
    visitor.heading("by form")
    board, other = row_of(visitor, "board-1"), row_of(visitor, HOSTILE)
    expect(board.get_by_label(re.compile("^Seed"))).to_have_count(4)
    expect(board.get_by_label("running")).to_have_count(1)
    page.evaluate("""() => {
        const row = [...document.querySelectorAll(".grid tbody tr")].find(one => one.textContent.includes("board-1"))
        window.changes = 0
        new MutationObserver(found => { window.changes += found.length })
            .observe(row, { subtree: true, childList: true, attributes: true, characterData: true })
    }""")
    lab.work(lab.devices[1], 0.90)
    expect(other.get_by_label("Seed 1: succeeded")).to_have_count(1)
    expect(other).to_contain_text("90.0 %")
    visitor.screenshot("campaigns-live")
    assert page.evaluate("window.changes") == 0, "A row of which nothing changed is not drawn again."
    lab.work(lab.devices[0], 0.80)
    expect(board.get_by_label("Seed 1: succeeded")).to_have_count(1)
    for device, accuracies in zip(lab.devices, ([0.81, 0.82, 0.83], [0.91, 0.92, 0.93]), strict=True):
        for accuracy in accuracies:
            lab.work(device, accuracy)
    expect(visitor.figure("State")).to_have_text("succeeded")
    expect(visitor.figure("Succeeded")).to_have_text("8")
    expect(page.get_by_label("Grid of devices and builds").get_by_label("succeeded")).to_have_count(8)
    expect(board).to_contain_text("±")


def test_results_are_downloaded_and_compared_and_marks_lead_to_runs(
    visitor: Visitor, finished: dict[str, Any], tmp_path: Path
) -> None:
    page = visitor.page
    visitor.sign_in()
    visitor.open(f"/campaigns/{finished['id']}", "Campaign")
    board = row_of(visitor, "board-1")
    results = visitor.section("Results").get_by_role("row").filter(has_text="last4")
    expect(results).to_contain_text("4 of 4")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()
    path = tmp_path / "results.csv"
    download.value.save_as(path)
    assert [row["succeeded"] for row in csv.DictReader(path.open())] == ["4", "4"]
    visitor.section("Results").get_by_role("combobox", name="A row for each").select_option("device")
    expect(visitor.section("Results").locator("tbody tr")).to_have_count(4)
    assert "by=device" in page.url
    visitor.section("Results").get_by_role("link", name="Compare 8 runs of all builds").click()
    visitor.heading("Compare")
    expect(visitor.section("Figures").locator("tbody tr")).to_have_count(8)
    page.go_back()
    mark = board.get_by_label("Seed 1: succeeded").first
    mark.focus()
    for key, seed in (("ArrowRight", 2), ("End", 2), ("ArrowUp", 2), ("Home", 1), ("ArrowDown", 1), ("ArrowRight", 2)):
        page.keyboard.press(key)
        expect(page.locator(".cell-mark:focus")).to_have_attribute("aria-label", f"Seed {seed}: succeeded")
    expect(page.locator(".cell-mark[tabindex='0']")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("board-1")
    head = page.locator(".page-head")
    expect(head).to_contain_text("Part of campaign")
    visitor.screenshot("run-of-a-campaign")
    head.get_by_role("link", name=HOSTILE).click()
    visitor.heading("Campaign")
    assert page.url.endswith(f"/campaigns/{finished['id']}")


def test_a_campaign_is_paused_resumed_cancelled_and_deleted(visitor: Visitor, lab: Lab) -> None:
    page = visitor.page
    campaign = lab.start("halted", seeds=[1, 2, 3])
    visitor.sign_in()
    visitor.open(f"/campaigns/{campaign['id']}", "halted")

    def tell(verb: str, state: str) -> None:
        page.get_by_role("button", name=f"{verb} halted").click()
        page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()
        expect(visitor.figure("State")).to_have_text(state)

    resume = page.get_by_role("button", name="Resume halted")
    expect(resume).to_be_disabled()
    expect(resume).to_have_attribute("title", "It is running; only one that is paused can be told this.")
    tell("Pause", "paused")
    assert lab.get(campaign)["state"] == "paused"
    expect(page.locator("main")).to_contain_text("no further runs are asked for")
    tell("Resume", "running")
    page.get_by_role("button", name="Cancel halted").click()
    page.get_by_role("dialog").get_by_role("button", name="Leave it").click()
    assert lab.get(campaign)["state"] == "running"
    tell("Cancel", "cancelled")
    cells = page.get_by_label("Grid of devices and builds")
    expect(cells.get_by_label("cancelled")).to_have_count(2)
    expect(cells.get_by_label("skipped")).to_have_count(10)
    page.get_by_role("button", name="Delete halted").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    visitor.heading("Campaigns")
    expect(page.get_by_role("link", name="halted")).to_have_count(0)


def test_why_a_campaign_stopped_and_who_failed(visitor: Visitor, lab: Lab) -> None:
    campaign = lab.start("bad", stop={"failed": 1})
    lab.devices[1].take_run()
    lab.devices[1].finish(state="failed", failure={"code": 2003, "detail": HOSTILE})
    wait_until(lambda: lab.get(campaign)["state"], lambda state: state == "failed")
    visitor.sign_in()
    visitor.open("/campaigns", "Campaigns")
    row = visitor.section("All campaigns").get_by_role("row").filter(has_text="bad")
    expect(row).to_contain_text("1 cell failed; it stops at 1.")
    expect(row).to_contain_text("8 of 8")
    row.get_by_role("link").click()
    visitor.heading("bad")
    expect(visitor.section("How it stands")).to_contain_text("1 cell failed; it stops at 1.")
    expect(visitor.figure("Failed")).to_have_text("1")
    assert visitor.copy_command("Failed").endswith(f"/campaigns/{campaign['id']} | jq .cells.failed")
    grid = visitor.section("Grid")
    grid.get_by_role("combobox", name="Devices").select_option("failed")
    expect(grid.locator("tbody tr")).to_have_count(1)
    mark = grid.get_by_label(re.compile("failed$"))
    expect(mark).to_have_attribute("title", f"Seed 1: failed: {HOSTILE}")
    assert "show=failed" in visitor.page.url
    visitor.screenshot("campaigns-failed")


def test_what_the_service_refuses_is_told_at_its_field(visitor: Visitor, lab: Lab) -> None:
    page = visitor.page
    visitor.sign_in()
    builds = ",".join(build["id"] for build in lab.builds)
    visitor.open(f"/campaigns?new=1&builds={builds}", "Start a campaign")
    expect(page.get_by_text("2 chosen")).to_be_visible()
    devices = page.get_by_role("group", name="Devices")
    devices.get_by_label("By a selector").check()
    devices.get_by_role("textbox", name="Selector").fill("ram>=lots")
    expect(devices.get_by_role("alert")).to_contain_text("is a number of bytes")
    devices.get_by_role("textbox", name="Selector").fill("nowhere-*")
    expect(page.get_by_text("No chosen device is of host.")).to_be_visible()
    page.get_by_label("Seeds").fill("0-4000")
    expect(page.get_by_text("A campaign has 1000 seeds at most.").first).to_be_visible()
    page.get_by_label("Seeds").fill("0-499")
    devices.get_by_label("All of a pool").check()
    devices.get_by_role("combobox", name="Pool").select_option("shelf")
    expect(page.get_by_text("20,000 runs: 2 builds on 20 devices with 500 seeds")).to_be_visible()
    expect(page.get_by_role("button", name="Start 20,000 runs")).to_be_disabled()
    page.get_by_label("Seeds").fill("4")
    devices.get_by_label("Some", exact=True).check()
    devices.get_by_label("Search devices").fill("shelf-1")
    devices.get_by_role("checkbox", name="shelf-12").check()
    devices.get_by_label("Search devices").fill("shelf-7")
    devices.get_by_role("checkbox", name="shelf-7").check()
    expect(page.get_by_text("4 runs: 2 builds on 2 devices with 1 seed")).to_be_visible()
    found = lab.service.get("/devices?on=shelf-7")["items"][0]
    assert lab.service.client.delete(f"/devices/{found['id']}").status_code == 204
    page.get_by_role("button", name="Start 4 runs").click()
    expect(devices.get_by_role("alert")).to_contain_text(found["id"])
    devices.get_by_role("checkbox", name="shelf-7").click()  # and it is gone: the service does not list it any more
    page.get_by_role("button", name="Start 2 runs").click()
    visitor.heading("sweep")
    expect(visitor.section("Grid").locator("tbody tr")).to_have_count(1)
    (campaign,) = lab.service.get("/campaigns?name=sweep")["items"]
    assert campaign["order"]["seeds"] == [4] and campaign["order"]["canary"]["devices"] == 1
    assert campaign["order"]["stop"]["failed_share"] == 0.2
    lab.cancel(campaign)


def test_a_key_without_the_scope_sees_and_does_not_change(visitor: Visitor, lab: Lab, finished: dict[str, Any]) -> None:
    page = visitor.page
    sign_in_with(visitor, lab.service, "read")
    visitor.open("/campaigns", "Campaigns")
    expect(page.get_by_role("button", name="Start a campaign")).to_be_disabled()
    visitor.open(f"/campaigns/{finished['id']}", "Campaign")
    expect(page.locator("main")).to_contain_text("it lacks the scope runs:write")
    for verb in ("Pause", "Resume", "Cancel", "Delete"):
        expect(page.get_by_role("button", name=f"{verb} {HOSTILE}")).to_be_disabled()
    expect(page.get_by_label("Grid of devices and builds").get_by_label("succeeded")).to_have_count(8)
    visitor.open("/campaigns?new=1", "Start a campaign")
    expect(page.locator("main")).to_contain_text("it lacks the scope runs:write")
    expect(page.get_by_label("Seeds")).to_be_disabled()


def test_a_thousand_cells_are_drawn_a_part_at_a_time(visitor: Visitor, lab: Lab) -> None:
    campaign = lab.start("large", on="pool=shelf", seeds=list(range(25)))
    lab.service.post(f"/campaigns/{campaign['id']}/pause", {})
    total = lab.get(campaign)["cells"]["total"]
    assert total >= 900
    visitor.sign_in()
    visitor.open(f"/campaigns/{campaign['id']}", "large")
    grid = visitor.section("Grid")
    expect(grid).to_contain_text(f"12 of {total // 50} devices")
    expect(grid.locator(".cell-mark")).to_have_count(12 * 2 * 25)
    expect(grid.locator("tbody tr").first).to_contain_text("shelf-0")
    visitor.screenshot("campaigns-large")
    grid.get_by_role("button", name="Show more devices").click()
    expect(grid.locator("tbody tr")).to_have_count(total // 50)
    grid.get_by_label("Search devices").fill("shelf-19")
    expect(grid.locator("tbody tr")).to_have_count(1)
    lab.cancel(campaign)
    expect(grid.get_by_label("skipped").first).to_be_visible()
