"""Many tabs have one stream, a server that restarts loses nothing, and the last one to sign in counts."""

import re
import socket
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.web.data import Data, start_run
from tests.web.device import Device, evaluation, report, step
from tests.web.service import Service, running_service, wait_until
from tests.web.visitor import Visitor

TABS = 12


def in_flight(service: Service) -> int:
    """Requests that the server has not answered to the end, without this one."""
    text = httpx.get(f"{service.url}/metrics", timeout=20).text
    found = re.search(r"^pock_http_requests_in_flight (\d+)", text, re.MULTILINE)
    assert found, text[:2000]
    return int(found[1]) - 1


def new_tab(visitor: Visitor, address: str) -> Page:
    tab = visitor.page.context.new_page()
    tab.on("pageerror", lambda error: visitor.complaints.append(str(error)))
    tab.goto(f"{visitor.service.url}/#{address}")
    return tab


def test_twelve_live_tabs_have_one_stream(visitor: Visitor, data: Data, service: Service) -> None:
    visitor.sign_in()
    devices = [Device(service, f"tab-{number:02}") for number in range(TABS)]
    runs = [start_run(service, data.build, device, data.dataset, steps=5) for device in devices]
    tabs = [new_tab(visitor, f"/runs/{run['id']}") for run in runs]
    for tab in tabs:
        expect(tab.get_by_text("live", exact=True)).to_be_visible()
    for device in devices:
        device.take_run()
        device.report(evaluation("eval_before", 0.25), *map(step, range(1, 4)))
    for tab in tabs:
        expect(tab.get_by_text("step 3 of 5")).to_be_visible()
    wait_until(lambda: in_flight(service), lambda count: count == 1)
    for tab in tabs[6:]:
        tab.close()
    for device in devices:
        device.report(step(4), step(5))
        device.finish(state="succeeded", report=report(5, 3_700_000, 3_600_000))
    for tab in tabs[:6]:
        expect(tab.get_by_text("succeeded", exact=True)).to_be_visible()


def test_lists_renew_at_once_and_ask_seldom(visitor: Visitor, data: Data, service: Service) -> None:
    visitor.sign_in()
    visitor.open("/runs", "Runs")
    rows = visitor.section("All runs").get_by_role("row")
    expect(rows.nth(1)).to_be_visible()
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    visitor.page.wait_for_timeout(4000)
    assert len([url for url in asked if "/v1/runs" in url]) <= 1, "an idle list does not ask"
    device = Device(service, "list-device")
    start_run(service, data.build, device, data.dataset)
    expect(rows.nth(1)).to_contain_text("list-device")
    expect(rows.nth(1)).to_contain_text("queued")
    device.take_run()
    expect(rows.nth(1)).to_contain_text("running")
    device.report(*map(step, range(1, 11)))
    expect(rows.nth(1)).to_contain_text("10 / 40")
    device.finish(state="succeeded", report=None)
    expect(rows.nth(1)).to_contain_text("succeeded")


