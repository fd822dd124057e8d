"""What stands between the agent and the service answers in its own words: that ends neither a job nor the agent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pytest

from pock_agent.connection.service import Service
from pock_agent.disk.counters import Counters
from pock_agent.disk.identity import load_key
from pock_agent.errors import NotWelcome
from tests.agent.conftest import Device
from tests.agent.driver import FAST
from tests.agent.service_double import Answer, Request, as_json, problem
from tests.sweeps import some

ROUTES = ("session", "work", "lease", "blob", "events", "upload", "result", "heartbeat")
STATUSES = (401, 403, 404, 409, 413, 502)
PAGES = {
    "a page": lambda status: Answer(status, b"<html><title>refused</title></html>", {"Content-Type": "text/html"}),
    "another service's problem": lambda status: as_json({"title": "refused", "detail": "not here"}, status),
    "a list": lambda status: as_json(["refused"], status),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("page", some(PAGES.values(), 2), ids=some(PAGES, 2))
def test_a_proxys_refusals_are_repeated(route: str, page: Callable[[int], Answer], device: Device) -> None:
    def refused_at_first(request: Request) -> Answer | None:
        return page(STATUSES[request.number - 1]) if request.number <= len(STATUSES) else None

    device.double.on(route, refused_at_first)
    assert device.carry_out()["state"] == "succeeded"


@pytest.mark.parametrize("route", ROUTES)
def test_a_busy_service_is_asked_again_when_it_says(route: str, device: Device) -> None:
    busy = [(429, 1043), (503, 1042), (503, 1024), (408, 1040)]

    def busy_at_first(request: Request) -> Answer | None:
        if request.number > len(busy):
            return None
        answer = problem(busy[request.number - 1][0], "later", busy[request.number - 1][1])
        return replace(answer, headers={**answer.headers, "Retry-After": "0"})

    device.double.on(route, busy_at_first)
    assert device.carry_out()["state"] == "succeeded"


@pytest.mark.parametrize(("status", "code"), [(409, 1019), (401, 1020), (401, 1018)])
def test_the_services_own_code_ends_the_agent(status: int, code: int, device: Device) -> None:
    device.double.on("session", lambda request: problem(status, "no longer", code))
    with pytest.raises(NotWelcome, match="no longer"):
        device.run()


@pytest.mark.parametrize("hours", [-30 * 24, 1, 30 * 24])
def test_a_wrong_clock_is_set_by_the_service(hours: int, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service refuses what was not signed within ten minutes; the agent signs again by the service's clock."""
    real = time.time

    def stale(request: Request) -> Answer | None:
        signed = datetime.fromisoformat(request.json["issued_at"]).timestamp()
        return problem(425, "set the clock", 1025) if abs(signed - real()) > 600 else None

    device.double.on("session", stale)
    monkeypatch.setattr("pock_agent.connection.session.time", SimpleNamespace(time=lambda: real() + 3600 * hours))
    service = Service(device.identity, load_key(device.state.key), Counters(device.state), FAST)
    assert service.heartbeat(None, None, None).heartbeat_seconds > 0
    assert device.double.counts["session"] == 2
