"""Trust documents: what a device believes after each attack on them, and wherever it is killed."""

from __future__ import annotations

import base64
import copy
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pock_agent import cli, keyring, storage
from pock_agent.envelope import open_envelope
from pock_agent.errors import AgentError, Refused, Untrusted
from pock_agent.identity import Counters, load_key
from pock_agent.service import Service
from pock_agent.trust import MAX_VERSION, pin
from tests.agent.conftest import Device, enroll
from tests.agent.driver import FAST, spawn
from tests.agent.service_double import (
    Answer,
    Request,
    ServiceDouble,
    as_json,
    introduce,
    key_id_of,
    problem,
    public_text,
    rfc3339,
    sign_trust,
    trust_text,
)

Key = Ed25519PrivateKey


class Authority:
    """Who holds the root keys, and signs documents for the double."""

    def __init__(self, double: ServiceDouble) -> None:
        self.double = double
        self.root, self.other_root, self.stranger = (Key.generate() for _ in range(3))
        self.next_key = Key.generate()
        double.key_id = key_id_of(double.key)
        double.chain = [sign_trust(self.text(1, double.key), [self.root])]

    def text(self, version: int, signing: Key | None = None, roots: list[Key] | None = None, **changes: Any) -> Any:
        """What a version says; of version 2 on, the next signing key signs unless another is given."""
        return {**trust_text(version, roots or [self.root], [signing or self.next_key]), **changes}

    def publish(self, document: dict[str, Any]) -> None:
        self.double.chain.append(document)

    def rotate(self) -> None:
        """A new signing key in a proper next version, and the service signs with it."""
        self.publish(sign_trust(self.text(len(self.double.chain) + 1), [self.root]))
        self.double.key, self.double.key_id = self.next_key, key_id_of(self.next_key)


@pytest.fixture
def authority(double: ServiceDouble) -> Authority:
    return Authority(double)


@pytest.fixture
def modern(authority: Authority, double: ServiceDouble, tmp_path: Path) -> Device:
    """A device that got trust document 1 with its enrolment."""
    return enroll(double, tmp_path / "state")


def service_of(device: Device) -> Service:
    return Service(device.identity, load_key(device.state.key), Counters(device.state), FAST)


def catch_up(device: Device, newest: int = 2) -> int | None:
    """What the device believes after it was told of a version; memory and disk agree."""
    keys = device.keys
    keys.catch_up(service_of(device), newest)
    assert device.keys.version == keys.version and device.keys.key_ids == keys.key_ids
    return keys.version


Forge = Callable[[Authority], dict[str, Any]]


def changed(**changes: Any) -> Forge:
    """A version 2 that is properly signed and says something else in these fields."""
    return lambda a: sign_trust({**a.text(2), **changes}, [a.root])


def without(name: str) -> Forge:
    def forge(a: Authority) -> dict[str, Any]:
        text = a.text(2)
        del text[name]
        return sign_trust(text, [a.root])

    return forge


def resigned(forge: Callable[[dict[str, Any]], Any]) -> Forge:
    """A proper version 2, changed after it was signed."""

    def forged(a: Authority) -> dict[str, Any]:
        document = sign_trust(a.text(2), [a.root])
        return dict(forge(document) or document)

    return forged


