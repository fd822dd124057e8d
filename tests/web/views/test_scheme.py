"""What to train is chosen in the page: the real compiler says what it takes, and the recipe is the same as YAML."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from playwright.sync_api import Browser, Locator, Response, Route, expect
from safetensors.numpy import save_file

from tests.e2e.small_model import BATCH, make_files
from tests.web.conftest import visiting
from tests.web.service import Service, running_service, wait_until
from tests.web.visitor import Visitor

TARGET = "raspberry-pi-4"
LAYERS = 90
"""Of a model of which a part is shown at first."""


@pytest.fixture(scope="module")
def compiling(web_dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service with the real compiler."""
    with running_service(tmp_path_factory.mktemp("service"), web_dist, worker={}) as running:
        yield running


@pytest.fixture(scope="module")
def model(compiling: Service, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A small real network."""
    digest = compiling.upload(make_files(tmp_path_factory.mktemp("model")).model.read_bytes())
    row: dict[str, Any] = compiling.post("/models", {"name": "small", "digest": digest})
    return row


@pytest.fixture(scope="module")
def deep(compiling: Service) -> dict[str, Any]:
    """A chain of matrices whose sizes grow, with a name for each."""
    nodes, weights = [], []
    for number in range(LAYERS):
        weights.append(onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), f"block.{number}.weight"))
        values = [f"v{number}", f"block.{number}.weight"]
        nodes.append(onnx.helper.make_node("MatMul", values, [f"v{number + 1}"], name=f"block.{number}"))
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 4]) for name in ("v0", f"v{LAYERS}")]
    graph = onnx.helper.make_graph(nodes, "main", ports[:1], ports[1:], weights)
    opset = onnx.helper.make_opsetid("", 18)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)
    digest = compiling.upload(model.SerializeToString())
    row: dict[str, Any] = compiling.post("/models", {"name": "deep", "digest": digest})
    return row


@pytest.fixture
def chooser(
    browser: Browser, compiling: Service, node_modules: Path, context_options: dict[str, Any]
) -> Iterator[Visitor]:
    """A person who is signed in."""
    for visitor in visiting(browser, compiling, node_modules, context_options):
        visitor.sign_in()
        yield visitor


def trained(visitor: Visitor, layer: str) -> Locator:
    """What is chosen for a layer."""
    return visitor.page.get_by_label(f"Trained of {layer}", exact=True)


def planned(visitor: Visitor) -> None:
    """Wait until what is shown is of the present recipe."""
    expect(visitor.page.get_by_text("Planned in")).to_be_visible()


def open_picker(visitor: Visitor, model: dict[str, Any]) -> None:
    visitor.open(f"/models/{model['id']}/scheme?target={TARGET}", "What to train of small")
    planned(visitor)


def figure(visitor: Visitor, name: str) -> str:
    row = visitor.page.get_by_role("row").filter(has=visitor.page.get_by_role("cell", name=name, exact=True))
    return row.get_by_role("cell").nth(1).inner_text()


def editor(visitor: Visitor) -> Locator:
    """There once somebody comes near."""
    visitor.come_near(visitor.page.locator(".yaml-editor"))
    return visitor.page.locator(".cm-content")


@pytest.mark.parametrize(
    "context_options", [{"color_scheme": "light"}, {"color_scheme": "dark"}], ids=["light", "dark"]
)
def test_a_model_tells_what_is_in_it(chooser: Visitor, model: dict[str, Any], context_options: dict[str, Any]) -> None:
    chooser.open(f"/models/{model['id']}", "small")
    expect(chooser.section("Coverage")).to_contain_text("this model can be trained")
    layers = chooser.section("Layers")
    expect(layers.get_by_role("row").filter(has_text="point")).to_contain_text("16 × 32 × 4 × 4")
    layers.get_by_label("Search").fill("head")
    expect(layers.get_by_role("row")).to_have_count(2)
    expect(chooser.section("What training takes")).to_contain_text("the biases")
    assert chooser.accessibility_violations() == []
    chooser.screenshot(f"model-{context_options['color_scheme']}")


@pytest.mark.parametrize(
    "context_options",
    [
        {"color_scheme": "light", "viewport": {"width": 1500, "height": 1000}},
        {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}},
    ],
    ids=["light", "phone"],
)
def test_choosing_shows_what_it_takes(
    chooser: Visitor, model: dict[str, Any], context_options: dict[str, Any], compiling: Service
) -> None:
    open_picker(chooser, model)
    head = figure(chooser, "Numbers trained")
    trained(chooser, "point").select_option("share-0.5")
    expect(editor(chooser)).to_contain_text("point.weight")
    planned(chooser)
    assert figure(chooser, "Numbers trained") != head
    recipe = {
        "loss": "cross_entropy",
        "optimizer": {"name": "adamw", "lr": 0.001},
        "batch": 16,
        "update": [{"params": "head.*"}, {"params": "point.bias"}, {"params": "point.weight", "channels": 0.5}],
    }
    told = compiling.post(f"/models/{model['id']}/estimate", {"recipe": recipe, "target": TARGET})
    peak = f"{told['predicted_peak_bytes'] / 2**10:.0f} KiB".replace(" ", "\u00a0")
    assert figure(chooser, "Peak memory") == peak
    assert chooser.accessibility_violations() == []
    assert not chooser.is_wider_than_the_screen()
    width = context_options["viewport"]["width"]
    chooser.screenshot(f"scheme-{context_options['color_scheme']}-{width}")


def test_the_recipe_is_text_until_its_editor_is_there(chooser: Visitor, model: dict[str, Any]) -> None:
    waiting: list[Route] = []
    chooser.page.route("**/assets/dist-*.js", lambda route: waiting.append(route))
    open_picker(chooser, model)
    recipe = chooser.page.get_by_role("textbox", name="Recipe in YAML")
    expect(recipe).to_contain_text("loss: cross_entropy")
    assert chooser.accessibility_violations() == []
    recipe.focus()
    assert waiting
    chooser.page.unroute("**/assets/dist-*.js")  # which lets go those that wait
    expect(editor(chooser)).to_be_focused()
    chooser.page.keyboard.press("Control+End")
    chooser.page.keyboard.type("# mine")
    expect(editor(chooser)).to_contain_text("# mine")
    planned(chooser)


def test_what_is_written_changes_the_table_and_back(chooser: Visitor, model: dict[str, Any]) -> None:
    open_picker(chooser, model)
    expect(trained(chooser, "head")).to_have_value("all")
    editor(chooser).click()
    chooser.page.keyboard.press("Control+A")
    chooser.page.keyboard.type('loss: cross_entropy\nbatch: 16\nupdate:\n- {params: "stem.*"}\n')
    expect(trained(chooser, "stem")).to_have_value("all")
    expect(trained(chooser, "head")).to_have_value("frozen")
    chooser.page.get_by_label("Begin with").select_option("Everything")
    expect(editor(chooser)).to_contain_text('params: "*"')
    chooser.page.get_by_role("button", name="Undo").click()
    expect(trained(chooser, "head")).to_have_value("frozen")
    chooser.page.get_by_role("button", name="Redo").click()
    expect(trained(chooser, "head")).to_have_value("all")


def test_errors_stand_at_their_line(chooser: Visitor, model: dict[str, Any]) -> None:
    open_picker(chooser, model)
    editor(chooser).click()
    chooser.page.keyboard.press("Control+End")
    chooser.page.keyboard.type("\noptimizr: sgd\n")
    expect(chooser.page.get_by_role("alert")).to_contain_text("optimizr")
    expect(chooser.page.locator(".cm-lint-marker-error")).to_be_visible()
    expect(chooser.page.get_by_text("The recipe is wrong")).to_be_visible()
    expect(chooser.page.get_by_role("button", name="Build", exact=True)).to_be_disabled()


def test_an_address_restores_the_scheme(chooser: Visitor, model: dict[str, Any]) -> None:
    open_picker(chooser, model)
    trained(chooser, "depth").select_option("bias")
    planned(chooser)
    address = chooser.page.evaluate("location.hash")
    chooser.page.goto("about:blank")
    chooser.page.goto(f"{chooser.service.url}/{address}")
    expect(trained(chooser, "depth")).to_have_value("bias")
    expect(trained(chooser, "head")).to_have_value("all")


def test_two_schemes_stand_beside_each_other(chooser: Visitor, model: dict[str, Any]) -> None:
    open_picker(chooser, model)
    kept = figure(chooser, "Numbers trained")
    chooser.page.get_by_role("button", name="Keep beside the next").click()
    chooser.page.get_by_label("Begin with").select_option("Everything")
    expect(editor(chooser)).to_contain_text('params: "*"')
    planned(chooser)
    assert figure(chooser, "Numbers trained") == kept
    expect(chooser.page.get_by_label("Figures of the scheme")).to_contain_text("+")
    chooser.screenshot("scheme-beside")
    chooser.page.get_by_role("button", name="Go on from the kept one").click()
    expect(trained(chooser, "stem")).to_have_value("frozen")


def test_several_layers_at_once_and_a_build_for_two_targets(
    chooser: Visitor, model: dict[str, Any], compiling: Service
) -> None:
    open_picker(chooser, model)
    chooser.page.get_by_label("Mark stem").click()
    chooser.page.get_by_label("Mark depth").click(modifiers=["Shift"])
    chooser.page.get_by_label("Set the 3 marked").select_option("bias")
    expect(trained(chooser, "depth")).to_have_value("bias")
    expect(trained(chooser, "norm")).to_have_value("bias")
    planned(chooser)
    form = chooser.section("Build it")
    form.get_by_label("host").check()
    form.get_by_label("Name of the build").fill("biases")
    form.get_by_role("button", name="Build for 2 targets").click()
    expect(form.get_by_role("link", name="biases")).to_have_count(2)
    builds = compiling.get(f"/builds?model_id={model['id']}")["items"]
    assert {build["target"] for build in builds} == {TARGET, "host"}
    for build in builds:
        compiling.wait_for_build(build, "succeeded", seconds=180)


def test_a_key_that_may_not_build_sees_so_at_once(
    browser: Browser, compiling: Service, node_modules: Path, model: dict[str, Any]
) -> None:
    made = compiling.post("/api-keys", {"name": "reader", "scopes": ["read"], "ttl_days": 1})
    for visitor in visiting(browser, compiling, node_modules, {}):
        visitor.page.goto(f"{compiling.url}/#key={made['key']}&next=/models/{model['id']}/scheme")
        visitor.heading("What to train of small")
        expect(visitor.section("Build it")).to_contain_text("builds:write")
        expect(visitor.page.get_by_role("button", name="Build", exact=True)).to_be_disabled()


def test_presets_are_asked_for_ahead(chooser: Visitor, model: dict[str, Any]) -> None:
    asked: list[str] = []
    chooser.page.on(
        "requestfinished",
        lambda request: asked.append(request.post_data or "") if request.url.endswith("/estimate") else None,
    )
    open_picker(chooser, model)
    presets = chooser.page.get_by_label("Begin with").locator("option").count() - 1
    # Two are the same of a network that has one matrix, and are asked for once.
    while len(asked) < 1 + presets - 1:
        chooser.page.wait_for_event("requestfinished", lambda request: request.url.endswith("/estimate"))
    with chooser.page.expect_event("requestfinished", lambda request: request.url.endswith("/estimate")):
        chooser.page.get_by_label("Begin with").select_option("Everything")
    planned(chooser)
    said = [yaml.safe_load(json.loads(one)["recipe"]) for one in asked]
    assert said[-1]["update"] == [{"params": "*"}] and said[-1] in said[:-1], "the service has been asked for it before"


def test_about_what_a_change_takes_is_shown_while_it_is_planned(chooser: Visitor, model: dict[str, Any]) -> None:
    page = chooser.page
    with page.expect_response(lambda answer: _approximates(answer) and answer.json()["learned"] == 1, timeout=120_000):
        open_picker(chooser, model)
    planned(chooser)
    waiting: list[Route] = []
    page.route("**/estimate", lambda route: waiting.append(route))
    trained(chooser, "stem").select_option("all")
    expect(page.get_by_text("About this; planning")).to_be_visible()
    about = figure(chooser, "Numbers trained"), figure(chooser, "Optimizer state")
    near = float(figure(chooser, "Peak memory").split()[0])
    assert figure(chooser, "Backward nodes") == "…"
    assert not chooser.accessibility_violations()
    chooser.screenshot("scheme-about")
    for one in waiting:
        one.continue_()
    page.unroute("**/estimate")
    planned(chooser)
    assert (figure(chooser, "Numbers trained"), figure(chooser, "Optimizer state")) == about
    assert near == pytest.approx(float(figure(chooser, "Peak memory").split()[0]), rel=0.02)
    assert figure(chooser, "Backward nodes") != "…"


def _approximates(answer: Response) -> bool:
    return answer.url.endswith("/approximation") and answer.ok


def test_what_a_search_found_is_proposed_and_its_contributions_are_heat(
    chooser: Visitor, compiling: Service, model: dict[str, Any], tmp_path: Path
) -> None:
    """By a real search: each layer that it weighed has its part of all that layers bring."""
    data = compiling.upload(make_files(tmp_path).train.read_bytes())
    dataset = compiling.post("/datasets", {"name": "digits", "digest": data})["id"]
    asked = {"model_id": model["id"], "dataset_id": dataset, "target": TARGET, "threads": 1, "lr_steps": 0}
    recipe = {"loss": "cross_entropy", "optimizer": "sgd", "batch": BATCH}
    search = compiling.post("/searches", {**asked, "recipe": recipe, "channels": "magnitude", "minutes": 0.2})
    path = f"/searches/{search['id']}"
    wait_until(lambda: compiling.get(path)["state"], lambda state: state in ("succeeded", "failed"), seconds=300)
    assert compiling.get(path)["failure"] is None
    open_picker(chooser, model)
    rows = chooser.page.get_by_role("table").filter(has_text="Trained").get_by_role("row")
    head = rows.filter(has=chooser.page.get_by_label("Trained of head", exact=True))
    expect(chooser.page.get_by_role("columnheader", name="Brings")).to_be_visible()
    parts = [re.search(r"([\d.]+)\s%", told) for told in chooser.page.locator("td:has(> .swatch)").all_inner_texts()]
    assert sum(float(part[1]) for part in parts if part) == pytest.approx(100, abs=1)
    expect(head.locator(".swatch")).to_have_class(re.compile("heat-[1-4]"))
    assert not chooser.accessibility_violations()
    chooser.screenshot("scheme-heat")
    chooser.page.get_by_label("Or with what a search found").select_option(label="small:v1")
    planned(chooser)
    expect(chooser.page.get_by_text("Found by pock search")).to_be_visible()


def test_a_dataset_is_compared_with_a_model_that_was_not_built(
    chooser: Visitor, compiling: Service, deep: dict[str, Any], tmp_path: Path
) -> None:
    save_file({"v0": np.zeros((3, 4), np.float32)}, tmp_path / "fitting.safetensors")
    save_file({"v0": np.zeros((3, 5), np.float32)}, tmp_path / "wider.safetensors")
    for name, sign in (("fitting", "its inputs fit"), ("wider", "does not fit")):
        digest = compiling.upload((tmp_path / f"{name}.safetensors").read_bytes())
        dataset = compiling.post("/datasets", {"name": name, "digest": digest})
        chooser.open(f"/datasets/{dataset['id']}", name)
        fit = chooser.section("Fit with models").get_by_role("listitem").filter(has_text="deep")
        expect(fit.locator(".badge")).to_have_text("not built")
        fit.get_by_role("button", name="Compare inputs of deep").click()
        expect(fit.locator(".badge")).to_have_text(sign)
    expect(fit).to_contain_text("v0 is 5, not 4")
    assert not chooser.accessibility_violations()


def test_the_address_finds_layers_and_back_restores_the_place(chooser: Visitor, deep: dict[str, Any]) -> None:
    page = chooser.page
    chooser.open(f"/models/{deep['id']}", "deep")
    rows = chooser.section("Layers").locator("tbody tr")
    expect(rows).to_have_count(60)
    chooser.section("Layers").get_by_label("Search").fill("block.8")
    expect(rows).to_have_count(11)
    chooser.section("Layers").get_by_label("Order by").select_option("operations")
    assert "layers=block.8" in page.url and "order=operations" in page.url
    page.reload()
    expect(rows).to_have_count(11)
    expect(chooser.section("Layers").get_by_label("Order by")).to_have_value("operations")
    chooser.section("Layers").get_by_label("Search").fill("")
    page.get_by_role("button", name=f"Show all {LAYERS}").click()
    expect(rows).to_have_count(LAYERS)
    page.mouse.wheel(0, 2500)
    page.wait_for_function("scrollY > 1500")
    place = page.evaluate("scrollY")
    page.get_by_role("link", name="Data", exact=True).evaluate("link => link.click()")
    chooser.heading("Data")
    page.go_back()
    expect(rows).to_have_count(LAYERS)
    page.wait_for_function("place => Math.abs(scrollY - place) < 2", arg=place)