LISTEN = """async ({ script, subject }) => {
    const me = await (await fetch("v1/me")).json();
    globalThis.heard = [];
    const worker = new SharedWorker(script, { type: "module", name: "pock-streams" });
    worker.port.onmessage = ({ data }) => data.kind === "event" && heard.push(data.seq);
    const base = `${location.origin}/v1`;
    worker.port.postMessage({ base, session: me.session_id, follows: [{ n: 1, subject, after: 0 }] });
}"""
"""Keeps the number of each event that the worker of all tabs passes on."""


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_server_that_restarts_loses_no_event_and_doubles_none(
    visitor: Visitor, port: int, web_dist: Path, tmp_path: Path
) -> None:
    """The banner comes and goes; the steps that came while nobody could tell are told afterwards, each once, and the
    chart whose code did not arrive before is drawn."""
    with running_service(tmp_path, web_dist, port) as service:
        model, data = service.add_model("net"), service.add_dataset("digits", samples=24)
        build = service.wait_for_build(service.request_build(model, "net"), "succeeded")
        device = Device(service, "phoenix")
        run = start_run(service, build, device, data, steps=30)
        page = visitor.page
        page.route("**/assets/uPlot*", lambda route: route.abort())
        page.goto(f"{service.url}/#key={service.key}&next=/runs/{run['id']}")
        device.take_run()
        device.report(*map(step, range(1, 11)))
        expect(page.get_by_text("step 10 of 30")).to_be_visible()
        expect(visitor.section("Loss")).to_contain_text("Loss over 10 steps")
        (script,) = web_dist.glob("assets/streams.worker*.js")
        page.evaluate(LISTEN, {"script": f"/assets/{script.name}", "subject": f"runs/{run['id']}"})
        lost = page.get_by_text("The server does not answer", exact=True)
        expect(lost).to_be_hidden()
    expect(lost).to_be_visible()
    expect(page.get_by_text("reconnecting", exact=True)).to_be_visible()
    visitor.screenshot("server-lost")
    expect(visitor.section("Loss").locator("canvas")).to_have_count(0)
    page.unroute("**/assets/uPlot*")
    with running_service(tmp_path, web_dist, port):
        device.report(*map(step, range(11, 21)))
        expect(page.get_by_text("step 20 of 30")).to_be_visible()
        expect(lost).to_be_hidden()
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        expect(visitor.section("Loss")).to_contain_text("Loss over 20 steps")
        expect(visitor.charts(visitor.section("Loss"))).to_be_visible()
        last = int(page.evaluate("heard.at(-1)"))
        assert last > 3 and page.evaluate("heard") == list(range(1, last + 1))
    visitor.complaints.clear()


def test_the_last_one_to_sign_in_counts_in_all_tabs(visitor: Visitor, data: Data, service: Service) -> None:
    keys = {
        name: service.post("/api-keys", {"name": name, "scopes": ["read"], "ttl_days": 1})["key"]
        for name in ("first", "second")
    }
    visitor.page.goto(f"{service.url}/#key={keys['first']}&next=/runs/{data.run['id']}")
    expect(visitor.page.get_by_role("banner")).to_contain_text("first")
    other = new_tab(visitor, "/runs")
    expect(other.get_by_role("banner")).to_contain_text("first")
    other.goto(f"{service.url}/#key={keys['second']}&next=/runs")
    for tab in (other, visitor.page):
        expect(tab.get_by_role("banner")).to_contain_text("second")
    visitor.heading("mobilenet · mobilenet-sparse · digits-shifted on bench-pi-4")
    device = Device(service, "after-change")
    start_run(service, data.build, device, data.dataset)
    expect(other.get_by_role("row").nth(1)).to_contain_text("after-change")
    wait_until(lambda: in_flight(service), lambda count: count == 1)
    device.take_run()
    device.finish(state="succeeded", report=None)
    other.get_by_role("button", name="Sign out").click()
    for tab in (other, visitor.page):
        expect(tab.get_by_role("heading", level=1)).to_contain_text("Sign in")
    wait_until(lambda: in_flight(service), lambda count: count == 0)


def test_browser_without_shared_workers_has_a_stream_for_each_tab(
    visitor: Visitor, data: Data, service: Service
) -> None:
    """Chrome on Android has none."""
    visitor.page.context.add_init_script("delete globalThis.SharedWorker")
    device = Device(service, "phone-viewed")
    run = start_run(service, data.build, device, data.dataset, steps=5)
    visitor.page.goto(f"{service.url}/#key={service.key}&next=/runs/{run['id']}")
    tab = new_tab(visitor, f"/runs/{run['id']}")
    device.take_run()
    device.report(step(1))
    for page in (visitor.page, tab):
        expect(page.get_by_text("step 1 of 5")).to_be_visible()
    wait_until(lambda: in_flight(service), lambda count: count == 2)
    device.finish(state="succeeded", report=None)
