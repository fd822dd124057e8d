"""Admin, usage: queues, build workers, storage and quotas, as the server counts them."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.web.admin.test_members import HOSTILE, sign_in_with
from tests.web.data import Data, start_run
from tests.web.screens import screens
from tests.web.service import Service
from tests.web.visitor import Visitor


@screens
def test_usage_is_accessible_and_fits(
    visitor: Visitor, data: Data, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    visitor.open("/admin/usage", "Usage")
    expect(visitor.section("Quotas").get_by_role("row").nth(1)).to_be_visible()
    visitor.screenshot(f"admin-usage-{screen}")
    assert not visitor.is_wider_than_the_screen()
    if screen in ("light", "dark"):
        assert visitor.accessibility_violations(["color-contrast"] if screen == "dark" else None) == []


def test_queues_storage_and_quotas_are_those_of_the_server(visitor: Visitor, data: Data, service: Service) -> None:
    start_run(service, data.build, data.idle, data.dataset)
    visitor.sign_in()
    visitor.open("/admin/usage", "Usage")
    known = service.get("/usage")
    (runs,) = [one for one in known["queues"] if one["kind"] == "run"]
    assert runs["waiting"] >= 1
    row = visitor.section("Queues").get_by_role("row").filter(has_text="Runs")
    expect(row.get_by_role("cell").nth(2)).to_have_text(str(runs["waiting"]))
    expect(row.get_by_role("cell").nth(3)).not_to_have_text("–")
    expect(visitor.section("Storage")).to_contain_text(f"in {known['storage']['blobs']} files")
    quotas = visitor.section("Quotas").get_by_role("row")
    expect(quotas).to_have_count(1 + len(known["quotas"]))
    (models,) = [one for one in known["quotas"] if one["quota"] == "models"]
    cells = quotas.nth(1 + known["quotas"].index(models)).get_by_role("cell")
    expect(cells.nth(0)).to_have_text("models")
    expect(cells.nth(1)).to_have_text(str(models["used"]))
    assert visitor.copy_command("Queues").endswith("/v1/usage | jq .queues")


def test_a_worker_at_work_is_shown_with_its_build(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    go = tmp_path / "go"
    build = service.request_build(service.add_model("held-up"), HOSTILE, wait_for=str(go))
    service.wait_for_build(build, "running")
    visitor.sign_in()
    visitor.open("/admin/usage", "Usage")
    row = visitor.section("Build workers").get_by_role("row").filter(has_text=HOSTILE)
    expect(row.get_by_role("link")).to_have_attribute("href", f"#/builds/{build['id']}")
    expect(row).to_contain_text("working")
    expect(visitor.section("Queues").get_by_role("row").nth(1).get_by_role("cell").nth(4)).to_have_text("1")
    assert visitor.page.locator("main img").count() == 0
    visitor.screenshot("admin-usage-working")
    go.touch()
    service.wait_for_build(build, "succeeded")
    visitor.page.reload()
    expect(visitor.section("Build workers")).to_contain_text("No worker is at work for this workspace.")


def test_who_may_not_read_is_told(visitor: Visitor, service: Service) -> None:
    sign_in_with(visitor, service, "runs:write")
    visitor.open("/admin/usage", "Usage")
    expect(visitor.page.locator("main")).to_contain_text("it lacks the scope read")
