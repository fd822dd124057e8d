"""The page of one device: what it is, when it may work, what it measured; and what can be changed."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.web.data import Data, start_run
from tests.web.device import Device, report
from tests.web.fleet.test_fleet import looks_right
from tests.web.screens import screens
from tests.web.service import Service, wait_until
from tests.web.visitor import DRAWN, Visitor

HOT = {"health": {"temperature_c": 84.2, "throttled": True}, "features": ["repeats", "policies"]}


@screens
def test_a_device_tells_how_it_is_and_when_it_may_work(
    visitor: Visitor, data: Data, service: Service, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    pool = f"kitchen-{screen}"
    token = service.post("/enrollment-tokens", {"name": f"hot-{screen}", "pool": pool})["token"]
    device = Device(service, f"hot-{screen}", HOT, token=token)
    rules = {"charging": True, "max_temperature_celsius": 60, "hours": ["22:00-06:30"]}
    answer = service.client.put("/pools/policy", params={"pool": pool}, json=rules)
    assert answer.is_success, answer.text
    run = start_run(service, data.build, device, data.dataset)
    device.take_run()
    order = {"build_id": data.build["id"], "device_id": device.id, "steps": 20, "repeats": 7}
    service.post("/benchmarks", order)
    visitor.sign_in()
    visitor.open(f"/devices/{device.id}", f"hot-{screen}")
    expect(visitor.figure("Temperature")).to_have_text("throttled, 84 °C")
    expect(visitor.figure("Memory")).to_have_text("4.00 GiB")
    job = visitor.figure("Present job").get_by_role("link", name=data.build["name"])
    expect(job).to_have_attribute("href", f"#/runs/{run['id']}")
    policy = visitor.section("When it may work")
    expect(policy).to_contain_text(f"Rules of pool {pool}")
    expect(policy).to_contain_text("only below 60 °C")
    measured = visitor.section("Benchmarks").get_by_role("row").nth(1)
    expect(measured).to_contain_text(data.build["name"])
    expect(measured).to_contain_text("20 steps × 7")
    expect(measured).to_contain_text("queued")
    looks_right(visitor, "device-busy", screen)
    device.finish(state="succeeded", report=None)
    expect(visitor.figure("Present job")).to_have_text("none")


@screens
def test_what_it_measured_and_where_it_throttled(
    visitor: Visitor, data: Data, service: Service, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    name = f"measured-{screen}"
    device = Device(service, name)
    runs = []
    for degrees, throttled, peak in ((51.5, False, 3_000_000), (84.2, True, 3_400_000), (62.0, False, 3_100_000)):
        runs.append(start_run(service, data.build, device, data.dataset))
        device.take_run()
        told = report(20, peak, 3_600_000)
        told["health"] = {"max_temperature_c": degrees, "throttled": throttled, "after": {"free_memory_bytes": 2**31}}
        device.finish(state="succeeded", report=told)
    visitor.sign_in()
    visitor.open(f"/devices/{device.id}", name)
    history = visitor.section("What it measured")
    expect(visitor.charts(history, 3)).to_have_count(3)
    expect(history).to_contain_text("It throttled in 1 of them.")
    points = history.get_by_role("slider")
    expect(points).to_have_attribute("aria-valuetext", re.compile("step 11.0\\sms, peak 2.96\\sMiB.*up to 62\\s°C$"))
    points.press("ArrowLeft")
    expect(points).to_have_attribute("aria-valuetext", re.compile("peak 3.24\\sMiB.*up to 84\\s°C, throttled$"))
    expect(history.get_by_role("link")).to_have_attribute("href", f"#/runs/{runs[1]['id']}")
    history.get_by_text("The same as a table").click()
    rows = history.get_by_label("What it measured, run by run").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.nth(2)).to_contain_text(re.compile("3.24\\sMiB3.43\\sMiB84\\s°Cyes"))
    expect(rows.nth(2).get_by_role("link")).to_have_attribute("href", f"#/runs/{runs[1]['id']}")
    expect(visitor.section("Runs").get_by_role("row").filter(has_text="throttled")).to_have_count(1)
    looks_right(visitor, "device-measured", screen)


def test_a_benchmark_is_a_point_of_what_it_measured(visitor: Visitor, data: Data, service: Service) -> None:
    """Beside those of trainings, in the chart of times, one by one and in the table; its run leads back to it."""
    device = Device(service, "benched", {"features": ["repeats"]})
    start_run(service, data.build, device, data.dataset)
    device.take_run()
    device.finish(state="succeeded", report=report(20, 3_000_000, 3_600_000))
    order = {"build_id": data.build["id"], "device_id": device.id, "steps": 20, "repeats": 7, "cool_down_seconds": 0}
    asked = service.post("/benchmarks", order)
    device.take_run()
    device.finish(state="succeeded", report={"train": {"repeats": [_repeat(8 + n / 100) for n in range(7)]}})
    wait_until(lambda: service.get(f"/benchmarks/{asked['id']}")["state"], lambda state: state == "succeeded")
    visitor.sign_in()
    visitor.open(f"/devices/{device.id}", "benched")
    history = visitor.section("What it measured")
    points = history.get_by_role("slider")
    expect(points).to_have_attribute("aria-valuetext", re.compile("benchmark 8.03\\sms$"))
    expect(history.get_by_role("link")).to_have_attribute("href", f"#/runs/{asked['run_id']}")
    points.press("ArrowLeft")
    expect(points).to_have_attribute("aria-valuetext", re.compile("step 11.0\\sms, peak"))
    times = history.locator(".chart").filter(has_text="Benchmark, median")
    drawn = visitor.charts(times)
    expect(drawn).to_be_visible()
    assert min(drawn.evaluate(DRAWN, ["--series-1", "--series-2"])) > 10
    history.get_by_text("The same as a table").click()
    rows = history.get_by_label("What it measured, run by run").get_by_role("row")
    expect(rows.nth(1).or_(rows.nth(2)).filter(has_text=re.compile("8.03\\sms"))).to_have_count(1)
    visitor.screenshot("device-benchmark")
    history.get_by_text("The same as a table").click()
    points.press("ArrowRight")
    history.get_by_role("link").click()
    expect(visitor.figure("Step median")).to_have_text(re.compile("8.03\\sms"))
    expect(visitor.figure("Trust")).to_have_text("stable")
    repeats = visitor.page.get_by_label("Repeats of the benchmark").get_by_role("row")
    expect(repeats).to_have_count(8)
    expect(repeats.nth(7)).to_have_text(re.compile("^78.06\\sms8.06\\sms8.06\\sms40\\s°C → 40\\s°C1,500\\sMHzno$"))
    expect(visitor.page.get_by_role("main")).not_to_contain_text("first step")
    visitor.screenshot("run-benchmark")
    visitor.page.locator(".page-head").get_by_role("link", name=data.build["name"]).click()
    visitor.heading("benched")


def _repeat(median_ms: float) -> dict[str, Any]:
    """What a device tells of one repeat of a benchmark."""
    cool = {"temperature_c": 40.0, "frequency_mhz": 600.0, "throttled": False}
    told = {"median_ms": median_ms, "p10_ms": median_ms, "p90_ms": median_ms, "started_at": "2030-01-01T00:00:00Z"}
    return {**told, "before": cool, "after": cool, "max_frequency_mhz": 1500.0, "throttled": False}


def test_a_device_is_renamed_changed_and_revoked(visitor: Visitor, data: Data, service: Service) -> None:
    device = Device(service, "old-name")
    visitor.sign_in()
    visitor.open(f"/devices/{device.id}", "old-name")
    changes = visitor.section("Change")
    expect(changes.get_by_role("button", name="Rename")).to_be_disabled()
    changes.get_by_label("Name").fill("new-name")
    changes.get_by_role("button", name="Rename").click()
    visitor.heading("new-name")
    changes.get_by_role("button", name="Change labels").click()
    dialog = visitor.page.get_by_role("dialog")
    dialog.get_by_label("Labels to give").fill("room=attic")
    dialog.get_by_role("button", name="Change 1 device").click()
    dialog.get_by_role("button", name="Close").click()
    expect(visitor.figure("Labels")).to_have_text("room=attic")
    changes.get_by_role("button", name="Revoke").click()
    dialog.get_by_role("button", name="Revoke 1 device").click()
    expect(dialog).to_contain_text("1 revoked.")
    dialog.get_by_role("button", name="Close").click()
    expect(changes).to_have_count(0)
    shown = service.get(f"/devices/{device.id}")
    assert (shown["name"], shown["labels"], shown["state"]) == ("new-name", {"room": "attic"}, "revoked")


def test_who_may_only_look_is_told_so(visitor: Visitor, data: Data, service: Service) -> None:
    key = service.post("/api-keys", {"name": "looks", "scopes": ["read"], "ttl_days": 1})["key"]
    visitor.page.goto(f"{service.url}/#key={key}&next=/devices/{data.idle.id}")
    visitor.heading("bench-pi-4")
    changes = visitor.section("Change")
    expect(changes).to_contain_text("it lacks the scope devices:admin")
    expect(changes.get_by_role("button", name="Revoke")).to_be_disabled()


@pytest.mark.parametrize("key", ["Escape", "Enter"])
def test_who_leaves_a_dialog_by_keyboard_is_where_they_were(visitor: Visitor, data: Data, key: str) -> None:
    """Enter: on the button that closes it."""
    visitor.sign_in()
    for address, heading, name in (
        (f"/devices/{data.idle.id}", "bench-pi-4", "Change labels …"),
        ("/fleet", "Fleet", "Enrol a device"),
    ):
        visitor.open(address, heading)
        opener = visitor.page.get_by_role("button", name=name)
        opener.press("Enter")
        dialog = visitor.page.get_by_role("dialog")
        expect(dialog.locator(":focus")).to_have_count(1)
        if key == "Enter":
            dialog.get_by_role("button", name=re.compile("Close|Leave|Cancel|Keep")).first.focus()
        visitor.page.keyboard.press(key)
        expect(dialog).to_have_count(0)
        expect(opener).to_be_focused()