def flip(name: str) -> Callable[[dict[str, Any]], Any]:
    def change(document: dict[str, Any]) -> None:
        place = document if name == "payload" else document["signatures"][0]
        raw = bytearray(base64.b64decode(place[name]))
        raw[len(raw) // 2] ^= 1
        place[name] = base64.b64encode(raw).decode()

    return change


def two_of_two(a: Authority, signers: list[Key]) -> dict[str, Any]:
    """A version 2 of which two root keys have to sign."""
    keys = {"keys": [public_text(a.root), public_text(a.other_root)], "threshold": 2}
    return sign_trust(a.text(2, root=keys), signers)


def same_key_twice(a: Authority) -> dict[str, Any]:
    document = two_of_two(a, [a.root])
    document["signatures"] *= 2
    return document


ATTACKS: dict[str, tuple[Forge, str]] = {
    "a stranger signed": (lambda a: sign_trust(a.text(2), [a.stranger]), "0 of the root keys of version 1"),
    "nobody signed": (lambda a: sign_trust(a.text(2), []), "0 of the root keys of version 1"),
    "the signing key signed": (lambda a: sign_trust(a.text(2), [a.double.key]), "0 of the root keys of version 1"),
    "new root keys appoint themselves": (
        lambda a: sign_trust(a.text(2, roots=[a.stranger]), [a.stranger]),
        "0 of the root keys of version 1",
    ),
    "new root keys have not agreed": (
        lambda a: sign_trust(a.text(2, roots=[a.other_root]), [a.root]),
        "0 of its own root keys",
    ),
    "one of two signed": (lambda a: two_of_two(a, [a.root]), "1 of its own root keys"),
    "one of two signed twice": (same_key_twice, "1 of its own root keys"),
    "a signature of another key under the name of the root key": (
        resigned(lambda d: d["signatures"][0].update(signature=base64.b64encode(bytes(64)).decode())),
        "0 of the root keys",
    ),
    "one bit of the text is changed": (resigned(flip("payload")), ""),
    "one bit of the signature is changed": (resigned(flip("signature")), "0 of the root keys"),
    "signed as work, not as trust": (
        lambda a: {
            **a.double.seal(a.text(2), a.root),
        },
        "unknown field",
    ),
    "a version is left out": (lambda a: sign_trust(a.text(3), [a.root]), "has version 3"),
    "the same version again": (lambda a: sign_trust(a.text(1), [a.root]), "has version 1"),
    "version 0": (lambda a: sign_trust(a.text(0), [a.root]), "outside 1.."),
    "a version beyond all others": (lambda a: sign_trust(a.text(MAX_VERSION + 1), [a.root]), "outside 1.."),
    "a version that is a truth value": (changed(version=True), "int was expected"),
    "a version that is a text": (changed(version="2"), "int was expected"),
    "threshold 0": (
        lambda a: sign_trust(a.text(2, root={"keys": [public_text(a.root)], "threshold": 0}), [a.root]),
        "outside",
    ),
    "a threshold above the keys": (
        lambda a: sign_trust(a.text(2, root={"keys": [public_text(a.root)], "threshold": 2}), [a.root]),
        "outside 1..1",
    ),
    "no root keys": (changed(root={"keys": [], "threshold": 1}), "0 keys"),
    "no signing keys": (changed(signing={"keys": []}), "0 keys"),
    "too many signing keys": (
        lambda a: changed(signing={"keys": [public_text(Key.generate()) for _ in range(17)]})(a),
        "17 keys",
    ),
    "a root key twice, to be counted twice": (
        lambda a: sign_trust(a.text(2, root={"keys": [public_text(a.root)] * 2, "threshold": 2}), [a.root]),
        "twice",
    ),
    "a key that is too short": (changed(signing={"keys": ["AAAA"]}), "3 bytes instead of 32"),
    "a key that is no base64": (changed(signing={"keys": ["!" * 44]}), "base64"),
    "a key that is a number": (changed(signing={"keys": [7]}), "no key"),
    "an unknown field": (changed(delegations={}), "unknown field 'delegations'"),
    "an unknown field of root": (changed(root={"keys": [], "threshold": 1, "x": 1}), "unknown field 'x'"),
    "no expiry": (without("expires_at"), "lacks the field 'expires_at'"),
    "an expiry that is a number": (changed(expires_at=9e9), "RFC 3339"),
    "another type of document": (changed(type="pock-work"), "another type"),
    "a newer format": (changed(format=2), "update this agent"),
    "a list": (lambda a: sign_trust([1], [a.root]), "not an object"),
    "no JSON": (lambda a: sign_trust(b"\xff{", [a.root]), "not valid JSON"),
    "a field given twice": (
        lambda a: sign_trust(json.dumps(a.text(2)).encode()[:-1] + b', "version": 2}', [a.root]),
        "given twice",
    ),
    "nesting that exhausts the stack": (lambda a: sign_trust(b"[" * 40_000, [a.root]), "not valid JSON"),
    "NaN": (lambda a: sign_trust(b'{"version": NaN}', [a.root]), "not valid JSON"),
    "a text that is too long": (lambda a: sign_trust(b" " * 70_000, [a.root]), "longer than"),
    "an answer that is too long": (lambda a: sign_trust(b" " * 3_000_000, [a.root]), "longer than"),
    "too many signatures": (resigned(lambda d: {**d, "signatures": d["signatures"] * 33}), "33 signatures"),
    "an unknown field beside the payload": (resigned(lambda d: {**d, "note": 1}), "unknown field 'note'"),
    "no signatures at all": (resigned(lambda d: {"payload": d["payload"]}), "lacks the field"),
    "signatures that are a text": (resigned(lambda d: {**d, "signatures": "x"}), "list was expected"),
    "a payload that is no base64": (resigned(lambda d: {**d, "payload": "%"}), "base64"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_next_version_is_not_believed_when(
    name: str, modern: Device, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    forge, reason = ATTACKS[name]
    before = modern.state.trust.read_bytes()
    authority.publish(forge(authority))
    assert catch_up(modern) == 1
    assert modern.state.trust.read_bytes() == before
    assert "after version 1 is not used" in caplog.text and reason in caplog.text


def test_a_new_signing_key_is_used_at_once(modern: Device, authority: Authority) -> None:
    assert modern.carry_out()["state"] == "succeeded"
    authority.rotate()
    assert modern.carry_out()["state"] == "succeeded"
    assert (modern.keys.version, modern.keys.key_ids) == (2, (key_id_of(authority.next_key),))


def test_a_new_version_is_fetched_while_there_is_no_work(modern: Device, authority: Authority) -> None:
    authority.rotate()
    process = spawn(modern.state.root)
    try:
        modern.double.wait_for(lambda: modern.keys.version == 2, "version 2")
    finally:
        process.kill()
        process.communicate()


def test_a_device_that_always_has_work_is_told_too(modern: Device, authority: Authority) -> None:
    """Between jobs; the key of its next job is known before that arrives."""
    authority.publish(sign_trust(authority.text(2, modern.double.key), [authority.root]))
    assert modern.carry_out()["state"] == "succeeded"
    assert modern.keys.version == 2


def test_root_keys_change_one_version_at_a_time(modern: Device, authority: Authority) -> None:
    """Version 3 is signed by the root key of version 2 alone, which a device at version 1 has never seen."""
    authority.publish(
        sign_trust(authority.text(2, roots=[authority.other_root]), [authority.root, authority.other_root])
    )
    authority.publish(sign_trust(authority.text(3, roots=[authority.other_root]), [authority.other_root]))
    assert catch_up(modern, 3) == 3
    authority.publish(sign_trust(authority.text(4), [authority.root]))
    assert catch_up(modern, 4) == 3


def test_two_of_two_root_keys(modern: Device, authority: Authority) -> None:
    both = [authority.root, authority.other_root]
    authority.publish(two_of_two(authority, both))
    authority.publish(sign_trust(authority.text(3, roots=both), [authority.root]))
    assert catch_up(modern, 3) == 2
    authority.double.chain[2] = sign_trust(authority.text(3, roots=both), both)
    assert catch_up(modern, 3) == 3


def test_a_retired_key_signs_nothing_any_more(modern: Device, authority: Authority) -> None:
    """A thief of the first signing key, once the device has the next version."""
    stolen = modern.double.seal(modern.job(), modern.double.key)
    authority.rotate()
    assert catch_up(modern) == 2
    modern.double.give(stolen)
    assert not modern.run()
    assert modern.double.counts["lease"] == 0
    with pytest.raises(Refused, match="trusts"):
        open_envelope(stolen, modern.identity, modern.keys)


def test_a_root_key_signs_no_work(modern: Device, authority: Authority) -> None:
    modern.double.key, modern.double.key_id = authority.root, key_id_of(authority.root)
    modern.give()
    assert not modern.run()
    assert modern.double.counts["lease"] == 0


def test_the_key_pinned_at_enrolment_counts_for_nothing_beside_a_document(modern: Device, authority: Authority) -> None:
    authority.rotate()
    assert catch_up(modern) == 2
    assert modern.identity.key_id not in modern.keys.key_ids
    assert modern.keys.signing_key(modern.identity.key_id) is None


@pytest.mark.parametrize("seconds", [-1.0, -1e9])
def test_no_work_under_an_expired_document(seconds: float, modern: Device, authority: Authority) -> None:
    """Whoever holds a revoked key and keeps the next version back gains time until the end of the last one only."""
    over = rfc3339(time.time() + seconds)
    authority.publish(sign_trust(authority.text(2, modern.double.key, expires_at=over), [authority.root]))
    assert catch_up(modern) == 2
    run = modern.give()
    assert not modern.run()
    assert modern.double.counts["lease"] == 0
    assert "expired" in modern.double.results[run][0]["reason"]


def test_an_expired_document_leads_to_its_successor(modern: Device, authority: Authority) -> None:
    authority.publish(sign_trust(authority.text(2, expires_at=rfc3339(0)), [authority.root]))
    authority.rotate()
    assert catch_up(modern, 3) == 3
    assert modern.carry_out()["state"] == "succeeded"


def test_a_device_without_a_clock_lives_no_earlier_than_its_document(
    modern: Device, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts in 1970; work that ended before the document was issued is over, whatever its clock says."""
    old = modern.job(expires_at=rfc3339(time.time() - 60))
    monkeypatch.setattr(time, "time", lambda: 100.0)
    modern.double.give(modern.double.seal(old))
    assert not modern.run()
    assert "expired" in modern.double.results[old["run_id"]][0]["reason"]


def test_a_service_that_goes_back_is_not_followed(modern: Device, authority: Authority) -> None:
    authority.rotate()
    assert catch_up(modern) == 2
    modern.double.chain.pop()
    assert catch_up(modern, 1) == 2
    modern.double.chain.append(modern.double.chain[0])
    assert catch_up(modern, 3) == 2


@pytest.mark.parametrize(
    "fault", [problem(404, "none", 1005), problem(404, "a proxy's", 0), problem(500, "x"), Answer(200, b"<")]
)
def test_a_version_that_is_announced_and_not_there(fault: Answer, modern: Device, authority: Authority) -> None:
    """The device works on with what it has."""
    modern.double.announced = 9
    modern.double.on("trust", lambda request: fault)
    assert modern.carry_out()["state"] == "succeeded"
    assert catch_up(modern, 9) == 1


@pytest.mark.parametrize("header", ["-1", "1e9", "9" * 5000, "", "\u00b2", "x"])
def test_an_announcement_that_is_no_version(header: str, modern: Device, authority: Authority) -> None:
    modern.double.announced = header  # type: ignore[assignment]
    modern.double.on("work", lambda request: None)
    assert modern.carry_out()["state"] == "succeeded"


def test_a_chain_without_end_is_followed_in_portions(modern: Device, authority: Authority) -> None:
    def endless(request: Request) -> Answer:
        return as_json(sign_trust(authority.text(int(request.argument)), [authority.root]))

    modern.double.on("trust", endless)
    assert catch_up(modern, MAX_VERSION) == 1 + keyring._STEPS


def test_after_trouble_the_agent_waits_before_it_asks_again(modern: Device, authority: Authority) -> None:
    modern.double.on("trust", lambda request: Answer(500))
    keys, service = modern.keys, service_of(modern)
    keys._not_before = 0.0
    keys.catch_up(service, 2)
    keys._not_before = time.monotonic() + 60
    keys.catch_up(service, 2)
    assert modern.double.counts["trust"] == 1


# Killed at any point.


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


@pytest.mark.parametrize("moment", ["before the file is written", "before it is renamed", "after it was renamed"])
def test_killed(moment: str, modern: Device, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was reached is whole, and the agent goes on from there."""
    authority.rotate()
    authority.publish(sign_trust(authority.text(3), [authority.root]))

    def kill(*unused: object) -> None:
        raise Killed

    place = {"before the file is written": "write_atomically", "before it is renamed": "os.rename"}.get(moment)
    monkeypatch.setattr(f"pock_agent.storage.{place or 'sync_directory'}", kill)
    with pytest.raises(Killed):
        modern.keys.catch_up(service_of(modern), 3)
    monkeypatch.undo()
    assert modern.keys.version == (1 if place else 2)
    assert catch_up(modern, 3) == 3
    assert modern.carry_out()["state"] == "succeeded"


def test_killed_while_it_fetches(modern: Device, authority: Authority) -> None:
    authority.rotate()
    gate = modern.double.hold("trust")
    process = spawn(modern.state.root)
    assert gate.arrived.wait(10)
    process.kill()
    process.communicate()
    gate.released.set()
    assert modern.keys.version == 1
    modern.double.faults.clear()
    assert modern.carry_out()["state"] == "succeeded"
    assert modern.keys.version == 2


def test_a_full_disk_leaves_the_version_of_before(
    modern: Device, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*unused: object) -> None:
        raise OSError(28, "No space left on device")

    authority.rotate()
    monkeypatch.setattr(storage.os, "fsync", full)
    keys = modern.keys
    service = service_of(modern)
    service._token = "x"
    keys.catch_up(service, 2)
    assert keys.version == 1
    monkeypatch.undo()
    assert catch_up(modern) == 2


def test_a_damaged_document_is_named(modern: Device, capsys: pytest.CaptureFixture[str]) -> None:
    stored = json.loads(modern.state.trust.read_text())
    for damage in (b"{", json.dumps({**stored, "device_id": "x"}).encode(), b'{"document": {}}', b"[]"):
        modern.state.trust.write_bytes(damage)
        assert cli.main(["run", "--state-dir", str(modern.state.root)]) == 2
        assert "trust.json" in capsys.readouterr().err


# Enrolment, and devices that were enrolled before.


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PLACES = ["type", "format", "version", "issued_at", "expires_at", "root", "signing", "root/keys", "root/threshold"]
KEY = Key.generate()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), value=JSON)
def test_any_value_anywhere_is_read_or_refused_and_nothing_else(place: str, value: Any) -> None:
    text = copy.deepcopy(trust_text(1, [KEY], [KEY]))
    *parents, last = place.split("/")
    target = text
    for name in parents:
        target = target[name]
    target[last] = value
    try:
        assert pin(sign_trust(text, [KEY])).version >= 1
    except Untrusted as error:
        logging.debug("%s", error)


@settings(max_examples=100, deadline=None)
@given(document=JSON | st.dictionaries(st.sampled_from(["payload", "signatures"]), JSON))
def test_any_document_is_refused_and_nothing_else(document: Any) -> None:
    with pytest.raises(Untrusted):
        pin(document)
