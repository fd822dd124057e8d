"""The page of a profiled run: where the time of a step goes, by its phases."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.web.data import Data, start_run
from tests.web.device import report
from tests.web.handmade import LAYERS, PREDICTED_PEAK_BYTES, nodes
from tests.web.screens import screens
from tests.web.service import Service
from tests.web.visitor import Visitor

STEPS = 4
SHOWN = 12
"""Kernels of each phase that are listed."""


@pytest.fixture(scope="module")
def profiled(service: Service, data: Data) -> dict[str, Any]:
    """A run with a kernel for each node of its plan, 1 ms forward, 2 ms backward, 0.1 ms an update, one 3 ms; and one
    of no node."""
    kernels = [_kernel(node) for node in nodes()]
    kernels[3]["ms"] = 3.0
    kernels += [_kernel({**nodes()[0], "name": name, "index": index}) for name, index in (("lost", None), ("far", 999))]
    told = report(STEPS, PREDICTED_PEAK_BYTES, PREDICTED_PEAK_BYTES)
    told["train"]["kernels"] = kernels
    run = start_run(service, data.build, data.idle, data.dataset, STEPS)
    data.idle.take_run()
    data.idle.finish(state="succeeded", report=told)
    return run


def _kernel(node: dict[str, Any]) -> dict[str, Any]:
    ms = {"forward": 1.0, "backward": 2.0, "update": 0.1}[node["phase"]]
    return {"node": node["index"], "ms": ms, **{key: node[key] for key in ("name", "kernel", "flops", "bytes")}}


@screens
def test_operators_are_grouped_by_phase(
    visitor: Visitor, profiled: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    visitor.open(f"/runs/{profiled['id']}", "bench-pi-4")
    operators = visitor.section("Time per operator")
    sums = operators.locator(".part-sum")
    for row, (name, ms, share) in enumerate(
        (("forward", "18.0 ms", "33.6 %"), ("backward", "32.0 ms", "59.7 %"), ("update", "1.60 ms", "3.0 %"))
    ):
        for text in (name, f"{LAYERS} kernels", ms, share):
            expect(sums.nth(row)).to_contain_text(text)
    expect(sums.nth(3)).to_contain_text("unknown phase 2.00 ms")
    forward = operators.locator("tbody").nth(0).get_by_role("row")
    expect(forward.nth(1)).to_contain_text("layers.3.conv")
    visitor.screenshot(f"profile-{screen}")
    assert not visitor.is_wider_than_the_screen()
    if screen in ("light", "dark"):
        assert visitor.accessibility_violations(["color-contrast"] if screen == "dark" else None) == []


def test_the_trace_has_each_kernel_behind_the_other(visitor: Visitor, profiled: dict[str, Any], tmp_path: Path) -> None:
    visitor.sign_in()
    visitor.open(f"/runs/{profiled['id']}", "bench-pi-4")
    with visitor.page.expect_download() as begun:
        visitor.section("Time per operator").get_by_role("button", name="Download the trace").click()
    begun.value.save_as(tmp_path / "trace.json")
    assert begun.value.suggested_filename == "trace.json"
    events = [one for one in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if one["ph"] == "X"]
    assert [one["name"] for one in events] == [*(node["name"] for node in nodes()), "lost", "far"]
    assert all(after["ts"] == before["ts"] + before["dur"] for before, after in pairwise(events))
    assert {"forward", "backward", "update", "unknown"} == {one["cat"] for one in events}


def test_a_phase_folds_and_stays_folded(visitor: Visitor, profiled: dict[str, Any]) -> None:
    visitor.sign_in()
    visitor.open(f"/runs/{profiled['id']}", "bench-pi-4")
    operators = visitor.section("Time per operator")
    rows = operators.locator("tbody").nth(1).get_by_role("row")
    expect(rows).to_have_count(SHOWN + 2)
    expect(rows.last).to_have_text(f"{SHOWN} of {LAYERS} kernels.")
    backward = operators.get_by_role("button", name="backward")
    backward.press("Enter")
    expect(backward).to_have_attribute("aria-expanded", "false")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("32.0 ms")
    visitor.open("/runs", "Runs")
    visitor.page.go_back()
    expect(rows).to_have_count(1)
    backward.click()
    expect(rows).to_have_count(SHOWN + 2)
    expect(rows.last).to_have_text(f"{SHOWN} of {LAYERS} kernels.")
    operators.get_by_label("Order").select_option("lost")
    expect(operators.locator("tbody").nth(0).get_by_role("row").nth(1)).to_contain_text("layers.3.conv")


def test_kernels_of_no_known_phase_are_one_list(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.open(f"/runs/{data.run['id']}", "bench-pi-4")
    operators = visitor.section("Time per operator")
    expect(operators.get_by_role("row")).to_have_count(3)
    expect(operators.locator(".part-sum")).to_have_count(0)
