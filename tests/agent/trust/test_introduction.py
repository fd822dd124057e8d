"""Trust documents at enrolment, and for devices that were enrolled before there were any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pock_agent.errors import AgentError
from tests.agent.conftest import Device, enroll
from tests.agent.service_double import (
    ServiceDouble,
    as_json,
    introduce,
    sign_trust,
)
from tests.agent.trust.authority import Authority, Key, catch_up


@pytest.mark.parametrize("name", ["not signed", "another key signs work", "no document"])
def test_an_enrolment_with_a_document_that_is_not_good(
    name: str, authority: Authority, double: ServiceDouble, tmp_path: Path
) -> None:
    double.chain = [
        {
            "not signed": sign_trust(authority.text(1, double.key), [authority.stranger]),
            "another key signs work": sign_trust(authority.text(1), [authority.root]),
            "no document": {"payload": 1},
        }[name]
    ]
    with pytest.raises(AgentError, match="trust document"):
        enroll(double, tmp_path / "state")
    assert not (tmp_path / "state" / "identity.json").exists()


def test_a_document_left_behind_by_an_enrolment_cut_short_is_not_kept(
    authority: Authority, double: ServiceDouble, tmp_path: Path
) -> None:
    device = enroll(double, tmp_path / "state")
    device.state.identity.unlink()
    double.chain = []
    again = enroll(double, tmp_path / "state")
    assert again.keys.version is None
    assert again.carry_out()["state"] == "succeeded"


def test_a_device_enrolled_before_is_introduced(device: Device, double: ServiceDouble) -> None:
    """The service learned of trust documents after the device pinned its key: that key vouches for the newest."""
    pinned, name = double.key, device.identity.key_id
    before = device.state.identity.read_bytes()
    authority = Authority(double)
    authority.publish(sign_trust(authority.text(2, pinned), [authority.root]))
    double.on(
        "introduction", lambda request: as_json(introduce(double.chain[-1], device.identity.device_id, name, pinned))
    )
    assert catch_up(device) == 2
    assert device.state.identity.read_bytes() == before
    authority.rotate()
    assert device.carry_out()["state"] == "succeeded"
    assert device.keys.version == 3


def test_without_trust_documents_the_pinned_key_holds(device: Device) -> None:
    """A service of before: nothing is announced, and an unknown key is refused."""
    assert device.carry_out()["state"] == "succeeded"
    device.double.key_id = "k2"
    device.give()
    assert not device.run()
    assert device.keys.version is None and not device.state.trust.exists()


Introduce = Callable[[Authority, Device, Key], Any]
FALSE_INTRODUCTIONS: dict[str, Introduce] = {
    "by another key": lambda a, d, k: introduce(a.double.chain[0], d.identity.device_id, "k1", a.stranger),
    "by the root key": lambda a, d, k: introduce(a.double.chain[0], d.identity.device_id, "k1", a.root),
    "for another device": lambda a, d, k: introduce(a.double.chain[0], "another", "k1", k),
    "of another document": lambda a, d, k: {
        **introduce(a.double.chain[0], d.identity.device_id, "k1", k),
        "document": sign_trust(a.text(1), [a.stranger]),
    },
    "of a document that its root keys did not sign": lambda a, d, k: introduce(
        sign_trust(a.text(1), [a.stranger]), d.identity.device_id, "k1", k
    ),
    "under the name of another key": lambda a, d, k: introduce(a.double.chain[0], d.identity.device_id, "k2", k),
    "without a signature": lambda a, d, k: {"document": a.double.chain[0], "key_id": "k1"},
    "that is nothing": lambda a, d, k: {},
}


@pytest.mark.parametrize("name", FALSE_INTRODUCTIONS)
def test_an_introduction_is_not_believed(
    name: str, device: Device, double: ServiceDouble, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(double)
    forged = FALSE_INTRODUCTIONS[name](authority, device, double.key)
    double.on("introduction", lambda request: as_json(forged))
    assert catch_up(device) is None
    assert not device.state.trust.exists() and "is not used" in caplog.text
