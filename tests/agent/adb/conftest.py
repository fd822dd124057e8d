"""A phone that a fake adb reaches, and an agent that is enrolled for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pock_agent.disk.directory import StateDirectory
from pock_agent.life import enrollment
from pock_agent.place.adb.bridge import Bridge
from pock_agent.place.choice import Wish, place_for, serial_for
from tests.agent.adb.phone import FakePhone
from tests.agent.conftest import Device
from tests.agent.driver import FAST
from tests.agent.service_double import ServiceDouble


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePhone:
    folder = tmp_path / "phones"
    folder.mkdir()
    found = FakePhone(folder)
    monkeypatch.setenv("ADB", found.adb)
    return found


@pytest.fixture
def bridge(phone: FakePhone) -> Bridge:
    return Bridge(phone.adb, phone.serial)


@pytest.fixture
def device(double: ServiceDouble, phone: FakePhone, tmp_path: Path) -> Device:
    """An agent that is enrolled for the phone."""
    double.tokens.add("good-token")
    state, wish = StateDirectory(tmp_path / "state"), Wish(adb="")
    serial = serial_for(wish)
    asked = enrollment.Enrollment(double.url, "good-token", "phone", None, serial)
    return Device(double, state, enrollment.enroll(asked, state, FAST, place_for(wish, serial, "test")))
