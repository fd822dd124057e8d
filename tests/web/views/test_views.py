"""Each view shows what the service holds, is accessible in light and dark, and fits a phone."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.web import handmade
from tests.web.data import MEASURED_PEAK_BYTES, Data
from tests.web.screens import screens
from tests.web.service import Service
from tests.web.visitor import Visitor

VIEWS: dict[str, tuple[Callable[[Data], str], str]] = {
    "overview": (lambda data: "/", "Overview"),
    "fleet": (lambda data: "/fleet", "Fleet"),
    "device": (lambda data: f"/devices/{data.idle.id}", "bench-pi-4"),
    "models": (lambda data: "/models", "Models"),
    "model": (lambda data: f"/models/{data.model['id']}", "mobilenet"),
    "builds": (lambda data: "/builds", "Builds"),
    "build": (lambda data: f"/builds/{data.build['id']}", "mobilenet-sparse"),
    "build-failed": (lambda data: f"/builds/{data.failed_build['id']}", "mobilenet-typo"),
    "artifact": (lambda data: f"/artifacts/{data.build['artifact_digest']}", "mobilenet-sparse"),
    "runs": (lambda data: "/runs", "Runs"),
    "run": (lambda data: f"/runs/{data.run['id']}", "mobilenet · mobilenet-sparse · digits-shifted on bench-pi-4"),
    "run-failed": (
        lambda data: f"/runs/{data.failed_run['id']}",
        "mobilenet · mobilenet-sparse · digits-shifted on bench-pi-4",
    ),
    "missing": (lambda data: "/nowhere", "Nothing here"),
}
MOST_SHIFTED = 0.1
"""Of the score for layout that moves by itself: more is felt (web.dev/articles/cls)."""
_WATCH_SHIFTS = """
  let seen = 0;
  const moves = (entries) => {
    for (const entry of entries) if (!entry.hadRecentInput) seen += entry.value;
  };
  const observer = new PerformanceObserver((list) => moves(list.getEntries()));
  observer.observe({ type: "layout-shift", buffered: true });
  window.shifted = () => {
    moves(observer.takeRecords());
    const score = seen;
    seen = 0;
    return score;
  };
