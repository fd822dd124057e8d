"""The first page: the steps on an empty service, what needs somebody, what is under way; all counts are true."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.web.data import Data, start_run
from tests.web.device import Device, report, step
from tests.web.service import Service, running_service, wait_until
from tests.web.visitor import Visitor

DARK_PHONE = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark", "has_touch": True}


def test_empty_service_has_four_steps_that_are_marked_when_done(
    visitor: Visitor, web_dist: Path, tmp_path: Path
) -> None:
    with running_service(tmp_path, web_dist) as service:
        page = visitor.page
        page.goto(f"{service.url}/#key={service.key}")
        steps = visitor.section("First steps").get_by_role("listitem")
        expect(steps).to_have_count(4)
        expect(visitor.section("Needs you")).to_contain_text("Nothing.")
        for name, address in (
            ("Upload a model", "#/models?upload=1"),
            ("Upload data", "#/datasets?upload=1"),
            ("Enrol a device", "#/fleet?enrol=1"),
        ):
            expect(page.get_by_role("link", name=name)).to_have_attribute("href", address)
        expect(steps.nth(3)).to_contain_text("Upload a model first.")
        assert visitor.accessibility_violations() == []
        visitor.screenshot("start-empty")
        page.set_viewport_size({"width": 1920, "height": 1080})
        visitor.screenshot("start-empty-1920")
        model = service.add_model("first")
        Device(service, "first-board")
        page.reload()
        expect(steps.nth(0)).to_contain_text("(done)")
        expect(steps.nth(1)).not_to_contain_text("(done)")
        expect(steps.nth(2)).to_contain_text("(done)")
        page.get_by_role("link", name="Start from a preset").click()
        visitor.heading("first")
        data = service.add_dataset("digits", samples=24)
        build = service.wait_for_build(service.request_build(model, "net"), "succeeded")
        start_run(service, build, Device(service, "second-board"), data)
        visitor.open("/", "Overview")
        expect(visitor.figure("Runs under way")).to_have_text("1")
        expect(steps).to_have_count(0)


def test_steps_say_why_a_key_may_not_do_them(visitor: Visitor, web_dist: Path, tmp_path: Path) -> None:
    with running_service(tmp_path, web_dist) as service:
        made = service.post("/api-keys", {"name": "reader", "scopes": ["read"], "ttl_days": 1})
        visitor.page.goto(f"{service.url}/#key={made['key']}")
        steps = visitor.section("First steps")
        expect(steps).to_contain_text("it lacks the scope devices:admin")
        expect(steps.get_by_role("link")).to_have_count(0)


def test_what_failed_is_named_with_why_and_leads_there(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    needs = visitor.section("Needs you")
    expect(needs).to_contain_text("1 device is quarantined")
    expect(needs).to_contain_text("The model needs 3.6 MB and 1.2 MB are free.")
    expect(needs.get_by_role("link", name="mobilenet-typo")).to_be_visible()
    needs.get_by_role("link", name="mobilenet-sparse on bench-pi-4").click()
    visitor.heading("mobilenet · mobilenet-sparse · digits-shifted on bench-pi-4")


@pytest.mark.parametrize("context_options", [{"viewport": {"width": 1280, "height": 900}}, DARK_PHONE], ids=str)
def test_what_is_under_way_advances_without_a_reload(
    visitor: Visitor, data: Data, service: Service, tmp_path: Path
) -> None:
    visitor.sign_in()
    under_way = visitor.page.get_by_role("region", name="Runs under way")
    expect(visitor.figure("Runs under way")).to_be_visible()
    expect(under_way).to_have_count(0)
    gate = tmp_path / "go on"
    build = service.request_build(data.model, f"followed-{gate.parent.name}", wait_for=str(gate))
    device = Device(service, "start-device", {"health": {"throttled": True}})
    start_run(service, data.build, device, data.dataset)
    device.take_run()
    device.report(*map(step, range(1, 11)))
    expect(under_way).to_contain_text("10 / 40")
    expect(visitor.page.get_by_role("region", name="Builds under way")).to_contain_text("kernels")
    device.report(*map(step, range(11, 31)))
    expect(under_way).to_contain_text("30 / 40")
    expect(visitor.section("Needs you")).to_contain_text("slowed down now")
    width = visitor.page.evaluate("innerWidth")
    visitor.screenshot(f"start-under-way-{width}")
    assert visitor.accessibility_violations(["color-contrast"] if width == 360 else None) == []
    assert not visitor.is_wider_than_the_screen()
    hot = report(40, 3_700_000, 3_600_000)
    device.finish(state="succeeded", report={**hot, "health": {**hot["health"], "throttled": True}})
    expect(under_way).to_have_count(0)
    expect(visitor.section("Needs you")).to_contain_text("succeeded on")
    gate.touch()
    service.wait_for_build(build, "succeeded")
    expect(visitor.page.get_by_role("region", name="Builds under way")).to_have_count(0)


def test_counts_are_those_of_the_service(visitor: Visitor, data: Data, service: Service) -> None:
    for number in range(3):
        Device(service, f"counted-{number}")
    visitor.sign_in()
    total = service.get("/devices?limit=1")["total"]
    expect(visitor.page.locator(".figure").filter(has_text="Devices reachable")).to_contain_text(f"of {total} enrolled")
    runs = wait_until(lambda: service.get("/overview")["runs"], bool)
    shown = visitor.page.locator(".figure").filter(has_text="Runs under way")
    expect(shown).to_contain_text(f"{sum(runs.values())} in all")
