"""What a person does on the page, and what it costs: each look is one figure with the most that it may be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser

from benchmarks.page.stand import share_of_a_core, tab
from tests.web.blocks import block_network
from tests.web.device import Device, step
from tests.web.service import Service

STEPS_A_SECOND = 10
_A_WHILE = 10.0
_AT_ONCE = 10_000
_FIRST_ROW = """() => document.querySelector(".fleet-body")?.textContent.includes("device-") && performance.now()"""


@dataclass(frozen=True)
class Figure:
    """A measured value, and the most that is asked for."""

    name: str
    value: float
    most: float
    unit: str

    @property
    def good(self) -> bool:
        return self.value <= self.most


def first_load(running: Browser, service: Service) -> Iterator[Figure]:
    """Of somebody who was never there: what comes over the wire until the start shows what it knows."""
    with tab(running) as one:
        one.sign_in(service)
        one.page.get_by_role("heading", name="Needs you").wait_for()
        one.page.wait_for_timeout(2000)
        code = sum(size for kind, size in one.received if kind not in ("Fetch", "XHR", "EventSource"))
        yield Figure("initial load, compressed", code / 1000, 120, "kB")


def first_view(running: Browser, service: Service, devices: int) -> Iterator[Figure]:
    """Of a person who comes back: until the fleet's first rows are drawn."""
    with tab(running) as one:
        one.sign_in(service)
        times = []
        for _ in range(3):
            one.page.goto("about:blank")
            one.page.goto(f"{service.url}/#/fleet", wait_until="commit")
            drawn = one.page.wait_for_function(_FIRST_ROW)  # looks at each frame
            times.append(drawn.json_value() / 1000)
        yield Figure(f"first view of the fleet, {devices:,} devices", sorted(times)[1], 1, "s")


def fleet_scrolls(running: Browser, service: Service, devices: int) -> Iterator[Figure]:
    """With the wheel, by the height of the window at a time."""
    with tab(running) as one:
        one.sign_in(service, "/fleet")
        one.page.get_by_text("device-", exact=False).first.wait_for()
        frames = one.page.evaluate(
            """frames_of(async () => {
                const rolls = (each) => /auto|scroll/.test(getComputedStyle(each).overflowY);
                const long = (each) => each.scrollHeight > each.clientHeight + 500;
                const inner = [...document.querySelectorAll("main *")].find((each) => long(each) && rolls(each));
                const own = inner ?? document.scrollingElement;
                for (let turn = 0; turn < 120; turn++) { own.scrollTop += 600; await next_frame(); }
            })"""
        )
        yield _longest(f"scrolling {devices:,} devices, longest frame", frames)


def curve_pans(running: Browser, service: Service, run: str, steps: int) -> Iterator[Figure]:
    """Zoomed in by keys, then moved along."""
    with tab(running) as one:
        one.sign_in(service, f"/runs/{run}")
        one.page.locator(".chart .u-over").first.wait_for(timeout=60_000)
        one.page.get_by_text(f"{steps:,}".replace(",", "\u202f")).or_(one.page.get_by_text(str(steps))).first.wait_for()
        frame = one.page.locator(".chart-frame").first
        frame.focus()
        for _ in range(4):
            frame.press("+")
        frames = one.page.evaluate(
            """frames_of(async () => {
                const frame = document.querySelector(".chart-frame");
                for (let turn = 0; turn < 60; turn++) {
                    const key = turn % 20 < 10 ? "ArrowRight" : "ArrowLeft";
                    frame.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
                    await next_frame();
                }
            })"""
        )
        yield _longest(f"panning {steps:,} steps, longest frame", frames)


def graph_zooms(running: Browser, service: Service, blocks: int) -> Iterator[Figure]:
    """All modules unfolded, with the wheel in and out around the middle."""
    model = service.post("/models", {"name": "blocks", "digest": service.upload(block_network(blocks))})
    nodes = len(service.post(f"/models/{model['id']}/graph", {})["nodes"])
    with tab(running) as one:
        one.sign_in(service, f"/models/{model['id']}/graph")
        one.page.get_by_role("button", name="Unfold all").click()
        one.page.wait_for_function(
            "least => +document.querySelector('canvas[data-boxes]')?.dataset.boxes > least", arg=nodes, timeout=120_000
        )
        frames = one.page.evaluate(
            """frames_of(async () => {
                const canvas = document.querySelector("canvas[data-boxes]");
                const { left, top, width, height } = canvas.getBoundingClientRect();
                const [clientX, clientY] = [left + width / 2, top + height / 2];
                for (let turn = 0; turn < 120; turn++) {
                    const deltaY = turn % 60 < 30 ? -150 : 150;
                    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX, clientY, cancelable: true }));
                    await next_frame();
                }
            })"""
        )
        yield _longest(f"zooming a graph of {nodes:,} nodes, longest frame", frames)


def idle(running: Browser, service: Service, devices: int) -> Iterator[Figure]:
    """The fleet lies open, and nothing happens."""
    with tab(running) as one:
        one.sign_in(service, "/fleet")
        one.page.get_by_text("device-", exact=False).first.wait_for()
        one.page.wait_for_timeout(3000)
        before = one.bytes_received()
        share = share_of_a_core(_A_WHILE)
        one.page.evaluate("0")  # hands over what was received meanwhile
        yield Figure(f"idle page, {devices:,} devices: share of a core", 100 * share, 2, "%")
        yield Figure(
            f"idle page, {devices:,} devices: received", (one.bytes_received() - before) / 1000 / _A_WHILE, 2, "kB/s"
        )


def live_run(running: Browser, service: Service, build: dict[str, Any], dataset: dict[str, Any]) -> Iterator[Figure]:
    """A run is open while its device tells of ten steps a second."""
    device = Device(service, "lively")
    order = {"build_id": build["id"], "device_id": device.id, "dataset_id": dataset["id"], "steps": 100_000}
    run = service.post("/runs", order)
    device.take_run()
    device.report(*map(step, range(1, 1001)))
    with tab(running) as one, _telling(device, 1001):
        one.sign_in(service, f"/runs/{run['id']}")
        one.page.locator(".chart .u-over").first.wait_for()
        one.page.wait_for_timeout(3000)
        share = share_of_a_core(_A_WHILE)
        yield Figure(f"live run, {STEPS_A_SECOND} steps a second: share of a core", 100 * share, 10, "%")
    device.finish(state="succeeded", report=None)


@contextmanager
def _telling(device: Device, first: int) -> Iterator[None]:
    """Reports a step ten times a second until it is left."""
    over = threading.Event()

    def tell() -> None:
        number = first
        while not over.wait(1 / STEPS_A_SECOND):
            device.report(step(number))
            number += 1

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def long_run(service: Service, build: dict[str, Any], dataset: dict[str, Any], steps: int) -> str:
    """A finished run with this many steps; its id."""
    device = Device(service, "patient")
    order = {"build_id": build["id"], "device_id": device.id, "dataset_id": dataset["id"], "steps": steps}
    run: dict[str, Any] = service.post("/runs", order)
    device.take_run()
    for first in range(1, steps + 1, _AT_ONCE):
        device.report(*(_told(number) for number in range(first, min(first + _AT_ONCE, steps + 1))))
    device.finish(state="succeeded", report=None)
    return str(run["id"])


def _told(number: int) -> dict[str, Any]:
    return {**step(number % 200 + 1), "step": number}


def _longest(name: str, frames: list[float]) -> Figure:
    return Figure(name, max(frames), 50, "ms")


Look = Callable[[], Iterator[Figure]]