"""
"""`shifted()` is the score since it was asked for last."""


@screens
def test_every_view_is_accessible_and_fits(
    visitor: Visitor, data: Data, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    visitor.page.add_init_script(_WATCH_SHIFTS)
    visitor.sign_in()
    for name, (address, heading) in VIEWS.items():
        visitor.open(address(data), heading)
        expect(visitor.page.locator(".loading")).to_have_count(0)
        for frame in visitor.page.locator(".chart-frame").all():
            visitor.come_near(frame)
            expect(frame).not_to_be_empty()
        assert visitor.page.evaluate("shifted()") <= MOST_SHIFTED, f"what was read on {name} has moved"
        visitor.screenshot(f"{name}-{screen}")
        assert not visitor.is_wider_than_the_screen(), name
        visitor.page.evaluate("shifted()")
        # Elsewhere only colours differ: nothing is checked twice.
        assert visitor.accessibility_violations(None if screen == "light" else ["color-contrast"]) == [], name


def test_fleet_shows_each_device_with_its_state(visitor: Visitor, data: Data, service: Service) -> None:
    data.idle.heartbeat()
    visitor.sign_in()
    visitor.open("/fleet", "Fleet")
    idle = visitor.page.get_by_role("row").filter(has_text="bench-pi-4")
    expect(idle).to_contain_text("online")
    expect(idle).to_contain_text("host")
    expect(idle.get_by_text("ago").or_(idle.get_by_text("now"))).to_be_visible()
    expect(visitor.page.get_by_role("row").filter(has_text="copied-key")).to_contain_text("quarantined")
    idle.get_by_role("link", name="bench-pi-4").click()
    visitor.heading("bench-pi-4")
    facts = visitor.section("Facts")
    expect(facts).to_contain_text("Cortex-A72")
    expect(facts).to_contain_text("4.00 GiB")
    expect(facts).to_contain_text("48.5 °C")
    runs = service.get(f"/runs?device_id={data.idle.id}")["items"]
    table = visitor.page.get_by_role("region", name="Runs on this device")
    expect(table.get_by_role("row")).to_have_count(1 + len(runs))


def test_build_shows_summary_recipe_and_log(visitor: Visitor, data: Data, service: Service) -> None:
    visitor.sign_in()
    visitor.open(f"/builds/{data.build['id']}", "mobilenet-sparse")
    expect(visitor.figure("Predicted peak")).to_have_text("3.43 MiB")
    expect(visitor.figure("Forward nodes")).to_have_text(str(handmade.LAYERS))
    expect(visitor.section("Summary")).to_contain_text(f"{4 * handmade.LAYERS} before pruning")
    expect(visitor.section("Recipe")).to_contain_text('"loss": "cross_entropy"')
    expect(visitor.section("Log")).to_contain_text("importing mobilenet-sparse\nkernel 3 of 10\npacking")
    runs = service.get(f"/runs?build_id={data.build['id']}")["items"]
    expect(visitor.section("Runs").get_by_role("row")).to_have_count(1 + len(runs))


def test_failed_build_and_failed_run_say_why(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.open(f"/builds/{data.failed_build['id']}", "mobilenet-typo")
    alert = visitor.page.get_by_role("alert")
    expect(alert).to_contain_text("failure 3003")
    expect(alert).to_contain_text("did you mean cross_entropy?")
    visitor.open(f"/runs/{data.failed_run['id']}", "bench-pi-4")
    expect(alert).to_contain_text("failure 2003")
    expect(alert).to_contain_text("1.2 MB are free")


def test_run_shows_loss_accuracy_times_and_memory(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.open(f"/runs/{data.run['id']}", "bench-pi-4")
    expect(visitor.figure("Accuracy, before → after")).to_have_text("31.0 % → 94.0 %")
    expect(visitor.figure("Loss, first → last")).to_have_text("2.300 → 0.3111")
    expect(visitor.figure("Step time, median")).to_have_text("11.0 ms")
    expect(visitor.figure("Step time, p90")).to_have_text("12.0 ms")
    expect(visitor.figure("Cold start")).to_have_text("84.0 ms")
    memory = visitor.section("Planned against measured memory")
    expect(memory).to_contain_text("3.43 MiB")
    expect(memory).to_contain_text(f"{MEASURED_PEAK_BYTES / 2**20:.2f} MiB")
    expect(memory).to_contain_text("+4.0 %")
    operators = visitor.section("Time per operator")
    expect(operators.get_by_role("row").nth(1)).to_contain_text("75.0 %")
    for row, bound in ((1, "arithmetic"), (2, "memory")):
        expect(operators.get_by_role("row").nth(row)).to_contain_text(bound)
    expect(operators).to_contain_text("The device's own limits are not known")
    operators.get_by_label("Order").select_option("lost")
    assert "kernels=lost" in visitor.page.url
    expect(visitor.section("Overview")).to_contain_text("stable, interval 3.1 %")
    expect(visitor.section("Health of the device")).to_contain_text("51.5 °C")
    expect(visitor.charts(visitor.section("Loss"))).to_be_visible()
    expect(visitor.section("Step time")).to_contain_text("40 samples: median 11.0 ms")


def test_charts_are_drawn(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.open(f"/runs/{data.run['id']}", "bench-pi-4")
    for title in ("Loss", "Step time"):
        canvas = visitor.charts(visitor.section(title))
        expect(canvas).to_be_visible()
        colours = canvas.evaluate(
            """element => {
                const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
                const seen = new Set();
                for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 250)
                    seen.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
                return [...seen];
            }"""
        )
        expected = "20,89,179" if title == "Loss" else "180,80,15"
        assert expected in colours, (title, colours[:10])


def test_overview_counts(visitor: Visitor, data: Data, service: Service) -> None:
    visitor.sign_in()
    devices = service.get("/devices")["items"]
    reachable = [device for device in devices if device["state"] in ("online", "busy")]
    expect(visitor.figure("Devices reachable")).to_have_text(str(len(reachable)))
    expect(visitor.figure("Models")).to_have_text(str(len(service.get("/models")["items"])))
    expect(visitor.section("Latest runs")).to_contain_text("31.0 % → 94.0 %")
    expect(visitor.section("Latest builds")).to_contain_text("mobilenet-sparse")


def test_unknown_id_shows_the_servers_problem(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    unknown = data.run["id"][:-12] + 12 * "0"
    visitor.open(f"/runs/{unknown}", "Run")
    expect(visitor.page.get_by_role("alert").first).to_contain_text(f"There is no run {unknown}")
