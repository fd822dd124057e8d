"""Builds as a matrix of schemes and targets: live, with what is missing built and what failed asked for again."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.web.admin.test_members import sign_in_with
from tests.web.data import Data
from tests.web.screens import screens
from tests.web.service import Service
from tests.web.visitor import Visitor

FURTHER = "raspberry-pi-5"
UNKNOWN = "abacus"
"""No target of the service."""
HURTFUL = '<img src=x onerror="window.hurt=1">'


@pytest.fixture(scope="module")
def model(service: Service, data: Data) -> dict[str, Any]:
    """With a scheme that is built for both targets, one for the host only, and one that failed."""
    model = service.add_model("matrix-net")
    for name, recipe in (("sparse", {}), (HURTFUL, {"batch": 4}), ("typo", {"loss": "cross_entrpy"})):
        build = service.request_build(model, name, **recipe)
        service.wait_for_build(build, "failed" if "loss" in recipe else "succeeded")
        if name == "sparse":
            other = service.post("/builds", {**order_of(build), "target": "raspberry-pi-4"})
            service.wait_for_build(other, "succeeded")
    return model


def order_of(build: dict[str, Any]) -> dict[str, Any]:
    return {key: build[key] for key in ("model_id", "recipe", "target", "name")}


def cell(visitor: Visitor, scheme: str, column: int) -> Locator:
    rows = visitor.section("Schemes by targets").get_by_role("row")
    return rows.filter(has=visitor.page.get_by_role("rowheader", name=scheme)).get_by_role("cell").nth(column)


def open_matrix(visitor: Visitor, model: dict[str, Any]) -> None:
    visitor.open(f"/builds?show=matrix&model={model['id']}", "Builds")
    expect(cell(visitor, "sparse", 0)).to_contain_text("at the peak")


def test_it_is_reached_from_the_model_and_back_restores_it(visitor: Visitor, model: dict[str, Any]) -> None:
    visitor.sign_in()
    visitor.open(f"/models/{model['id']}", "matrix-net")
    visitor.page.get_by_role("link", name="As schemes by targets").click()
    visitor.heading("Builds")
    expect(cell(visitor, "sparse", 1)).to_contain_text("succeeded")
    cell(visitor, "sparse", 1).get_by_role("link").click()
    visitor.heading("sparse")
    visitor.page.go_back()
    expect(cell(visitor, "sparse", 1)).to_contain_text("succeeded")
    visitor.page.get_by_role("button", name="List").click()
    expect(visitor.section("All builds").get_by_role("row").filter(has_text="typo").first).to_be_visible()
    assert "show=" not in visitor.page.url


@screens
def test_it_is_accessible_and_fits(
    visitor: Visitor, model: dict[str, Any], context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    visitor.sign_in()
    open_matrix(visitor, model)
    visitor.page.get_by_role("heading", level=1).focus()
    assert not visitor.is_wider_than_the_screen()
    assert visitor.accessibility_violations() == []
    assert visitor.page.evaluate("window.hurt") is None
    visitor.screenshot(f"matrix-{request.node.callspec.id}")


def test_what_is_missing_is_built_live(
    visitor: Visitor, service: Service, model: dict[str, Any], tmp_path: Path
) -> None:
    gate = tmp_path / "go on"
    build = service.request_build(model, "waits", wait_for=str(gate))
    visitor.sign_in()
    open_matrix(visitor, model)
    running = cell(visitor, "waits", 0)
    expect(running.get_by_role("progressbar")).to_be_visible()
    expect(running).to_contain_text("kernels")
    gate.touch()
    service.wait_for_build(build, "succeeded")
    expect(running).to_contain_text("at the peak")
    cell(visitor, "waits", 1).get_by_role("button", name="Build waits for raspberry-pi-4").click()
    expect(cell(visitor, "waits", 1)).to_contain_text("at the peak")
    built = service.get(f"/builds?model_id={model['id']}&limit=1")["items"][0]
    assert (built["name"], built["target"], built["recipe"]) == ("waits", "raspberry-pi-4", build["recipe"])


def test_all_that_is_missing_is_built_for_further_targets(
    visitor: Visitor, service: Service, model: dict[str, Any]
) -> None:
    """Some are left out, one is refused, and each is told, also later; the address brings the columns back."""
    other = service.add_model("missing-net")
    for name, batch in (("first", 8), ("second", 16)):
        build = service.request_build(other, name, batch=batch)
        service.wait_for_build(build, "succeeded")
    older = service.post("/builds", {**order_of(build), "target": "raspberry-pi-4"})
    service.wait_for_build(older, "succeeded")
    newer = service.request_build(other, "second", batch=2)
    service.wait_for_build(newer, "succeeded")
    visitor.sign_in()
    visitor.open(f"/builds?show=matrix&model={other['id']}", "Builds")
    section = visitor.section("Schemes by targets")
    expect(cell(visitor, "first", 0)).to_contain_text("at the peak")
    section.get_by_role("group", name="Further targets").get_by_label(FURTHER).check()
    assert f"targets={FURTHER}" in visitor.page.url
    visitor.open(f"/builds?show=matrix&model={other['id']}&targets={FURTHER},{UNKNOWN}", "Builds")
    visitor.page.reload()
    expect(section.get_by_role("columnheader", name=FURTHER)).to_be_visible()
    section.get_by_role("button", name="Build all", exact=False).click()
    dialog = visitor.page.get_by_role("dialog", name="Build what is missing")
    offered = dialog.get_by_role("checkbox")
    expect(offered).to_have_count(6)
    visitor.screenshot("matrix-missing-light")
    assert visitor.accessibility_violations() == []
    dialog.get_by_label("first for raspberry-pi-4").uncheck()
    dialog.get_by_label(f"second for {UNKNOWN}").uncheck()
    dialog.get_by_role("button", name="Build 4").click()
    expect(dialog.get_by_role("status")).to_have_text("3 asked for, 1 refused.")
    expect(dialog).to_contain_text(f"first for {UNKNOWN}: There is no target '{UNKNOWN}';")
    visitor.screenshot("matrix-refused-light")
    dialog.get_by_role("button", name="Close").click()
    line = section.get_by_role("status").filter(has_text="Missing builds: 3 asked for, 1 refused.")
    visitor.screenshot("matrix-line-light")
    assert visitor.accessibility_violations() == []
    line.get_by_role("button", name="Show").click()
    expect(dialog).to_contain_text(f"There is no target '{UNKNOWN}';")
    visitor.page.keyboard.press("Escape")
    line.get_by_role("button", name="Dismiss").click()
    expect(line).to_have_count(0)
    built = {(one["name"], one["target"]) for one in service.get(f"/builds?model_id={other['id']}")["items"]}
    assert ("first", "raspberry-pi-4") not in built and {("first", FURTHER), ("second", FURTHER)} <= built


@pytest.fixture
def thin(service: Service) -> dict[str, Any]:
    """A model with one scheme, built for the host alone, of which two more targets are asked for in the address."""
    model = service.add_model(f"thin-net-{len(service.get('/models')['items'])}")
    service.wait_for_build(service.request_build(model, "only"), "succeeded")
    return model


def open_thin(visitor: Visitor, model: dict[str, Any]) -> Locator:
    """Its matrix; the line of what was asked for."""
    visitor.open(f"/builds?show=matrix&model={model['id']}&targets=raspberry-pi-4,{FURTHER}", "Builds")
    expect(cell(visitor, "only", 0)).to_contain_text("at the peak")
    return visitor.section("Schemes by targets").get_by_role("status").filter(has_text="Missing builds")


@pytest.mark.parametrize("escapes", [1, 2], ids=["once", "twice"])
def test_escape_leaves_what_is_under_way_and_it_is_told_later(
    visitor: Visitor, service: Service, thin: dict[str, Any], escapes: int
) -> None:
    """The second request is held back until the person has closed the dialog, left the view and come back."""
    page, held, seen = visitor.page, list[Route](), list[Route]()

    def hold(route: Route) -> None:
        seen.append(route)
        (held.append if len(seen) == 2 else Route.continue_)(route)

    page.route(lambda url: url.endswith("/v1/builds"), hold)
    visitor.sign_in()
    line = open_thin(visitor, thin)
    page.get_by_role("button", name="Build the 2 missing").click()
    dialog = page.get_by_role("dialog", name="Build what is missing")
    dialog.get_by_role("button", name="Build 2").click()
    expect(dialog.get_by_role("status").last).to_have_text("1 of 2 asked for.")
    for _ in range(escapes):
        page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(line).to_contain_text("Missing builds: 1 of 2 asked for.")
    visitor.screenshot("matrix-under-way")
    visitor.open("/runs", "Runs")
    line = open_thin(visitor, thin)
    expect(line).to_contain_text("1 of 2 asked for.")
    held[0].continue_()
    expect(line).to_contain_text("Missing builds: 2 asked for.")
    expect(cell(visitor, "only", 2)).to_contain_text("at the peak")
    line.get_by_role("button", name="Show").click()
    expect(dialog.get_by_role("link", name="asked for")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(line).to_have_count(0)
    assert len(service.get(f"/builds?model_id={thin['id']}")["items"]) == 3


def test_who_signs_in_next_does_not_see_what_was_asked_for(
    visitor: Visitor, service: Service, thin: dict[str, Any]
) -> None:
    visitor.sign_in()
    open_thin(visitor, thin)
    visitor.open(f"/builds?show=matrix&model={thin['id']}&targets={UNKNOWN},{FURTHER}", "Builds")
    visitor.page.get_by_role("button", name="Build the 2 missing").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Build 2").click()
    expect(visitor.page.get_by_role("dialog").get_by_role("status")).to_have_text("1 asked for, 1 refused.")
    visitor.page.keyboard.press("Escape")
    line = visitor.section("Schemes by targets").get_by_role("status").filter(has_text="Missing builds")
    expect(line).to_contain_text("1 refused")
    sign_in_with(visitor, service, "read")
    expect(open_thin(visitor, thin)).to_have_count(0)


def test_the_same_recipe_in_another_order_is_not_older(visitor: Visitor, service: Service) -> None:
    """It is neither marked nor built again, though it came before the newest of its row; a different one is both."""
    other = service.add_model("ordered-net")
    build = service.wait_for_build(service.request_build(other, "same"), "succeeded")
    order = {**order_of(build), "target": "raspberry-pi-4"}
    turned = dict(reversed(build["recipe"].items()))
    newest = service.wait_for_build(service.post("/builds", {**order, "recipe": turned}), "succeeded")
    assert list(newest["recipe"]) == list(reversed(build["recipe"]))
    visitor.sign_in()
    visitor.open(f"/builds?show=matrix&model={other['id']}", "Builds")
    host = cell(visitor, "same", 0)
    expect(cell(visitor, "same", 1)).to_contain_text("at the peak")
    expect(host).to_contain_text("at the peak")
    expect(host.get_by_role("button")).to_have_count(0)
    expect(host).not_to_contain_text("older")
    service.post("/builds", {**order, "recipe": {**turned, "batch": 2}})
    expect(host).to_contain_text("an older recipe than the row's newest")
    expect(host.get_by_role("button", name="Build same for host")).to_be_enabled()


def test_what_failed_is_asked_for_again_or_edited(visitor: Visitor, service: Service, model: dict[str, Any]) -> None:
    visitor.sign_in()
    open_matrix(visitor, model)
    failed = cell(visitor, "typo", 0)
    expect(failed).to_contain_text("did you mean cross_entropy?")
    failed.get_by_role("button", name="Retry typo for host").click()
    expect(failed).to_contain_text("newest of 2")
    expect(failed).to_contain_text("failed")
    href = str(failed.get_by_role("link", name="Edit typo for host").get_attribute("href"))
    newest = service.get(f"/builds?model_id={model['id']}&limit=1")["items"][0]
    assert newest["name"] == "typo"
    assert f"/models/{model['id']}/scheme" in href and newest["id"] in href
    failed.get_by_role("link", name="typo for host: failed").click()
    visitor.heading("typo")
    visitor.page.get_by_role("button", name="Retry").click()
    expect(visitor.page.locator("h1")).to_be_visible()
    visitor.page.wait_for_url(lambda url: newest["id"] not in url)


def test_a_key_that_only_reads_builds_nothing(visitor: Visitor, service: Service, model: dict[str, Any]) -> None:
    sign_in_with(visitor, service, "read")
    open_matrix(visitor, model)
    expect(cell(visitor, "typo", 0).get_by_role("button", name="Retry")).to_be_disabled()
