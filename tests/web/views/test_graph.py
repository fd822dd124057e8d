"""The graph of a model, by the real compiler: modules unfold, a search leads to a node, and what is shown is in the
address."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.sweeps import some
from tests.web.blocks import block_network
from tests.web.conftest import visiting
from tests.web.service import Service, running_service
from tests.web.visitor import Visitor

BLOCKS = 10
RECIPE = 'loss: cross_entropy\noptimizer: sgd\nupdate:\n- {params: "head.*"}\n- {params: "stages.1.*"}\n'
TARGET = "raspberry-pi-4"
WIDE = {"viewport": {"width": 1920, "height": 1200}, "color_scheme": "light"}
NARROW = {"viewport": {"width": 360, "height": 740}, "color_scheme": "light"}


@pytest.fixture(scope="module")
def compiling(web_dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service with the real compiler."""
    with running_service(tmp_path_factory.mktemp("service"), web_dist, worker={}) as running:
        yield running


@pytest.fixture(scope="module")
def model(compiling: Service) -> dict[str, Any]:
    """A network of ten blocks in two stages."""
    row: dict[str, Any] = compiling.post(
        "/models", {"name": "blocks", "digest": compiling.upload(block_network(BLOCKS))}
    )
    return row


@pytest.fixture
def looking(
    browser: Browser, compiling: Service, node_modules: Path, context_options: dict[str, Any]
) -> Iterator[Visitor]:
    """A person who is signed in."""
    for visitor in visiting(browser, compiling, node_modules, context_options):
        visitor.sign_in()
        yield visitor


def query_of(**parts: str) -> str:
    packed = base64.urlsafe_b64encode(RECIPE.encode()).decode().rstrip("=")
    said = {"recipe": packed, "target": TARGET, **parts}
    return "&".join(f"{name}={value}" for name, value in said.items())


def boxes(visitor: Visitor, count: int) -> None:
    """Wait until the picture has so many boxes."""
    expect(visitor.page.locator(f"canvas[data-boxes='{count}']")).to_be_visible()


def shown(visitor: Visitor) -> int:
    return int(visitor.page.locator("canvas[data-boxes]").get_attribute("data-boxes") or 0)


def fold_all(visitor: Visitor) -> int:
    """How many boxes there are then."""
    before = shown(visitor)
    visitor.page.get_by_role("button", name="Fold all", exact=True).click()
    expect(visitor.page.locator("canvas[data-boxes]")).not_to_have_attribute("data-boxes", str(before))
    return shown(visitor)


def open_graph(visitor: Visitor, model: dict[str, Any], query: str = "") -> None:
    visitor.open(f"/models/{model['id']}/graph{'?' if query else ''}{query}", "Graph of blocks")
    expect(visitor.page.locator("canvas[data-boxes]")).to_be_visible()


def middle(visitor: Visitor) -> tuple[float, float]:
    """Of the picture, in the window."""
    frame = visitor.page.locator(".graph-frame")
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def pixels(visitor: Visitor) -> str:
    """What is on the canvas."""
    visitor.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    drawn: str = visitor.page.locator("canvas[data-boxes]").evaluate("canvas => canvas.toDataURL()")
    return drawn


@pytest.mark.parametrize(
    "context_options",
    some([WIDE, {**WIDE, "color_scheme": "dark"}, {**NARROW, "color_scheme": "dark"}, NARROW], 2),
    ids=some(["light", "dark", "phone", "light-phone"], 2),
)
@pytest.mark.parametrize("which", ["model", "whole", "pruned"])
def test_a_graph_can_be_looked_at(
    looking: Visitor, model: dict[str, Any], context_options: dict[str, Any], which: str
) -> None:
    colour = "time" if which == "model" else "trained"
    open_graph(looking, model, query_of(graph=which, colour=colour))
    looking.page.get_by_text("The same as a list").click()
    assert looking.accessibility_violations() == []
    assert not looking.is_wider_than_the_screen()
    looking.page.get_by_text("The same as a list").click()
    pixels(looking)
    looking.screenshot(f"graph-{which}-{context_options['color_scheme']}-{context_options['viewport']['width']}")


def test_pruning_takes_nodes_away(looking: Visitor, model: dict[str, Any], compiling: Service) -> None:
    open_graph(looking, model, query_of(graph="whole"))
    section = looking.section("Graph")
    path = f"/models/{model['id']}/graph"
    whole = compiling.post(path, {"recipe": RECIPE.split("update:")[0] + "update: full\n", "target": TARGET})
    pruned = compiling.post(path, {"recipe": RECIPE, "target": TARGET})
    assert len(pruned["nodes"]) < len(whole["nodes"])
    expect(section.locator("#graph-keys")).to_contain_text(f"{len(whole['nodes'])} nodes")
    section.get_by_role("combobox", name="Graph of").select_option("pruned")
    expect(section.locator("#graph-keys")).to_contain_text(f"{len(pruned['nodes'])} nodes")
    section.get_by_role("combobox", name="Graph of").select_option("model")
    plain = compiling.post(path, {"target": TARGET})
    expect(section.locator("#graph-keys")).to_contain_text(f"{len(plain['nodes'])} nodes")
    assert "graph=model" in looking.page.evaluate("location.hash")


