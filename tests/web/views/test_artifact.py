"""The artifact page: the memory timeline agrees with the plan, and commands give the numbers that the page shows."""

import json
import re
import subprocess
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.web import handmade
from tests.web.data import Data
from tests.web.service import Service
from tests.web.visitor import Visitor

PEAK_NODE = handmade.live_bytes().index(max(handmade.live_bytes()))


@pytest.fixture
def timeline(visitor: Visitor, data: Data) -> Locator:
    visitor.sign_in()
    visitor.open(f"/artifacts/{data.build['artifact_digest']}", "mobilenet-sparse")
    section = visitor.section("Memory timeline")
    expect(section.locator("svg[role=img]")).to_be_visible()
    return section


def test_every_slot_is_a_box_over_its_nodes_and_bytes(timeline: Locator) -> None:
    drawn = timeline.locator("rect.slot").evaluate_all(
        """boxes => boxes.map(box =>
            [box.dataset.value, ...["x", "y", "width", "height"].map(name => +box.getAttribute(name))])"""
    )
    slots = {slot["value"]: slot for slot in handmade.slots()}
    assert [value for value, *_ in drawn] == list(slots)
    boxes = {value: place for value, *place in drawn}
    _, y0, width0, height0 = boxes["activation_0"]
    column = width0 / (slots["activation_0"]["last"] + 1)
    byte = height0 / handmade.ACTIVATION_BYTES
    for value, (x, y, width, height) in boxes.items():
        slot = slots[value]
        assert x == pytest.approx(slot["first"] * column, abs=0.1)
        assert width == pytest.approx((slot["last"] - slot["first"] + 1) * column, abs=0.1)
        assert y + height == pytest.approx(y0 + height0 - slot["offset"] * byte, abs=0.1)
        assert height == pytest.approx(slot["nbytes"] * byte, abs=0.1)


def test_what_is_alive_at_the_peak_is_highlighted_and_listed(timeline: Locator) -> None:
    alive = handmade.alive_at(PEAK_NODE)
    marked = timeline.locator("rect.slot-alive").evaluate_all("boxes => boxes.map(box => box.dataset.value)")
    assert sorted(marked) == sorted(slot["value"] for slot in alive)
    peak = max(handmade.live_bytes()) / 2**20
    expect(timeline.get_by_role("heading", level=3)).to_have_text(
        f"Alive at the peak: {len(alive)} values, {peak:.2f} MiB"
    )
    timeline.get_by_role("button", name=f"Show all {len(alive)}").click()
    listed = timeline.locator("tbody tr td:first-child").all_inner_texts()
    assert listed == [slot["value"] for slot in sorted(alive, key=lambda slot: (-slot["nbytes"], slot["offset"]))]


def test_lower_bound_and_arena_are_drawn_to_scale(timeline: Locator) -> None:
    summary = handmade.summary()
    bound = float(timeline.locator(".bound-line").get_attribute("y1") or "nan")
    base = timeline.locator("rect[data-value=activation_0]")
    bottom = float(base.get_attribute("y") or "nan") + float(base.get_attribute("height") or "nan")
    assert bound == pytest.approx(bottom * (1 - summary["lower_bound_bytes"] / summary["arena_bytes"]), abs=0.1)


def test_hover_tells_the_values_name_and_bytes(timeline: Locator) -> None:
    timeline.locator("rect[data-value=activation_3]").hover()
    expect(timeline.locator(".hovered")).to_contain_text(
        "activation_3 · 64.0 KiB (65,536 bytes) · activation of conv2d, layers.3.conv · offset 196,608 · nodes 3–40"
    )


def test_a_click_selects_a_value_and_the_address_restores_it(visitor: Visitor, timeline: Locator) -> None:
    timeline.locator("rect[data-value=activation_3]").click()
    selected = timeline.locator(".selected-value")
    expect(selected).to_contain_text("activation_3 · 64.0 KiB (65,536 bytes) · activation of conv2d, layers.3.conv")
    expect(timeline.locator("rect.slot-hovered[data-value=activation_3]")).to_have_count(1)
    address = visitor.page.evaluate("location.hash")
    visitor.page.goto("about:blank")
    visitor.page.goto(f"{visitor.service.url}/{address}")
    expect(selected).to_contain_text("activation_3")
    selected.get_by_role("button", name="Select nothing").click()
    expect(selected).to_have_count(0)
    timeline.locator("tbody").get_by_role("button", name="activation_5").click()
    expect(selected).to_contain_text("activation_5")


