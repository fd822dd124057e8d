"""The keeper: the owner's files, the service's signed policies, what is counted, what heartbeats say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pock_agent.device import network
from pock_agent.device.power import EnergyMeter
from pock_agent.place import this_machine
from pock_agent.place.this_machine import ThisMachine
from pock_agent.policy.keeper import PolicyKeeper, PolicyTopic
from tests.agent.conftest import Device
from tests.agent.driver import FAST

NOON = 1_795_435_200.0


@pytest.fixture
def make(device: Device, tmp_path: Path) -> Callable[[], PolicyKeeper]:
    """A keeper that sees another machine, and a clock that stands."""
    root = tmp_path / "root"
    root.mkdir()
    settings = FAST.__class__(**{**vars(FAST), "policy_seconds": 0.0, "metered_seconds": 0.0})
    return lambda: PolicyKeeper(
        device.state, device.identity.device_id, settings, ThisMachine(root), root, lambda: NOON
    )


def battery(root: Path, status: str) -> None:
    folder = root / "sys/class/power_supply/BAT0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "type").write_text("Battery\n")
    (folder / "status").write_text(status + "\n")


def test_without_a_policy_all_is_allowed_and_nothing_is_looked_at(
    make: Callable[[], PolicyKeeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(this_machine, "metered", lambda: pytest.fail("asked"))
    assert make().verdict().allowed and not make().any


def test_the_owner_s_two_files_must_both_allow_it(
    make: Callable[[], PolicyKeeper], device: Device, tmp_path: Path
) -> None:
    """They are read again when they change."""
    keeper, root = make(), tmp_path / "root"
    battery(root, "Discharging")
    (root / "etc/pock-agent").mkdir(parents=True)
    (root / "etc/pock-agent/policy.toml").write_text("charging = true\n")
    device.state.owners_policy.write_text("max_minutes_per_day = 0\n")
    assert [one.cause.value for one in keeper.verdict().obstacles] == ["charging", "minutes"]
    battery(root, "Charging")
    assert [one.cause.value for one in keeper.verdict().obstacles] == ["minutes"]
    device.state.owners_policy.unlink()
    assert keeper.verdict().allowed
    battery(root, "Not charging")
    assert keeper.verdict().allowed


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"charging = ", "it is no TOML"),
        (b"\xff", "it is no TOML"),
        (b"speed = 3", "there is no rule 'speed'"),
        (b"#" * 70_000, "it is longer than 65536 bytes"),
        (b"a=" + b"[" * 30_000, "it is no TOML"),
    ],
)
def test_a_file_that_cannot_be_followed(
    content: bytes, sentence: str, make: Callable[[], PolicyKeeper], device: Device
) -> None:
    device.state.owners_policy.write_bytes(content)
    verdict = make().verdict()
    assert sentence in verdict.reason and str(device.state.owners_policy) in verdict.reason


@pytest.mark.parametrize(
    ("program", "said", "expected"),
    [
        ("busctl", "u 1", True),
        ("busctl", "u 2", False),
        ("busctl", "u 3", True),
        ("busctl", "u 4", False),
        ("busctl", "u 0", None),
        ("busctl", "", None),
        ("termux-wifi-connectioninfo", '{"supplicant_state": "COMPLETED"}', False),
        ("termux-wifi-connectioninfo", '{"supplicant_state": "DISCONNECTED"}', True),
        ("termux-wifi-connectioninfo", "null", None),
        ("termux-wifi-connectioninfo", "[" * 100_000, None),
        ("something-else", "", None),
    ],
)
def test_whether_the_network_is_metered(
    program: str, said: str, expected: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / program
    (tmp_path / "said").write_text(said)
    script.write_text(f'#!/bin/sh\nread line < {tmp_path}/said; echo "$line"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert network.metered() is expected


def test_work_is_counted_while_it_goes_on_and_kept(make: Callable[[], PolicyKeeper], device: Device) -> None:
    class Meter(EnergyMeter):
        """Shows what it is told to."""

        shown: float | None = 5.0

        @property
        def joules(self) -> float | None:
            return self.shown

    device.state.owners_policy.write_text("max_joules_per_day = 10\n")
    keeper, meter = make(), Meter(None)
    with keeper.working(meter):
        assert keeper.verdict().allowed
        meter.shown = 14.0
        assert keeper.verdict().allowed
        meter.shown = 15.5
        assert "at most 10 joules a day, and 10 were used" in keeper.verdict().reason
        meter.shown = 16.0
        time.sleep(0.01)
    stored = json.loads(device.state.ledger.read_text())
    ((day, use),) = stored.items()
    assert day.startswith("2026-11-2") and use["joules"] == 11.0 and use["seconds"] >= 0.01
    assert not make().verdict().allowed


def sealed(
    device: Device, key: Ed25519PrivateKey | None = None, prefix: bytes = b"pock-policy\n", **changes: Any
) -> Any:
    """A proper envelope with a policy; `changes` replace its parts."""
    payload = {
        "type": "pock-policy",
        "format": 1,
        "device_id": device.identity.device_id,
        "counter": 1,
        "issued_at": "2026-11-23T12:00:00Z",
        "digest": "ab" * 32,
        "policies": {"pool": None, "device": {"max_minutes_per_day": 0}},
        **changes,
    }
    raw = json.dumps(payload).encode()
    envelope = device.double.seal(raw)
    signature = (key or device.double.key).sign(prefix + raw)
    return {**envelope, "signature": __import__("base64").b64encode(signature).decode()}


def test_the_service_s_policy_is_kept(make: Callable[[], PolicyKeeper], device: Device) -> None:
    keeper = make()
    topic = PolicyTopic(keeper, device.keys)
    assert topic.say() == {"policy": "", "resting": None}
    topic.hear({"policy": sealed(device)})
    for one in (keeper, make()):  # also after a restart, and without the service
        assert one.verdict().reason.startswith("this device's policy at the service: at most 0 minutes a day")
        assert (one.digest, one.counter) == ("ab" * 32, 1)
    assert topic.say()["policy"] == "ab" * 32
    topic.hear({"policy": sealed(device, counter=2, policies={"pool": {"charging": False}, "device": None})})
    assert keeper.verdict().allowed


BAD: list[tuple[str, Callable[[Device], Any]]] = [
    ("another key", lambda device: sealed(device, Ed25519PrivateKey.generate())),
    ("signed as work", lambda device: sealed(device, prefix=b"")),
    ("another device's", lambda device: sealed(device, device_id="somebody")),
    ("a replay", lambda device: sealed(device, counter=1)),
    ("unknown field", lambda device: sealed(device, counter=9, more=1)),
    ("unknown rule", lambda device: sealed(device, counter=9, policies={"pool": None, "device": {"speed": 1}})),
    ("unknown source", lambda device: sealed(device, counter=9, policies={"pool": None, "device": None, "x": None})),
    ("no digest", lambda device: sealed(device, counter=9, digest="abc")),
    ("another type", lambda device: sealed(device, counter=9, type="pock-trust")),
    ("too long", lambda device: sealed(device, counter=9, policies={"pool": None, "device": None, "y": "x" * 40_000})),
    ("no envelope", lambda device: {"payload": 1}),
    ("no object", lambda device: "text"),
    ("a list", lambda device: []),
    ("no base64", lambda device: {**sealed(device, counter=9), "payload": "é"}),
]


@pytest.mark.parametrize("bad", [row[1] for row in BAD], ids=[row[0] for row in BAD])
def test_what_is_not_good_changes_nothing(
    bad: Callable[[Device], Any], make: Callable[[], PolicyKeeper], device: Device
) -> None:
    keeper = make()
    topic = PolicyTopic(keeper, device.keys)
    topic.hear({"policy": sealed(device)})
    topic.hear({"policy": bad(device)})
    assert keeper.counter == make().counter == 1 and not keeper.verdict().allowed


@pytest.mark.parametrize("content", [b"{", b"{}", b"[]", b'{"device_id": 3}'])
def test_damaged_policies_of_the_service_are_fetched_anew(
    content: bytes, make: Callable[[], PolicyKeeper], device: Device
) -> None:
    make().take(sealed(device), device.keys)
    device.state.policies.write_bytes(content)
    keeper = make()
    assert (keeper.digest, keeper.counter) == ("", 0)
    keeper.take(sealed(device), device.keys)
    assert not keeper.verdict().allowed