def test_modules_unfold_and_the_address_restores_them(looking: Visitor, model: dict[str, Any]) -> None:
    open_graph(looking, model)
    fold_all(looking)
    looking.page.get_by_text("The same as a list").click()
    rows = looking.page.get_by_label("Boxes of the graph").locator("tbody tr")
    expect(rows).not_to_have_count(0)
    folded = rows.count()
    boxes(looking, folded)
    rows.get_by_label("Unfold stages", exact=True).click()
    expect(rows).to_have_count(folded + 2)
    boxes(looking, folded + 2)
    expect(rows.filter(has_text="48 nodes")).to_have_count(1)
    address = looking.page.evaluate("location.hash")
    looking.page.goto("about:blank")
    looking.page.goto(f"{looking.service.url}/{address}")
    boxes(looking, folded + 2)


def test_a_search_leads_to_a_node_inside_folded_modules(looking: Visitor, model: dict[str, Any]) -> None:
    open_graph(looking, model)
    few, before = fold_all(looking), pixels(looking)
    search = looking.page.get_by_label("Search")
    search.fill("stages.1.blocks.1.depth.act")
    search.press("Enter")
    expect(looking.page.locator(".graph-chosen h3")).to_contain_text("stages.1.blocks.1.depth.act")
    expect(looking.page.locator(".graph-chosen")).to_contain_text("4 × 8 × 8 × 8")
    expect(looking.page.locator(f"canvas[data-boxes='{few}']")).to_have_count(0)
    assert pixels(looking) != before
    chosen = looking.page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('node')")
    looking.page.locator(".graph-frame").press("Escape")
    expect(looking.page.locator(".graph-chosen h3")).to_have_count(0)
    looking.page.mouse.click(*middle(looking))
    expect(looking.page.locator(".graph-chosen h3")).to_contain_text("stages.1.blocks.1.depth.act")
    assert looking.page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('node')") == chosen
    search.fill("nothing like this")
    expect(looking.page.get_by_role("status").filter(has_text="nothing found")).to_be_visible()


def test_by_keyboard_alone(looking: Visitor, model: dict[str, Any]) -> None:
    open_graph(looking, model)
    folded, frame = fold_all(looking), looking.page.get_by_role("application")
    frame.focus()
    frame.press("ArrowDown")
    expect(looking.page.locator(".graph-chosen h3")).to_contain_text("stem")
    frame.press("ArrowDown")
    expect(looking.page.locator(".graph-chosen h3")).to_have_text("Module stages")
    frame.press("Enter")
    boxes(looking, folded + 2)
    frame.press("Enter")
    boxes(looking, folded)
    looks = [pixels(looking)]
    for key in ("+", "Shift+ArrowRight", "0"):
        frame.press(key)
        looks.append(pixels(looking))
    assert looks[3] == looks[0] and len(set(looks)) == 3
    frame.press("Escape")
    expect(looking.page.get_by_text("Select a node or a module")).to_be_visible()


def test_wheel_and_drag_move_and_colours_change(looking: Visitor, model: dict[str, Any]) -> None:
    open_graph(looking, model)
    fold_all(looking)
    x, y = middle(looking)
    looks = [pixels(looking)]
    looking.page.mouse.move(x, y)
    looking.page.mouse.wheel(0, -300)
    looks.append(pixels(looking))
    looking.page.mouse.down()
    looking.page.mouse.move(x + 90, y + 40)
    looking.page.mouse.up()
    looks.append(pixels(looking))
    assert len(set(looks)) == 3
    looking.page.get_by_label("Colour by").select_option("bytes")
    looks.append(pixels(looking))
    assert len(set(looks)) == 4


def test_the_picker_leads_to_the_graph_of_its_recipe(looking: Visitor, model: dict[str, Any]) -> None:
    looking.open(f"/models/{model['id']}/scheme?{query_of()}", "What to train of blocks")
    expect(looking.page.get_by_label("Trained of head")).to_have_value("all")
    looking.page.get_by_role("link", name="See the graph").click()
    looking.heading("Graph of blocks")
    expect(looking.page.get_by_role("combobox", name="Graph of")).to_have_value("pruned")
    expect(looking.page.locator("#graph-keys")).to_contain_text("nodes")