def test_zoom_is_in_the_address_and_survives(visitor: Visitor, timeline: Locator) -> None:
    base = timeline.locator("rect[data-value=activation_0]")
    whole = float(base.get_attribute("width") or "nan")
    timeline.get_by_role("button", name="Closer").click()
    zoomed = float(base.get_attribute("width") or "nan")
    assert zoomed > 1.8 * whole
    timeline.locator("rect[data-value=activation_15]").click()
    expect(timeline.locator(".selected-value")).to_contain_text("activation_15")
    assert float(base.get_attribute("width") or "nan") == zoomed
    address = visitor.page.evaluate("location.hash")
    visitor.page.goto("about:blank")
    visitor.page.goto(f"{visitor.service.url}/{address}")
    expect(base).to_have_attribute("width", str(zoomed))
    visitor.screenshot("artifact-zoomed")
    timeline.get_by_role("button", name="All nodes").click()
    expect(base).to_have_attribute("width", str(whole))


@pytest.mark.parametrize("zooms", [0, 2])
def test_the_sliders_thumb_stands_on_the_line(timeline: Locator, zooms: int) -> None:
    for _ in range(zooms):
        timeline.get_by_role("button", name="Closer").click()
    slider = timeline.get_by_role("slider")
    for key in ("Home", "ArrowRight", "End"):
        slider.press(key)
        box, line = slider.bounding_box(), timeline.locator(".node-line").bounding_box()
        assert box is not None and line is not None
        least, most, now = (float(slider.evaluate(f"one => one.{name}")) for name in ("min", "max", "value"))
        thumb = box["x"] + 8 + (now - least) / (most - least) * (box["width"] - 16)
        assert thumb == pytest.approx(line["x"] + line["width"] / 2, abs=1)


def test_the_parts_sum_to_the_peak(visitor: Visitor, timeline: Locator) -> None:
    table = visitor.page.get_by_label("Parts of the predicted peak")
    cells = table.locator("tbody tr td:nth-child(2)").all_inner_texts()
    parts = [int(cell.replace(",", "")) for cell in cells]
    summary = handmade.summary()
    known = ("param_bytes", "state_bytes", "const_bytes", "input_bytes", "arena_bytes")
    assert parts[:-1] == [summary[name] for name in known]
    assert sum(parts) == handmade.PREDICTED_PEAK_BYTES and parts[-1] > 0
    expect(table.locator("tfoot")).to_contain_text(f"{handmade.PREDICTED_PEAK_BYTES:,}")


def test_another_node_can_be_chosen_by_keyboard(timeline: Locator) -> None:
    picker = timeline.get_by_role("slider")
    picker.focus()
    picker.press("Home")
    expect(timeline.get_by_role("heading", level=3)).to_have_text("Alive at node 0: 1 values, 64.0 KiB")
    timeline.get_by_role("button", name="Back to the peak").click()
    expect(timeline.get_by_role("heading", level=3)).to_contain_text("Alive at the peak")


def test_heaviest_nodes_are_ranked(visitor: Visitor, timeline: Locator) -> None:
    rows = visitor.section("Heaviest nodes").locator("tbody tr")
    ranked = sorted(handmade.nodes(), key=lambda node: -node["flops"])
    assert rows.locator("td:first-child").all_inner_texts() == [node["name"] for node in ranked[:15]]
    total = sum(node["flops"] for node in ranked)
    expect(rows.first).to_contain_text("32.0 M")
    expect(rows.first).to_contain_text(f"{100 * ranked[0]['flops'] / total:.1f} %")


def test_other_programs_trained_tensors_and_measurements(visitor: Visitor, timeline: Locator) -> None:
    expect(visitor.section("Tensors").locator("tbody tr")).to_have_count(4)
    expect(visitor.section("Tensors").locator("tbody tr").first).to_contain_text("4 channels")
    expect(visitor.section("Planned against measured")).to_contain_text("+4.0 %")
    visitor.page.get_by_role("radio", name="eval").check()
    expect(visitor.section("Memory timeline").locator("rect.slot")).to_have_count(handmade.LAYERS - 1)


@pytest.mark.parametrize(
    ("label", "expected"),
    [("Arena", handmade.summary()["arena_bytes"]), ("Backward nodes", 2 * handmade.LAYERS)],
)
def test_copied_command_gives_the_number(
    visitor: Visitor, timeline: Locator, service: Service, label: str, expected: int
) -> None:
    command = visitor.copy_command(label)
    assert service.key not in command
    assert run(command, service) == expected


def run(command: str, service: Service) -> Any:
    """What the command prints: its `curl` is run by a shell, the path that it gives to `jq` is followed here."""
    curl, path = command.split(" | jq ")
    environment = {"POCK_API_KEY": service.key, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", curl], env=environment, check=True, capture_output=True, timeout=20)
    found = json.loads(done.stdout)
    for name in re.findall(r"\.(\w+)", path):
        found = found[name]
    return found
