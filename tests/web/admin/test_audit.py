"""Admin, the audit log: found by action, person, object and time, all in the address; pages; the export."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, expect

from tests.web.admin.test_members import HOSTILE, add_member, sign_in_with
from tests.web.data import Data
from tests.web.screens import screens
from tests.web.service import Service
from tests.web.visitor import Visitor


def entries(visitor: Visitor) -> Locator:
    """The rows of the log."""
    return visitor.section("Changes").locator("tbody tr")


def dataset_of(service: Service, member: str, name: str) -> dict[str, Any]:
    """A dataset that a member has added."""
    who = add_member(service, member)
    order = {"name": "laptop", "scopes": ["models:write", "read"], "ttl_days": 1, "member_id": who["id"]}
    key = service.post("/api-keys", order)["key"]
    source = service.add_dataset(f"{name} as it was", samples=4)
    answer = service.client.post(
        "/datasets", json={"name": name, "digest": source["digest"]}, headers={"Authorization": f"Bearer {key}"}
    )
    assert answer.is_success, answer.text
    row: dict[str, Any] = answer.json()
    return row


@screens
def test_the_log_is_accessible_and_fits(
    visitor: Visitor, data: Data, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    visitor.open("/admin/audit?action=session.open", "Audit log")
    expect(entries(visitor).first).to_be_visible()
    visitor.open("/admin/audit?kind=device", "Audit log")
    entries(visitor).first.locator("summary").click()
    visitor.screenshot(f"admin-audit-{screen}")
    assert not visitor.is_wider_than_the_screen()
    if screen in ("light", "dark"):
        assert visitor.accessibility_violations(["color-contrast"] if screen == "dark" else None) == []


def test_cells_and_fields_filter_and_the_address_keeps_it(visitor: Visitor, service: Service) -> None:
    dataset = dataset_of(service, "Auditor Example", "audited")
    page = visitor.page
    visitor.sign_in()
    visitor.open("/admin/audit?kind=dataset", "Audit log")
    row = entries(visitor).filter(has=page.get_by_role("button", name="audited", exact=True))
    row.get_by_role("button", name="Auditor Example").click()
    expect(page.get_by_label("Filters in use")).to_contain_text("By Auditor Example")
    expect(entries(visitor)).to_have_count(1)
    row.get_by_role("button", name="dataset.create").click()
    row.get_by_role("button", name="audited", exact=True).click()
    for asked in ("action=dataset.create", "member=", f"object={dataset['id']}", "kind=dataset"):
        assert asked in page.url
    page.reload()
    expect(entries(visitor)).to_have_count(1)
    expect(page.get_by_label("Action, such as")).to_have_value("dataset.create")
    page.get_by_label("Action, such as").fill("dataset.delete")
    page.get_by_label("Action, such as").press("Enter")
    expect(visitor.section("Changes")).to_contain_text("Nothing like this has happened.")
    assert visitor.copy_command("Audit log").count("action=dataset.delete") == 1
    page.get_by_role("button", name="Show everything").click()
    expect(entries(visitor).nth(3)).to_be_visible()
    assert page.url.endswith("#/admin/audit")
    row.first.get_by_role("link", name="Open audited").click()
    visitor.heading("audited")
    page.go_back()
    visitor.heading("Audit log")


def test_times_are_local_and_bound_the_log(visitor: Visitor, service: Service) -> None:
    dataset = dataset_of(service, "Timely Example", "timed")
    at = datetime.fromisoformat(dataset["created_at"]).astimezone()
    page = visitor.page
    visitor.sign_in()
    visitor.open("/admin/audit?action=dataset.create", "Audit log")
    row = entries(visitor).filter(has=page.get_by_role("button", name="timed", exact=True))
    shown = page.evaluate("moment => new Date(moment).toTimeString().slice(0, 8)", dataset["created_at"])
    expect(row).to_contain_text(shown)
    page.get_by_label("From, in").fill((at + timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M"))
    page.get_by_label("From, in").dispatch_event("change")
    expect(visitor.section("Changes")).to_contain_text("Nothing like this has happened.")
    page.get_by_label("From, in").fill((at - timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M"))
    page.get_by_label("From, in").dispatch_event("change")
    expect(row).to_have_count(1)
    page.reload()
    expect(page.get_by_label("From, in")).to_have_value((at - timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M"))


def test_more_pages_and_the_export(visitor: Visitor, service: Service, tmp_path: Path) -> None:
    model = service.add_model("tagged-often")
    for number in range(105):  # a model has 100 tags at most
        tag = f"/models/{model['id']}/tags/t{number}"
        assert service.client.put(tag).is_success and service.client.delete(tag).is_success
    visitor.sign_in()
    visitor.open(f"/admin/audit?action=model.tag&object={model['id']}", "Audit log")
    expect(entries(visitor)).to_have_count(100)
    visitor.page.get_by_role("button", name="Show more").click()
    expect(entries(visitor)).to_have_count(105)
    expect(visitor.page.get_by_role("button", name="Show more")).to_have_count(0)
    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("link", name="Download as JSON lines").click()
    download.value.save_as(tmp_path / "audit.jsonl")
    exported = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [entry["object"]["id"] for entry in exported] == [model["id"]] * 105


def test_an_entry_unfolds_what_changed_and_from_where(visitor: Visitor, service: Service) -> None:
    member = add_member(service, "Changed Example", "viewer")
    service.client.patch(f"/members/{member['id']}", json={"role": "operator", "email": "c@example.org"})
    visitor.sign_in()
    visitor.open(f"/admin/audit?object={member['id']}&action=member.change", "Audit log")
    expect(entries(visitor)).to_have_count(1)
    details = entries(visitor).locator("details")
    details.locator("summary").click()
    expect(details).to_contain_text("viewer → operator")
    expect(details).to_contain_text("c@example.org")
    expect(details).to_contain_text("127.0.0.1")
    expect(details).to_contain_text("python-httpx")


def test_who_may_not_read_the_log_is_told(visitor: Visitor, service: Service) -> None:
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    sign_in_with(visitor, service, "read", "keys:admin")
    visitor.open("/admin/audit", "Audit log")
    expect(visitor.page.locator("main")).to_contain_text("it lacks the scope audit:read")
    expect(visitor.page.get_by_role("link", name="Download")).to_have_count(0)
    assert not any("/v1/audit" in url for url in asked)


def test_hostile_names_and_words_are_text(visitor: Visitor, service: Service) -> None:
    key = service.post("/api-keys", {"name": HOSTILE, "scopes": ["models:write"], "ttl_days": 1})["key"]
    headers = {"Authorization": f"Bearer {key}", "User-Agent": HOSTILE}
    digest = service.add_model("plain")["digest"]
    made = httpx.post(f"{service.url}/v1/models", json={"name": HOSTILE, "digest": digest}, headers=headers)
    assert made.is_success, made.text
    visitor.sign_in()
    visitor.open(f"/admin/audit?object={made.json()['id']}", "Audit log")
    entries(visitor).first.locator("summary").click()
    expect(entries(visitor).first.locator("details")).to_contain_text(HOSTILE)
    entries(visitor).first.locator(".audit-who").get_by_role("button").click()
    expect(visitor.page.get_by_label("Filters in use")).to_contain_text(f"With the key of {HOSTILE}")
    assert visitor.page.locator("main img").count() == 0
    assert not visitor.is_wider_than_the_screen()
    visitor.page.get_by_label("Action, such as").fill(HOSTILE)
    visitor.page.get_by_label("Action, such as").press("Enter")
    assert "action=" not in visitor.page.url
    visitor.open(f"/admin/audit?action={'%3Cb%3E' * 3}", "Audit log")
    expect(visitor.page.get_by_role("alert")).to_contain_text("query.action")
