"""Runs are compared: figures, differences, curves, accuracy against memory; the choice is in the address."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.web.data import Data, start_run
from tests.web.device import Device, report, step
from tests.web.service import Service
from tests.web.visitor import Visitor

HURTFUL = "pi <script>alert(1)</script>"
PEAKS = {"compared-a": (3_000_000, 0.80), HURTFUL: (4_500_000, 0.90)}

LISTED = 20
"""Runs that the page lists at first."""


@dataclass(frozen=True)
class Compared:
    """Four runs: two schemes on two devices."""

    runs: list[dict[str, Any]]

    @property
    def ids(self) -> str:
        """As in the address."""
        return ",".join(run["id"] for run in self.runs)


@pytest.fixture(scope="module")
def compared(service: Service, data: Data) -> Compared:
    """Each finished, with a report of its own."""
    order = service.request_build(data.model, "compared-bias", update=[{"params": "*bias"}])
    other = service.wait_for_build(order, "succeeded")
    runs = []
    for name, (peak, accuracy) in PEAKS.items():
        device = Device(service, name)
        for build, more in ((data.build, 0), (other, 1_000_000)):
            run = start_run(service, build, device, data.dataset, steps=20)
            device.take_run()
            device.report(*map(step, range(1, 21)))
            result = report(20, peak + more, 3_600_000)
            result["eval_after"]["accuracy"] = accuracy
            device.finish(state="succeeded", report=result)
            runs.append(run)
    return Compared(runs)


def test_marked_runs_are_compared_and_the_address_restores_the_choice(visitor: Visitor, compared: Compared) -> None:
    visitor.sign_in()
    visitor.open("/runs", "Runs")
    for run in (compared.runs[0], compared.runs[2]):
        visitor.page.get_by_role("checkbox", name=run["id"][-8:]).check()
    visitor.page.get_by_role("link", name="Compare 2 marked").click()
    visitor.heading("Compare")
    figures = visitor.section("Figures")
    row = figures.get_by_role("row").filter(has_text=HURTFUL)
    expect(row).to_contain_text("+10.0 points")
    expect(row).to_contain_text("+50.0 %")
    figures.get_by_label(f"on {HURTFUL}").and_(visitor.page.get_by_role("radio")).check()
    base = figures.get_by_role("row").filter(has_text="compared-a")
    expect(base).to_contain_text("−10.0 points")
    visitor.section("Accuracy against cost").get_by_role("combobox", name="Against").select_option("step")
    visitor.section("Loss").get_by_label("Logarithmic").check()
    visitor.page.reload()
    expect(base).to_contain_text("−10.0 points")
    expect(visitor.section("Accuracy against cost").get_by_role("combobox", name="Against")).to_have_value("step")
    expect(visitor.section("Loss").get_by_label("Logarithmic")).to_be_checked()


def test_the_front_is_drawn_and_a_point_highlights_its_row(visitor: Visitor, compared: Compared) -> None:
    visitor.sign_in()
    visitor.open(f"/compare?runs={compared.ids}", "Compare")
    scatter = visitor.section("Accuracy against cost")
    expect(scatter.get_by_role("button")).to_have_count(4)
    expect(scatter.get_by_role("button", name="on the front")).to_have_count(2)
    scatter.get_by_role("button", name=f"{HURTFUL}: 90.0 %, 4.29 MiB, on the front").focus()
    visitor.page.keyboard.press("Enter")
    expect(visitor.section("Figures").locator("tr.selected")).to_contain_text(HURTFUL)
    assert f"run={compared.runs[2]['id']}" in visitor.page.url
    matrix = visitor.section("Devices by schemes")
    expect(matrix.get_by_role("row").filter(has_text="compared-a")).to_contain_text("80.0 %")
    expect(visitor.charts(visitor.section("Loss"))).to_be_visible()
    assert visitor.accessibility_violations() == []
    visitor.screenshot("compare-light")


@pytest.mark.parametrize(
    "context_options",
    [
        {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"},
        {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "dark"},
    ],
    ids=["360", "1920"],
)
def test_it_fits_every_screen(visitor: Visitor, compared: Compared, context_options: dict[str, Any]) -> None:
    visitor.sign_in()
    visitor.open(f"/compare?runs={compared.ids}", "Compare")
    expect(visitor.charts(visitor.section("Loss"))).to_be_visible()
    assert not visitor.is_wider_than_the_screen()
    assert visitor.accessibility_violations() == []
    visitor.screenshot(f"compare-dark-{context_options['viewport']['width']}")


def test_a_report_needs_no_service_and_runs_nothing(visitor: Visitor, compared: Compared, tmp_path: Path) -> None:
    visitor.sign_in()
    visitor.open(f"/compare?runs={compared.ids}", "Compare")
    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("button", name="Save as a report").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    text = path.read_text()
    assert "<script" not in text
    assert not re.search(r"(src|href)=", text)
    visitor.page.goto(path.as_uri())
    visitor.heading("Comparison of 4 runs")
    assert visitor.page.locator("svg:not(.dot)").count() == 2
    assert visitor.page.locator("polyline").count() == 1 + 4
    expect(visitor.page.get_by_role("row").filter(has_text=HURTFUL).first).to_contain_text("+10.0 points")
    visitor.screenshot("compare-report")


def test_runs_are_found_removed_and_missed(visitor: Visitor, compared: Compared) -> None:
    nobody = "00000000-0000-7000-8000-000000000000"
    visitor.sign_in()
    visitor.open(f"/runs/{compared.runs[0]['id']}", "compared-a")
    visitor.page.get_by_role("main").get_by_role("link", name="Compare", exact=True).click()
    visitor.heading("Compare")
    finder = visitor.section("Choose runs")
    finder.get_by_label("Search runs").fill(f"bias {HURTFUL[:2]}")
    finder.get_by_role("checkbox", name=compared.runs[3]["id"][-8:]).check()
    rows = visitor.section("Figures").locator("tbody tr")
    expect(rows).to_have_count(2)
    visitor.page.get_by_role("button", name="Remove").first.click()
    expect(rows).to_have_count(1)
    visitor.open(f"/compare?runs={compared.runs[3]['id']},{nobody}", "Compare")
    visitor.page.get_by_role("button", name="Leave them out").click()
    expect(visitor.page.get_by_role("alert")).to_have_count(0)
    assert nobody not in visitor.page.url


def test_a_run_beyond_the_newest_page_is_found(visitor: Visitor, service: Service, compared: Compared) -> None:
    """The newest are listed, the service searches all of them: what the list does not have is found and compared."""
    old = compared.runs[0]
    newest = service.get("/runs?limit=1")["items"][0]
    order = {key: newest[key] for key in ("build_id", "device_id", "dataset_id", "steps")}
    for _ in range(LISTED):
        service.post("/runs", order)
    visitor.sign_in()
    visitor.open("/compare", "Compare")
    finder = visitor.section("Choose runs")
    found = finder.get_by_role("checkbox")
    expect(found).to_have_count(LISTED)
    wanted = finder.get_by_role("checkbox", name=old["id"][-8:])
    expect(wanted).to_have_count(0)
    with visitor.page.expect_request(lambda request: "/v1/runs?text=compared-a" in request.url):
        finder.get_by_label("Search runs").fill("compared-a")
    wanted.check()
    expect(found).to_have_count(2)
    expect(visitor.section("Figures").locator("tbody tr")).to_have_count(1)
    finder.get_by_label("Search runs").fill(old["id"][-8:])
    expect(found).to_have_count(1)
    expect(wanted).to_be_checked()
    visitor.screenshot("compare-found")


def test_it_prints_as_a_report(visitor: Visitor, compared: Compared) -> None:
    visitor.page.add_init_script("IntersectionObserver.prototype.observe = () => {}")  # nobody comes near
    visitor.sign_in()
    visitor.open(f"/compare?runs={compared.ids}", "Compare")
    loss = visitor.section("Loss")
    expect(loss.locator(".chart-frame")).to_have_count(1)
    expect(loss.locator("canvas")).to_have_count(0)
    drawn = "() => { dispatchEvent(new Event('beforeprint')); return document.querySelector('.chart-frame canvas'); }"
    visitor.page.wait_for_function(drawn)
    expect(loss.locator("canvas")).to_be_visible()
    visitor.page.emulate_media(media="print")
    expect(visitor.page.get_by_role("navigation", name="Main")).to_be_hidden()
    expect(visitor.section("Choose runs")).to_be_hidden()
    expect(visitor.section("Figures").get_by_role("radio").first).to_be_hidden()
    expect(visitor.section("Figures").get_by_role("button", name="Remove").first).to_be_hidden()
    expect(visitor.section("Figures").get_by_role("table")).to_be_visible()
    visitor.screenshot("compare-print")
