"""Builds and runs are followed live: the page changes without a reload, and forms start new ones."""

from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.web.data import Data, start_run
from tests.web.device import Device, evaluation, loss, report, step
from tests.web.service import Service, wait_until
from tests.web.visitor import DRAWN, Visitor


def test_build_is_followed_live(visitor: Visitor, data: Data, service: Service, tmp_path: Path) -> None:
    gate = tmp_path / "go on"
    build = service.request_build(data.model, "followed", wait_for=str(gate))
    visitor.sign_in()
    visitor.open(f"/builds/{build['id']}", "followed")
    expect(visitor.page.get_by_text("kernels: 3 of 10")).to_be_visible()
    expect(visitor.page.get_by_role("progressbar")).to_have_attribute("value", "0.3")
    expect(visitor.section("Log")).to_contain_text("kernel 3 of 10")
    expect(visitor.page.get_by_text("live", exact=True)).to_be_visible()
    visitor.screenshot("build-running-light")
    assert visitor.accessibility_violations() == []
    gate.touch()
    expect(visitor.page.get_by_text("succeeded", exact=True)).to_be_visible()
    expect(visitor.section("Log")).to_contain_text("packing")
    visitor.page.get_by_role("link", name="Open the artifact").click()
    expect(visitor.section("Memory timeline").locator("svg[role=img]")).to_be_visible()


def test_build_can_be_cancelled(visitor: Visitor, data: Data, service: Service, tmp_path: Path) -> None:
    build = service.request_build(data.model, "unwanted", wait_for=str(tmp_path / "never"))
    visitor.sign_in()
    visitor.open(f"/builds/{build['id']}", "unwanted")
    button = visitor.page.get_by_role("button", name="Cancel build")
    button.click()
    dialog = visitor.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Leave it").click()
    assert service.get(f"/builds/{build['id']}")["state"] != "cancelled"
    button.click()
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(visitor.page.get_by_text("cancelled", exact=True)).to_be_visible()
    assert service.get(f"/builds/{build['id']}")["state"] == "cancelled"


def test_run_is_followed_live(visitor: Visitor, data: Data, service: Service) -> None:
    device = Device(service, "live-device")
    run = start_run(service, data.build, device, data.dataset, steps=30)
    visitor.sign_in()
    visitor.open(f"/runs/{run['id']}", "live-device")
    expect(visitor.page.get_by_text("Waiting for the device")).to_be_visible()
    device.take_run()
    device.report(evaluation("eval_before", 0.25), *map(step, range(1, 11)))
    expect(visitor.page.get_by_text("step 10 of 30")).to_be_visible()
    expect(visitor.figure("Loss, first → last")).to_have_text(f"2.300 → {loss(10):#.4g}")
    expect(visitor.charts(visitor.section("Loss"))).to_be_visible()
    visitor.screenshot("run-live-light")
    assert visitor.accessibility_violations() == []
    device.report(*map(step, range(11, 31)))
    expect(visitor.figure("Loss, first → last")).to_have_text(f"2.300 → {loss(30):#.4g}")
    device.finish(state="succeeded", report=report(30, 3_700_000, 3_600_000))
    expect(visitor.figure("Accuracy, before → after")).to_have_text("31.0 % → 94.0 %")
    expect(visitor.page.get_by_text("succeeded", exact=True)).to_be_visible()


def test_fleet_shows_a_device_at_work_and_a_new_one(visitor: Visitor, data: Data, service: Service) -> None:
    visitor.sign_in()
    visitor.open("/fleet", "Fleet")
    device = Device(service, "newcomer")
    row = visitor.page.get_by_role("row").filter(has_text="newcomer")
    expect(row).to_contain_text("online")
    run = start_run(service, data.build, device, data.dataset)
    device.take_run()
    expect(row).to_contain_text("busy")
    job = row.get_by_role("link", name=data.build["name"])
    expect(job).to_have_attribute("href", f"#/runs/{run['id']}")
    device.finish(state="succeeded", report=None)


