"""Following trust documents: what a device believes next, wherever it is killed."""

from __future__ import annotations

import json
import os
import time

import pytest

from pock_agent import cli
from pock_agent.errors import Refused
from pock_agent.trust import keyring
from pock_agent.trust.document import MAX_VERSION
from pock_agent.trust.envelope import open_envelope
from tests.agent.conftest import Device
from tests.agent.driver import spawn
from tests.agent.service_double import (
    Answer,
    Request,
    as_json,
    key_id_of,
    problem,
    rfc3339,
    sign_trust,
)
from tests.agent.trust.authority import Authority, catch_up, service_of, two_of_two


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
    monkeypatch.setattr(f"pock_agent.disk.files.{place or 'sync_directory'}", kill)
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
    monkeypatch.setattr(os, "fsync", full)
    keys = modern.keys
    service = service_of(modern)
    service._session._token = "x"
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
