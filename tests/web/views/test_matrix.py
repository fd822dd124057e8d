"""Builds as a matrix of schemes and targets: live, with what is missing built and what failed asked for again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from tests.web.admin.test_members import SCREENS, sign_in_with
from tests.web.data import Data
from tests.web.service import Service
from tests.web.visitor import Visitor

FURTHER = "raspberry-pi-5"
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


@pytest.mark.parametrize("context_options", SCREENS.values(), ids=SCREENS.keys())
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
    """Some are left out, one is refused, and each is told; the address brings the columns back."""
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
    visitor.page.reload()
    expect(section.get_by_role("columnheader", name=FURTHER)).to_be_visible()
    section.get_by_role("button", name="Build all", exact=False).click()
    dialog = visitor.page.get_by_role("dialog", name="Build what is missing")
    offered = dialog.get_by_role("checkbox")
    expect(offered).to_have_count(4)
    visitor.screenshot("matrix-missing-light")
    assert visitor.accessibility_violations() == []
    dialog.get_by_label("first for raspberry-pi-4").uncheck()
    visitor.page.route("**/v1/builds", _refuse_the_first(visitor))
    dialog.get_by_role("button", name="Build 3").click()
    expect(dialog.get_by_role("status")).to_have_text("2 asked for, 1 refused.")
    expect(dialog).to_contain_text("No room for builds.")
    dialog.get_by_role("button", name="Close").click()
    built = {(one["name"], one["target"]) for one in service.get(f"/builds?model_id={other['id']}")["items"]}
    assert ("first", "raspberry-pi-4") not in built and {("first", FURTHER), ("second", FURTHER)} <= built


def _refuse_the_first(visitor: Visitor) -> Callable[[Route], None]:
    """Answers the first request as a service without room does; the others go on."""
    refused: list[bool] = []

    def answer(route: Route) -> None:
        if route.request.method != "POST" or refused:
            route.continue_()
            return
        refused.append(True)
        problem = {"type": "urn:pock:failure:1012", "title": "Quota", "status": 409, "detail": "No room for builds."}
        route.fulfill(status=409, content_type="application/problem+json", body=json.dumps(problem))

    return answer


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