def runs_of(service: Service, device: Device) -> list[dict[str, Any]]:
    """What a device was asked to run."""
    found: list[dict[str, Any]] = service.get(f"/runs?device_id={device.id}")["items"]
    return found


def test_a_form_starts_a_run(visitor: Visitor, data: Data, service: Service) -> None:
    first, second = Device(service, "form-device"), Device(service, "form-second")
    visitor.sign_in()
    visitor.open(f"/builds/{data.build['id']}", data.build["name"])
    form = visitor.section("Start runs")
    expect(form.get_by_label("Training data")).to_have_value(data.dataset["id"])
    ticked = form.get_by_role("group", name="Devices").get_by_role("checkbox", checked=True)
    while ticked.count():
        ticked.first.uncheck()
    form.get_by_label("form-device").check()
    form.get_by_label("form-second").check()
    form.get_by_label("Steps", exact=True).fill("7")
    form.get_by_role("button", name="Start 2 runs").click()
    expect(form.get_by_role("link", name="form-second")).to_be_visible()
    for device in (first, second):
        found = wait_until(partial(runs_of, service, device), bool)
        assert [(run["steps"], run["dataset_id"], run["save_weights"]) for run in found] == [
            (7, data.dataset["id"], True)
        ]
    form.get_by_role("link", name="form-device").click()
    visitor.heading("mobilenet · mobilenet-sparse · digits-shifted on form-device")
    for device in (first, second):
        device.take_run()
        device.finish(state="succeeded", report=None)


def test_a_live_chart_keeps_what_was_zoomed_and_how_it_is_drawn(visitor: Visitor, data: Data, service: Service) -> None:
    device = Device(service, "zoomed-device")
    run = start_run(service, data.build, device, data.dataset, steps=90)
    visitor.sign_in()
    device.take_run()
    device.report(*map(step, range(1, 41)))
    visitor.open(f"/runs/{run['id']}", "zoomed-device")
    section = visitor.section("Loss")
    section.get_by_label("Logarithmic").check()
    section.get_by_label("Smoothing").select_option("much")
    assert "axis=log" in visitor.page.url and "smoothing=0.98" in visitor.page.url
    expect(visitor.charts(section)).to_be_visible()
    plot = section.locator(".u-over")
    box = plot.bounding_box()
    assert box is not None
    visitor.page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
    visitor.page.mouse.down()
    visitor.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60, steps=5)
    visitor.page.mouse.up()
    plot.hover(position={"x": box["width"] - 2, "y": 50})
    last = section.locator(".u-legend .u-value").first
    zoomed = int(last.inner_text())
    assert zoomed < 30
    device.report(*map(step, range(41, 81)))
    expect(visitor.page.get_by_text("step 80 of 90")).to_be_visible()
    plot.hover(position={"x": box["width"] - 3, "y": 52})
    expect(last).to_have_text(str(zoomed))
    plot.dblclick(position={"x": 30, "y": 30})
    plot.hover(position={"x": box["width"] - 2, "y": 50})
    expect(last).to_have_text("80")
    visitor.page.reload()
    expect(section.get_by_label("Logarithmic")).to_be_checked()
    visitor.screenshot("run-log-light")
    felt = [{"step": made, "temperature_c": 44.0 + made / 2, "throttled": made >= 60} for made in range(0, 81, 10)]
    heat = {"throttled": True, "max_temperature_c": 84.0, "samples": [{"step": None, "temperature_c": 99.0}, *felt]}
    device.finish(state="succeeded", report=report(80, 3_700_000, 3_600_000) | {"health": heat})
    expect(visitor.page.get_by_text("succeeded, throttled", exact=True)).to_be_visible()
    temperature = visitor.section("Temperature")
    expect(temperature).to_contain_text("9 readings, up to 84 °C. Throttled from step 61.")
    drawn = visitor.charts(temperature)
    expect(drawn).to_be_visible()
    assert min(drawn.evaluate(DRAWN, ["--series-1", "--bad"])) > 10
    visitor.screenshot("run-throttled")
