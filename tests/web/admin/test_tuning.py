"""Admin, tuning: what is known of kernels, the searches for more, and the devices that are not believed."""

from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.web.admin.test_members import HOSTILE, sign_in_with
from tests.web.data import Data
from tests.web.screens import screens
from tests.web.service import Service
from tests.web.visitor import Visitor

SINCE = "2026-11-01T10:00:00Z"


@pytest.fixture(scope="module")
def known(service: Service) -> None:
    """Entries of two families on two targets, as files bring them; one hostile."""
    for target, family, sizes in (
        ("host", "matmul", "1,2,3"),
        ("host", HOSTILE, "<b>4</b>"),
        ("raspberry-pi-4", "conv", "8"),
    ):
        inputs = {"family": family, "device": "x86_64 skylake", "sizes": sizes}
        entry = {"inputs": inputs, "choice": {"tile": 2}, "ms": 0.9, "model_ms": 1.2}
        service.post("/tuning", {"target": target, "entries": [entry]})


def stand_in(visitor: Visitor, data: Data) -> list[str]:
    """Searches and distrusted devices, which need a fleet that tries kernels; gives what is asked of them."""
    asked: list[str] = []
    tuning = {
        "id": data.run["id"],
        "build_id": data.build["id"],
        "build_name": HOSTILE,
        "target": "host",
        "threads": 1,
        "state": "measuring",
        "packs": 2,
        "tried": 40,
        "trying": 12,
        "decided": 31,
        "failure": None,
        "created_at": SINCE,
        "finished_at": None,
    }
    failed = {**tuning, "id": data.build["id"], "state": "failed", "finished_at": SINCE}
    failed["failure"] = {"code": 3001, "detail": "<b>A pack could not be built.</b>"}
    doubted = {
        "device_id": data.idle.id,
        "device_name": HOSTILE,
        "reason": "It says 0.001 ms where others need <b>1 ms</b>.",
        "run_id": data.run["id"],
        "since": SINCE,
    }

    def answer(route: Route) -> None:
        method, path = route.request.method, route.request.url.partition("/v1")[2]
        if method == "GET":
            items: list[Any] = [tuning, failed] if "/jobs" in path else [doubted]
            route.fulfill(json={"items": items, "next_cursor": None})
            return
        asked.append(f"{method} {path}")
        route.fulfill(json=tuning) if method == "POST" else route.fulfill(status=204)

    visitor.page.route("**/v1/tuning/jobs**", answer)
    visitor.page.route("**/v1/tuning/devices**", answer)
    return asked


@screens
def test_tuning_is_accessible_fits_and_holds_hostile_texts(
    visitor: Visitor, data: Data, known: None, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    stand_in(visitor, data)
    visitor.sign_in()
    visitor.open("/admin/tuning", "Tuning")
    row = visitor.section("What is known").get_by_role("row").filter(has_text=HOSTILE)
    row.locator("summary").click()
    expect(row).to_contain_text("<b>4</b>")
    expect(visitor.section("Searches for more")).to_contain_text("<b>A pack could not be built.</b>")
    expect(visitor.section("Devices that are not believed")).to_contain_text("<b>1 ms</b>")
    visitor.screenshot(f"admin-tuning-{screen}")
    assert visitor.page.locator("main img, main b").count() == 0
    assert not visitor.is_wider_than_the_screen()
    if screen in ("light", "dark"):
        assert visitor.accessibility_violations(["color-contrast"] if screen == "dark" else None) == []


def test_entries_are_found_by_target_and_family(visitor: Visitor, service: Service, known: None) -> None:
    page = visitor.page
    visitor.sign_in()
    visitor.open("/admin/tuning", "Tuning")
    rows = visitor.section("What is known").locator("tbody tr")
    expect(rows).to_have_count(len(service.get("/tuning")["items"]))
    page.get_by_label("Target").select_option("raspberry-pi-4")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("−25.0 %")
    expect(rows).to_contain_text("a file")
    assert visitor.copy_command("What is known").endswith("target=raspberry-pi-4'")
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_label("Decided").select_option("false")
    expect(visitor.section("What is known")).to_contain_text("Nothing like this is known.")
    assert "known=false" in page.url


def test_a_search_is_cancelled_and_a_device_forgotten(visitor: Visitor, data: Data) -> None:
    asked = stand_in(visitor, data)
    page = visitor.page
    visitor.sign_in()
    visitor.open("/admin/tuning", "Tuning")
    searches = visitor.section("Searches for more").get_by_role("row")
    expect(searches.nth(2).get_by_role("button")).to_have_count(0)
    expect(searches.nth(1)).to_contain_text("40 + 12 now")
    page.get_by_role("button", name="Cancel the search for").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Forget what").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert asked == [f"POST /tuning/jobs/{data.run['id']}/cancel", f"DELETE /tuning/devices/{data.idle.id}"]


def test_a_key_without_the_scopes_sees_and_does_not_change(visitor: Visitor, data: Data, service: Service) -> None:
    stand_in(visitor, data)
    sign_in_with(visitor, service, "read")
    visitor.open("/admin/tuning", "Tuning")
    expect(visitor.page.get_by_role("button", name="Cancel the search for")).to_be_disabled()
    forget = visitor.page.get_by_role("button", name="Forget what")
    expect(forget).to_be_disabled()
    assert "devices:admin" in (forget.get_attribute("title") or "")
