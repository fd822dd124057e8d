"""The fleet: devices are let in, found, sorted and changed."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Route, expect
from sqlalchemy import insert

from pock_server.clock import new_id
from pock_server.db.engine import make_engine
from pock_server.devices.tables import DeviceLabelRecord, DeviceRecord, EnrolmentTokenRecord
from pock_server.settings import Settings
from tests.web.conftest import visiting
from tests.web.data import Data
from tests.web.device import Device
from tests.web.screens import screens
from tests.web.service import Service, running_service
from tests.web.visitor import Visitor

MANY = 10_000


@pytest.fixture(scope="module")
def large(web_dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with 10,000 devices, a hundred a rack: every second hot, every tenth long gone."""
    folder = tmp_path_factory.mktemp("large")
    with running_service(folder, web_dist) as service:
        token = service.post("/enrollment-tokens", {})["id"]
        engine = make_engine(Settings(data_dir=folder))
        with engine.begin() as connection:
            home = connection.execute(EnrolmentTokenRecord.__table__.select()).first()
            assert home is not None
            rows = [device_row(number, home.workspace_id, token) for number in range(MANY)]
            connection.execute(insert(DeviceRecord), rows)
            labels = [{"device_id": row["id"], "key": "rack", "value": str(n // 100)} for n, row in enumerate(rows)]
            connection.execute(insert(DeviceLabelRecord), labels)
        engine.dispose()
        yield service


def device_row(number: int, workspace_id: str, token_id: str) -> dict[str, Any]:
    now = datetime.now(UTC)
    gone = number % 10 == 9
    return {
        "id": new_id(now),
        "workspace_id": workspace_id,
        "created_at": now,
        "name": f"pi-{number:05}",
        "pool": f"pool-{number % 4}",
        "status": "active",
        "public_key": "k" * 44,
        "target": "raspberry-pi-4" if number % 2 else "host",
        "facts": {"cpu_model": "Cortex-A72"},
        "agent_version": f"0.{1 + number % 3}.0",
        "agent_rank": (1 + number % 3) * 10**6,
        "memory_bytes": 4 << 30,
        "temperature_c": 40 + number / 1000,
        "throttled": number >= MANY - 7,
        "last_seen_at": now - timedelta(days=2) if gone else now + timedelta(hours=1),
        "session_counter": 0,
        "work_counter": 0,
        "token_id": token_id,
    }


@pytest.fixture
def operator(
    browser: Browser, large: Service, node_modules: Path, context_options: dict[str, Any]
) -> Iterator[Visitor]:
    """A person at the large service, on its fleet."""
    for visitor in visiting(browser, large, node_modules, context_options):
        visitor.sign_in()
        visitor.open("/fleet", "Fleet")
        yield visitor


def row(visitor: Visitor, name: str) -> Locator:
    return visitor.page.get_by_role("row").filter(has=visitor.page.get_by_role("link", name=name, exact=True))


def names(visitor: Visitor) -> list[str]:
    """Of the first rows that are seen."""
    return visitor.page.get_by_role("grid").locator("[role=row] a").all_inner_texts()[:5]


def looks_right(visitor: Visitor, name: str, screen: str) -> None:
    visitor.screenshot(f"{name}-{screen}")
    assert not visitor.is_wider_than_the_screen()
    assert visitor.accessibility_violations() == []


@screens
def test_a_device_is_enrolled_with_one_command(
    visitor: Visitor, data: Data, service: Service, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    visitor.sign_in()
    visitor.open("/fleet?enrol=1", "Fleet")
    dialog = visitor.page.get_by_role("dialog", name="Enrol a device")
    expect(dialog).to_contain_text("Only this machine reaches that address")
    dialog.get_by_label("Pool").fill("bench")
    dialog.get_by_label("Labels").fill("room")
    expect(dialog.get_by_role("button", name="Make the command")).to_be_disabled()
    dialog.get_by_label("Labels").fill("room=attic")
    looks_right(visitor, "enrol-ask", screen)
    dialog.get_by_label("Address of the service").fill("http://192.168.1.7:8080/pock")
    expect(dialog).not_to_contain_text("Only this machine")
    dialog.get_by_role("button", name="Make the command").click()
    expect(dialog).to_contain_text("The token is good for 15 minutes, until ")
    expect(dialog.locator(".qr path")).to_have_attribute("d", re.compile("^M0 0h7v1h-7z"))
    looks_right(visitor, "enrol-command", screen)
    command = dialog.get_by_label("Command: enrolling the device").inner_text()
    found = re.fullmatch(r"pock-agent enroll http://192\.168\.1\.7:8080/pock (\S+) && pock-agent run", command.strip())
    assert found, command
    device = Device(service, f"joined-{screen}", token=found.group(1))
    expect(dialog).to_contain_text(f"joined-{screen} joined")
    looks_right(visitor, "enrol-joined", screen)
    shown = service.get(f"/devices/{device.id}")
    assert (shown["pool"], shown["labels"]) == ("bench", {"room": "attic"})
    dialog.get_by_role("link", name=f"joined-{screen}").click()
    visitor.heading(f"joined-{screen}")


def test_enrolment_closes_by_escape_and_opens_by_its_address(visitor: Visitor, data: Data) -> None:
    visitor.sign_in()
    visitor.open("/fleet", "Fleet")
    visitor.page.get_by_role("button", name="Enrol a device").click()
    dialog = visitor.page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_be_focused()
    assert visitor.page.url.endswith("#/fleet?enrol=1")
    visitor.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert visitor.page.url.endswith("#/fleet")


def test_who_may_not_enrol_is_told_so_before(visitor: Visitor, data: Data, service: Service) -> None:
    key = service.post("/api-keys", {"name": "looks", "scopes": ["read"]})["key"]
    visitor.page.goto(f"{service.url}/#key={key}&next=/fleet?enrol=1")
    visitor.heading("Fleet")
    dialog = visitor.page.get_by_role("dialog")
    expect(dialog).to_contain_text("it lacks the scope devices:admin")
    expect(dialog.get_by_role("button", name="Make the command")).to_be_disabled()
    dialog.get_by_role("button", name="Close").click()
    expect(visitor.page.get_by_role("button", name="Enrol a device")).to_be_disabled()


def test_ten_thousand_devices_are_searched_and_counted(operator: Visitor) -> None:
    grid = operator.page.get_by_role("grid", name="Devices")
    expect(grid).to_have_attribute("aria-rowcount", str(MANY + 1))
    expect(operator.page.get_by_role("button", name="online 9,000")).to_be_visible()
    expect(row(operator, "pi-00003")).to_contain_text("pool-3")
    assert operator.page.locator(".fleet-body [role=row]").count() < 60
    operator.page.get_by_role("button", name="offline 1,000").click()
    expect(operator.page.get_by_text("1,000 devices", exact=True)).to_be_visible()
    operator.page.get_by_label("Search name, pool").fill("rack=77")
    expect(operator.page.get_by_text("10 devices", exact=True)).to_be_visible()
    expect(row(operator, "pi-07709")).to_contain_text("2 days ago")
    operator.page.get_by_role("combobox", name="Pool").select_option("pool-1")
    expect(operator.page.get_by_text("5 devices", exact=True)).to_be_visible()
    operator.page.reload()
    expect(operator.page.get_by_text("5 devices", exact=True)).to_be_visible()
    expect(operator.page.get_by_label("Search name, pool")).to_have_value("rack=77")
    operator.page.get_by_label("Search name, pool").fill("no such")
    expect(operator.page.get_by_text("No device matches.")).to_be_visible()
    operator.open("/fleet?state=throttled&agent=0.1", "Fleet")
    expect(operator.page.get_by_text("3 devices", exact=True)).to_be_visible()
    expect(row(operator, "pi-09999")).to_contain_text("throttled, 50 °C")


def test_columns_sort_and_any_place_is_reached(operator: Visitor) -> None:
    grid = operator.page.get_by_role("grid")
    operator.page.get_by_role("button", name="Temperature").click()
    expect(row(operator, "pi-09999")).to_be_visible()
    assert names(operator)[0] == "pi-09999"
    header = operator.page.get_by_role("columnheader", name="Temperature")
    expect(header).to_have_attribute("aria-sort", "descending")
    grid.evaluate("frame => frame.scrollTo(0, frame.scrollHeight / 2)")
    expect(row(operator, "pi-05000")).to_be_visible()
    operator.page.get_by_role("button", name="Temperature").click()
    expect(row(operator, "pi-00000")).to_be_visible()
    expect(header).to_have_attribute("aria-sort", "ascending")
    grid.evaluate("frame => frame.scrollTo(0, frame.scrollHeight)")
    last = row(operator, "pi-09999")
    expect(last).to_be_visible()
    expect(last).to_have_attribute("aria-rowindex", str(MANY + 1))
    last.get_by_role("link").click()
    operator.heading("pi-09999")
    operator.page.go_back()
    operator.heading("Fleet")
    expect(row(operator, "pi-09999")).to_be_in_viewport()


def test_the_keyboard_alone_goes_through_the_table(operator: Visitor) -> None:
    grid, keyboard = operator.page.get_by_role("grid"), operator.page.keyboard
    expect(row(operator, "pi-00000")).to_be_visible()
    grid.focus()

    def active() -> Locator:
        return operator.page.locator(f"#{grid.get_attribute('aria-activedescendant')}")

    keyboard.press("ArrowDown")
    expect(active()).to_contain_text("pi-00001")
    keyboard.press("Space")
    expect(active()).to_have_attribute("aria-selected", "true")
    keyboard.press("End")
    expect(row(operator, "pi-09999")).to_be_in_viewport(ratio=0.8)
    expect(active()).to_contain_text("pi-09999")
    keyboard.press("PageUp")
    keyboard.press("Home")
    expect(row(operator, "pi-00000")).to_be_in_viewport(ratio=0.8)
    keyboard.press("Enter")
    operator.heading("pi-00000")


@screens
def test_the_table_is_accessible_and_fits(
    operator: Visitor, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    expect(row(operator, "pi-00003")).to_be_visible()
    row(operator, "pi-00002").get_by_role("checkbox").check()
    looks_right(operator, "fleet-large", screen)
    operator.open("/fleet?q=nothing", "Fleet")
    expect(operator.page.get_by_text("No device matches.")).to_be_visible()
    looks_right(operator, "fleet-none", screen)


def choose(visitor: Visitor, *devices: str) -> None:
    for name in devices:
        row(visitor, name).get_by_role("checkbox").check()


@screens
def test_chosen_devices_are_changed_after_asking(
    operator: Visitor, large: Service, context_options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    screen = request.node.callspec.id
    pool = f"moved-{screen}"
    operator.open("/fleet?q=rack=42", "Fleet")
    expect(operator.page.get_by_text("100 devices", exact=True)).to_be_visible()
    actions = operator.page.get_by_role("group", name="With the chosen devices")
    expect(actions.get_by_role("button", name="Change pool")).to_be_disabled()
    choose(operator, "pi-04200", "pi-04203")
    expect(actions).to_contain_text("2 chosen")
    actions.get_by_role("button", name="Change pool").click()
    dialog = operator.page.get_by_role("dialog", name="Put into another pool: 2 devices")
    expect(dialog.get_by_role("listitem")).to_have_text(["pi-04200", "pi-04203"])
    expect(dialog.get_by_role("button", name="Change 2 devices")).to_be_disabled()
    dialog.get_by_label("New pool").fill(pool)
    looks_right(operator, "fleet-change", screen)
    dialog.get_by_role("button", name="Change 2 devices").click()
    expect(dialog).to_contain_text("2 in the new pool.")
    dialog.get_by_role("button", name="Close").click()
    expect(row(operator, "pi-04203")).to_contain_text(pool)
    expect(actions).to_contain_text("None chosen")
    assert large.get(f"/devices?on=pool={pool}")["total"] == 2


def test_all_that_match_get_labels(operator: Visitor, large: Service) -> None:
    operator.open("/fleet?q=rack=31", "Fleet")
    expect(operator.page.get_by_text("100 devices", exact=True)).to_be_visible()
    operator.page.get_by_role("grid").press("Control+a")
    operator.page.get_by_role("button", name="Change labels").click()
    dialog = operator.page.get_by_role("dialog", name="Change the labels: 100 devices")
    expect(dialog).to_contain_text("and 88 more")
    dialog.get_by_label("Labels to give").fill("room=cellar")
    dialog.get_by_label("Labels to take away").fill("rack")
    dialog.get_by_role("button", name="Change 100 devices").click()
    expect(dialog).to_contain_text("100 changed.")
    dialog.get_by_role("button", name="Close").click()
    expect(operator.page.get_by_text("No device matches.")).to_be_visible()
    assert large.get("/devices?on=room=cellar,rack!=31")["total"] == 100


def test_escape_does_not_hide_what_is_under_way(operator: Visitor, large: Service) -> None:
    """A browser closes a dialog at the second Escape, whatever the page says to the first."""
    operator.open("/fleet?q=rack=57", "Fleet")
    choose(operator, "pi-05700")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    device = large.get("/devices?on=name=pi-05700")["items"][0]["id"]
    operator.page.route(f"**/v1/devices/{device}", hold)
    operator.page.get_by_role("button", name="Change pool").click()
    dialog = operator.page.get_by_role("dialog", name="Put into another pool: 1 device")
    dialog.get_by_label("New pool").fill("escaped")
    dialog.get_by_role("button", name="Change 1 device").click()
    expect(dialog.get_by_role("button", name="Stop")).to_be_visible()
    for _ in range(3):
        operator.page.keyboard.press("Escape")
    expect(dialog.get_by_role("button", name="Stop")).to_be_visible()
    held[0].continue_()
    expect(dialog).to_contain_text("1 in the new pool.")
    operator.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_devices_are_revoked_and_what_failed_is_told(operator: Visitor, large: Service) -> None:
    operator.open("/fleet?q=rack=55", "Fleet")
    choose(operator, "pi-05500", "pi-05501", "pi-05502")
    operator.page.get_by_role("button", name="Revoke …").click()
    dialog = operator.page.get_by_role("dialog", name="Revoke: 3 devices")
    dialog.get_by_role("button", name="Keep as it is").click()
    assert large.get("/device-totals?text=rack=55")["states"].get("revoked") is None
    refused = large.get("/devices?on=name=pi-05501")["items"][0]["id"]
    problem = {"title": "Busy", "detail": "The database is busy; try again.", "status": 503}
    operator.page.route(f"**/v1/devices/{refused}", lambda route: route.fulfill(status=503, json=problem))
    operator.page.get_by_role("button", name="Revoke …").click()
    dialog.get_by_role("button", name="Revoke 3 devices").click()
    expect(dialog).to_contain_text("2 revoked, 1 not.")
    expect(dialog.get_by_role("list", name="Not changed")).to_have_text("pi-05501: The database is busy; try again.")
    operator.screenshot("fleet-revoked-light")
    dialog.get_by_role("button", name="Close").click()
    expect(operator.page.get_by_text("98 devices", exact=True)).to_be_visible()
    assert large.get("/device-totals?text=rack=55")["states"]["revoked"] == 2


def test_who_may_only_look_changes_nothing(operator: Visitor, large: Service) -> None:
    order = {"name": "looks", "scopes": ["read"], "ttl_days": 1}
    operator.page.get_by_role("button", name="Sign out").click()
    operator.page.goto(f"{large.url}/#key={large.post('/api-keys', order)['key']}&next=/fleet")
    operator.heading("Fleet")
    choose(operator, "pi-00003")
    revoke = operator.page.get_by_role("button", name="Revoke …")
    expect(revoke).to_be_disabled()
    expect(revoke).to_have_attribute("title", re.compile("lacks the scope devices:admin"))
